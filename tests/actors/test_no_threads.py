"""Where no thread can be started: whoever asks hears of it at once, nothing is left half alive, and later all works again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, needs_input, results_of, scripted
from tests.support.threads import CLOCK, REFUSAL, WATCHDOG, idle, no_threads
from understudy.actors.actor.ref import ActorRef
from understudy.actors.system.actor_system import runs_of
from understudy.actors.system.run_manager import RunManager
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, calls, says


class Echo(us.Actor[object]):
    """Replies with the message; does what it is told by functions of itself."""

    def __init__(self, happened: list[str] | None = None) -> None:
        self.happened = happened if happened is not None else []

    def on_start(self) -> None:
        self.happened.append("start")

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message(self) if callable(message) else message

    def on_stop(self) -> None:
        self.happened.append("stop")


def begun(system: us.ActorSystem, agent: us.Agent) -> None:
    """Have the agent's actor begin, and its thread go."""
    cell = runs_of(system).prepare(agent, "go", RunOptions()).cell
    eventually(lambda: cell.state == "running", "it began")
    idle(ActorRef(cell))


# --- runs


@pytest.mark.parametrize("spared", [(), (WATCHDOG,)], ids=["not even a watchdog", "a watchdog and no more"])
def test_a_run_is_refused_and_the_next_one_is_not(spared: tuple[str, ...]) -> None:
    agent, system = scripted(says("ok")), us.ActorSystem("shop")

    with no_threads(*spared):
        with pytest.raises(us.AgentDown, match=REFUSAL):
            agent.run("go", system=system)

        assert (system.in_flight, system.hung) == (0, 0)
    assert finished(agent.run("go", system=system)).text == "ok"
    assert system.stop(WAIT) == ()


def test_the_actor_of_an_agent_needs_no_thread_to_begin_on() -> None:
    system = us.ActorSystem("shop")

    with no_threads():
        cell = runs_of(system).prepare(scripted(says("ok")), "go", RunOptions()).cell

        assert cell.state == "running"


def test_what_is_submitted_without_a_watchdog_is_refused_at_once() -> None:
    agent, system = scripted(says("ok")), us.ActorSystem("shop")

    with no_threads():
        with pytest.raises(us.AgentDown, match=REFUSAL):
            agent.submit("go", system=system)

        assert system.in_flight == 0
    assert finished(agent.submit("go", system=system).result(WAIT)).text == "ok"


def test_what_is_submitted_without_a_thread_to_drive_it_has_failed() -> None:
    agent, system = scripted(says("ok")), us.ActorSystem("shop")

    with no_threads(WATCHDOG):
        handle = agent.submit("go", system=system)

        assert isinstance(handle.exception(WAIT), us.AgentDown)
        assert handle.status().phase == "failed"
        assert system.in_flight == 0
    assert finished(agent.submit("go", system=system).result(WAIT)).text == "ok"


def test_a_token_stands_if_its_run_could_not_be_watched() -> None:
    system = us.ActorSystem("shop")
    agent = scripted(says("__ask_user__: who?"), says("Hello, Ada."))
    paused = needs_input(agent.run("go", system=system))
    runs = runs_of(system).prepare(agent, "go", RunOptions()).host
    assert isinstance(runs, RunManager)

    with no_threads(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs._watchdog, "_ticking", False)  # pyright: ignore[reportPrivateUsage]  # it retires after seconds
        with pytest.raises(us.AgentDown, match=REFUSAL):
            agent.resume(paused.token, "Ada", system=system)

    assert finished(agent.resume(paused.token, "Ada", system=system)).text == "Hello, Ada."


@pytest.mark.parametrize("arriving", [1, 8], ids=["who arrives finds none", "who asks finds none"])
def test_of_calls_at_once_those_without_a_thread_become_error_results_and_the_run_goes_on(arriving: int) -> None:
    system, gate, began = us.ActorSystem("shop"), threading.Event(), list[int]()

    def look(number: int) -> str:
        began.append(number)
        assert gate.wait(WAIT)
        return f"saw {number}"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn > 1:
            return says("ok")
        return calls("look", number=0) + calls("look", number=1) + calls("look", number=2) + calls("look", number=3)

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[look])
    begun(system, agent)
    # One that drives the run, and one of a call. On a busy machine an alarm may be set too.
    with no_threads(WATCHDOG, "understudy-clockwork", but=1 + 1, arriving=arriving) as shortage:
        handle = agent.submit("go", system=system)
        eventually(lambda: len(began) + shortage.refused >= 4, "each has a thread or none")
        gate.set()
        outcome = finished(handle.result(WAIT))

    refused = [result for result in results_of(outcome) if result.error_kind == "not_run" and REFUSAL in result.content]
    saw = [result.content for result in results_of(outcome) if result not in refused]
    assert saw == [f"saw {number}" for number in sorted(began)]
    assert len(refused) == 4 - len(began) > 1
    assert (outcome.text, system.hung, system.in_flight) == ("ok", 0, 0)


def test_a_run_whose_deadline_passes_while_there_are_no_threads_ends_all_the_same() -> None:
    gate, system = threading.Event(), us.ActorSystem("shop")

    def hang(request: us.ModelRequest) -> us.ModelTurn:
        gate.wait(3 * WAIT)
        return says("late")

    agent = us.Agent("clerk", model=FunctionModel(hang))
    begun(system, agent)
    with no_threads(WATCHDOG, but=1):  # the one that drives the run
        handle = agent.submit("go", timeout=0.2, system=system)

        assert isinstance(handle.exception(WAIT), us.RunTimedOut)
    gate.set()


# --- actors


def spawned_without_a_thread(happened: list[str]) -> tuple[us.ActorSystem, us.ActorRef[object]]:
    system = us.ActorSystem("shop")
    with no_threads():
        ref = system.spawn(lambda: Echo(happened), name="echo")
        assert not ref.is_alive()
        with pytest.raises(us.AgentDown, match=REFUSAL):
            ref.ask("x")
    return system, ref


def test_an_actor_without_a_thread_to_begin_on_is_down_and_begins_with_the_next_message() -> None:
    happened: list[str] = []

    system, ref = spawned_without_a_thread(happened)

    assert happened == []
    assert not system.health().ok
    assert ref.ask("x") == "x"
    assert ref.is_alive()
    assert happened == ["start"]
    assert system.health().ok
    assert system.stop(WAIT) == ()


def test_who_watches_an_actor_that_could_not_begin_hears_why() -> None:
    heard: list[us.Down] = []
    _, ref = spawned_without_a_thread([])

    ref.on_down("test", heard.append)

    assert [(down.actor, REFUSAL in str(down.reason)) for down in heard] == [("shop/echo", True)]


@pytest.mark.parametrize("began", [True, False])
def test_an_actor_can_be_stopped_without_a_thread_and_its_name_is_free_again(began: bool) -> None:
    happened: list[str] = []
    if began:
        system = us.ActorSystem("shop")
        ref = system.spawn(lambda: Echo(happened), name="echo")
        assert ref.ask("x") == "x"
        idle(ref)
    else:
        system, ref = spawned_without_a_thread(happened)

    with no_threads():
        assert ref.stop(timeout=0)

    assert happened == (["start", "stop"] if began else [])
    with pytest.raises(us.AgentDown, match="has stopped"):
        ref.ask("x")
    assert system.spawn(Echo, name="echo").ask("y") == "y"
    assert system.stop(WAIT) == ()


def test_a_message_that_finds_no_thread_is_refused_and_its_actor_lives_on() -> None:
    happened: list[str] = []
    system = us.ActorSystem("shop")
    ref = system.spawn(lambda: Echo(happened), name="echo")
    assert ref.ask("x") == "x"
    idle(ref)

    with no_threads(), pytest.raises(us.AgentDown, match=f"no thread to run on: {REFUSAL}"):
        ref.ask("x")

    assert ref.ask("y") == "y"
    assert happened == ["start"]


def test_a_group_without_a_thread_to_begin_on_is_given_up_and_begins_with_the_next_messages() -> None:
    system = us.ActorSystem("shop")

    with no_threads():
        group = system.spawn(us.Supervisor("desk", [us.Child(Echo, "a"), us.Child(Echo, "b")]))
        assert not group.is_alive()
        for name in "ab":
            with pytest.raises(us.AgentDown):
                system.find(name).ask("x")

    with pytest.raises(us.AgentDown):  # as for any group that is tried again: the message that has it begin is lost
        system.find("b").ask("x")
    eventually(lambda: all(system.find(name).is_alive() for name in "ab"), "both have begun")
    assert [system.find(name).ask("x") for name in "ab"] == ["x", "x"]
    assert group.is_alive()
    assert system.stop(WAIT) == ()


@pytest.mark.parametrize(("spared", "down"), [((), []), ((CLOCK,), [True])], ids=["no thread at all", "one that waits"])
def test_an_actor_whose_backoff_ends_when_there_are_no_threads_comes_back(
    spared: tuple[str, ...], down: list[bool]
) -> None:
    heard: list[us.Down] = []
    system, entered, gate = us.ActorSystem("shop"), threading.Event(), threading.Event()
    ref = system.spawn(Echo, name="echo", strategy=us.OneForOne(backoff=(0.01, 0.01)))
    ref.on_down("test", heard.append)

    def fail_later(actor: object) -> object:
        entered.set()
        assert gate.wait(WAIT)
        raise ValueError("no")

    failing = ref.ask_future(fail_later)
    assert entered.wait(WAIT)
    with no_threads(*spared):
        gate.set()
        assert isinstance(failing.exception(WAIT), us.AgentCrashed)
        # Without anybody to wait, it begins at once on the thread it has; else it is down until the next message.
        eventually(lambda: heard != [] if down else ref.is_alive(), "it is down, or back")

    assert [REFUSAL in str(word.reason) for word in heard] == down
    assert ref.ask("x", timeout=WAIT) == "x"
    assert system.stop(WAIT) == ()


def later(actor: us.Actor[object]) -> object:
    return actor.after(3600.0, "tick")


def again(actor: us.Actor[object]) -> object:
    return actor.every(3600.0, "tick")


@pytest.mark.parametrize("set_timer", [later, again])
def test_a_timer_without_a_thread_fails_the_actor_that_sets_it_and_the_next_one_is_set(
    set_timer: Callable[[us.Actor[object]], object],
) -> None:
    system, entered, gate = us.ActorSystem("shop"), threading.Event(), threading.Event()
    ref = system.spawn(Echo, name="echo")

    def set_later(actor: us.Actor[object]) -> object:
        entered.set()
        assert gate.wait(WAIT)
        return set_timer(actor)

    setting = ref.ask_future(set_later)
    assert entered.wait(WAIT)
    with no_threads():
        gate.set()
        error = setting.exception(WAIT)

    assert isinstance(error, us.AgentCrashed) and REFUSAL in str(error)
    assert isinstance(ref.ask(set_timer), us.Timer)
    assert system.stop(WAIT) == ()


def test_a_periodic_timer_that_cannot_be_set_again_fails_its_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    system, rings, lives, ticked = us.ActorSystem("shop"), list[float](), list[object](), threading.Event()

    def ring(moment: float, call: Callable[[], object]) -> Alarm:
        rings.append(moment)
        if len(rings) == 2:  # when the first message was taken
            raise RuntimeError(REFUSAL)
        return ring_at(moment, call)

    class Ticks(us.Actor[object]):
        def on_start(self) -> None:
            lives.append(self)
            self.every(0.001, "tick")

        def on_receive(self, message: object) -> object:
            if message == "tick" and len(lives) == 2:
                ticked.set()
            return message

    monkeypatch.setattr("understudy.actors.actor.commands.ring_at", ring)
    ref = system.spawn(Ticks, name="ticks")

    assert ticked.wait(WAIT)  # by the second object, which set it again
    assert ref.ask("x") == "x"
    assert system.stop(WAIT) == ()
