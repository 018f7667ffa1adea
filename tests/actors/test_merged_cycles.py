"""Runs and actors that wait for several others at once: one that would wait for ever gets an error, and no other does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future as StandardFuture
from dataclasses import dataclass

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.actors.waiting.graph import graph
from understudy.testing import FunctionModel, calls, says


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("ring") as system:
        yield system
    eventually(lambda: len(graph) == 0, "no wait was left in the graph")


@dataclass
class Do:
    """Have the actor call this and reply with what it returns."""

    call: Callable[[], object]


class Obedient(us.Actor[Do]):
    def on_receive(self, message: Do) -> object:
        return message.call()


Ref = us.ActorRef[Do]


def obedient(system: us.ActorSystem, *names: str) -> list[Ref]:
    return [system.spawn(Obedient, name=name) for name in names]


def reply() -> object:
    return "reply"


def asking(ref: Ref, call: Callable[[], object] = reply) -> us.Future[object]:
    return ref.ask_future(Do(call), timeout=WAIT)


class Turn:
    """What an actor does in one turn: once it is let go, it waits for something, and keeps the path if that is refused."""

    def __init__(self, ref: Ref, wait: Callable[[], object]) -> None:
        self.paths: list[tuple[str, ...]] = []
        self._wait = wait
        self._go = threading.Event()
        self._begun = threading.Event()
        self.future = ref.ask_future(Do(self._act), timeout=WAIT)
        assert self._begun.wait(WAIT)

    def _act(self) -> object:
        self._begun.set()
        assert self._go.wait(WAIT)
        try:
            return self._wait()
        except us.CircularAgentCall as error:
            self.paths.append(error.path)
            return "refused"

    def go(self) -> us.Future[object]:
        self._go.set()
        return self.future

    def go_and_wait(self) -> None:
        """Let it go, and return once its wait is in the graph."""
        before = len(graph)
        self.go()
        eventually(lambda: len(graph) > before, "its wait is in the graph")


def test_to_collect_is_refused_if_one_of_all_leads_back(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    closer = Turn(a, lambda: us.collect([asking(c), asking(b)]).result(WAIT))
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()

    assert closer.go().result(WAIT) == "refused"

    assert closer.paths == [("ring/a", "ring/b", "ring/a")]
    assert other.future.result(WAIT) == "reply"


def test_who_closes_a_circle_through_somebody_who_collects_is_refused(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    gate = threading.Event()
    collecting = Turn(a, lambda: us.collect([asking(c, lambda: gate.wait(WAIT)), asking(b)]).result(WAIT))
    closer = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    collecting.go_and_wait()

    assert closer.go().result(WAIT) == "refused"

    gate.set()
    assert closer.paths == [("ring/b", "ring/a", "ring/b")]
    assert collecting.future.result(WAIT) == [True, "reply"]


def test_a_member_that_is_done_does_not_lead_back(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    replied, gate = asking(b), threading.Event()
    replied.result(WAIT)
    collecting = Turn(a, lambda: us.collect([replied, asking(c, lambda: gate.wait(WAIT))]).result(WAIT))
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()

    collecting.go_and_wait()
    gate.set()

    assert collecting.future.result(WAIT) == ["reply", True]
    assert other.future.result(WAIT) == "reply"


def test_the_first_of_several_is_not_refused_while_one_of_them_may_come(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    gate = threading.Event()
    racing = Turn(a, lambda: us.first([asking(b), asking(c, lambda: gate.wait(WAIT))]).result(WAIT))
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()

    racing.go_and_wait()
    gate.set()

    assert racing.future.result(WAIT) is True
    assert other.future.result(WAIT) == "reply"


def test_the_first_of_several_is_refused_if_all_lead_back(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    closer = Turn(a, lambda: us.first([asking(b), asking(c)]).result(WAIT))
    others = [Turn(b, lambda: a.ask(Do(reply), timeout=WAIT)), Turn(c, lambda: a.ask(Do(reply), timeout=WAIT))]
    for other in others:
        other.go_and_wait()

    assert closer.go().result(WAIT) == "refused"

    assert closer.paths == [("ring/a", "ring/b", "ring/a")]
    assert [other.future.result(WAIT) for other in others] == ["reply", "reply"]


def test_who_waits_for_the_first_is_woken_when_only_those_are_left_that_lead_back(system: us.ActorSystem) -> None:
    a, b, c = obedient(system, "a", "b", "c")
    gate = threading.Event()

    def fail() -> object:
        assert gate.wait(WAIT)
        raise ValueError("no luck")

    race: list[us.Future[object]] = []

    def wait_for_the_first() -> object:
        racers = [asking(b), asking(c, fail)]
        race.append(us.first(racers))
        return us.collect(race).result()

    racing = Turn(a, wait_for_the_first)
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()
    racing.go_and_wait()

    gate.set()

    assert racing.future.result(WAIT) == "refused"
    assert racing.paths == [("ring/a", "ring/b", "ring/a")]
    assert other.future.result(WAIT) == "reply"
    assert race[0].result(WAIT) == "reply"  # only the wait was refused


def test_a_standard_future_may_always_come(system: us.ActorSystem) -> None:
    a, b = obedient(system, "a", "b")
    theirs: StandardFuture[object] = StandardFuture()

    def race() -> object:
        racers: list[us.Future[object] | StandardFuture[object]] = [asking(b), theirs]
        winner: us.Future[object] = us.first(racers)
        return winner.result(WAIT)

    racing = Turn(a, race)
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()
    racing.go_and_wait()

    theirs.set_result("theirs")

    assert racing.future.result(WAIT) == "theirs"
    assert other.future.result(WAIT) == "reply"


def test_exception_waits_like_result_and_to_look_is_not_to_wait(system: us.ActorSystem) -> None:
    a, b = obedient(system, "a", "b")
    merged: list[us.Future[list[object]]] = []

    def look() -> object:
        with pytest.raises(TimeoutError):
            us.collect([asking(b)]).result(0)
        with pytest.raises(TimeoutError):
            us.collect([asking(b)]).exception(timeout=0)
        merged.append(us.collect([asking(b)]))
        return merged[0].exception(WAIT)

    closer = Turn(a, look)
    other = Turn(b, lambda: a.ask(Do(reply), timeout=WAIT))
    other.go_and_wait()

    assert closer.go().result(WAIT) == "refused"
    assert merged[0].result(WAIT) == ["reply"]


def test_a_wait_that_ended_by_its_timeout_is_forgotten(system: us.ActorSystem) -> None:
    a, b = obedient(system, "a", "b")
    gate = threading.Event()
    gave_up = threading.Event()

    def impatient() -> object:
        merged = us.first([asking(b, lambda: gate.wait(WAIT))])
        with pytest.raises(TimeoutError):
            merged.result(0.01)
        gave_up.set()
        return "went on" if gate.wait(WAIT) else "hung"

    asking_b = Turn(a, impatient)
    asking_b.go()
    assert gave_up.wait(WAIT)
    assert len(graph) == 0

    gate.set()
    assert asking_b.future.result(WAIT) == "went on"


def test_inside_an_actor_too_a_losers_callback_may_wait_for_the_winner(system: us.ActorSystem) -> None:
    (a,) = obedient(system, "a")
    theirs: StandardFuture[object] = StandardFuture()
    loser: StandardFuture[object] = StandardFuture()
    seen = threading.Event()
    loser.add_done_callback(lambda _: seen.wait(WAIT))

    def race() -> object:
        winner: us.Future[object] = us.first([theirs, loser], timeout=WAIT)
        value: object = winner.result()
        seen.set()
        return value

    racing = Turn(a, race)
    racing.go_and_wait()
    theirs.set_result("won")  # the thread that does so is held up by the loser's callback until the winner was seen

    assert seen.is_set()
    assert racing.future.result(WAIT) == "won"


# --- runs


def acting(id: str, act: Callable[[], str]) -> us.Agent:
    return us.Agent(
        id,
        model=FunctionModel(lambda request: says("ok") if request.tool_results else calls("act")),
        tools=[us.tool(name="act")(act)],
    )


def test_to_collect_a_run_of_one_s_own_agent_is_to_call_it() -> None:
    agents: list[us.Agent] = []
    paths: list[tuple[str, ...]] = []
    inner, refused = threading.Event(), threading.Event()

    def collect_myself() -> str:
        if inner.is_set():
            return str(refused.wait(WAIT))
        inner.set()
        try:
            us.collect([agents[1].submit("go"), agents[0].submit("again")]).result(WAIT)
        except us.CircularAgentCall as error:
            paths.append(error.path)
        refused.set()
        return "refused"

    agents.append(acting("me", collect_myself))
    agents.append(acting("other", lambda: "fine"))

    (result,) = results_of(agents[0].run("go", timeout=WAIT))

    assert result.content == "refused"
    assert paths == [("me", "me")]


def test_a_circle_of_runs_through_collected_handles_is_found() -> None:
    first: list[us.RunHandle[str]] = []
    paths: list[tuple[str, ...]] = []
    known = threading.Event()

    def wait_for_the_first() -> str:
        assert known.wait(WAIT)
        try:
            return finished(first[0].result(WAIT)).text
        except us.CircularAgentCall as error:
            paths.append(error.path)
            return "refused"

    second = acting("second", wait_for_the_first)

    def collect() -> str:
        (outcome,) = us.collect([second.submit("go")]).result(WAIT)
        return results_of(outcome)[0].content

    first.append(acting("first", collect).submit("go"))
    eventually(lambda: len(graph) == 1, "the first waits for the second")
    known.set()

    (result,) = results_of(first[0].result(WAIT))

    assert result.content == "refused"
    assert paths == [("second", "first", "second")]
    eventually(lambda: len(graph) == 0, "no wait is left")


def test_one_run_of_several_may_lead_back_to_who_takes_the_first() -> None:
    first: list[us.RunHandle[str]] = []
    refused: list[us.CircularAgentCall] = []
    known, over = threading.Event(), threading.Event()

    def wait_for_the_first() -> str:
        assert known.wait(WAIT)
        try:
            return finished(first[0].result(WAIT)).text
        except us.CircularAgentCall as error:
            refused.append(error)
            raise

    def take_your_time() -> str:
        assert over.wait(WAIT)
        return "took it"

    second, third = acting("second", wait_for_the_first), acting("third", take_your_time)
    first.append(
        acting("first", lambda: us.first([second.submit("go"), third.submit("go")]).result(WAIT).text).submit("go")
    )
    known.set()
    eventually(lambda: len(graph) == 2, "both wait")
    over.set()

    (result,) = results_of(first[0].result(WAIT))

    assert not result.is_error
    assert refused == []
    eventually(lambda: len(graph) == 0, "no wait is left")


@pytest.mark.parametrize("how", ["run", "collect", "map"])
def test_a_circle_through_the_seats_of_two_tools_that_wait_for_runs_is_found(how: str, system: us.ActorSystem) -> None:
    both = threading.Barrier(2)

    def wait_for(agent: us.Agent) -> str:
        if how == "map":
            return str([finished(answer.outcome).text for answer in agent.map(["go"], system=system)])
        if how == "collect":
            return str([each.text for each in us.collect([agent.submit("go", system=system)]).result()])
        return finished(agent.run("go", system=system)).text

    def seat(name: str, inner: list[us.Agent]) -> us.Tool[[], str]:
        held = threading.Lock()  # never released: whoever holds the seat first waits until both are held

        def act() -> str:
            if held.acquire(blocking=False):
                both.wait(WAIT)
            return wait_for(inner[0])

        return us.tool(name=name, max_parallel=1, timeout=None)(act)

    def caller(id: str, tool: us.Tool[[], str]) -> us.Agent:
        def model(request: us.ModelRequest) -> us.ModelTurn:
            return says(request.tool_results[0].content) if request.tool_results else calls(tool.name)

        return us.Agent(id, model=FunctionModel(model), tools=[tool])

    of_left, of_right = list[us.Agent](), list[us.Agent]()
    left, right = seat("left", of_left), seat("right", of_right)
    of_left.append(caller("wants-right", right))
    of_right.append(caller("wants-left", left))
    handles = [caller(tool.name, tool).submit("go", system=system, timeout=WAIT) for tool in (left, right)]
    texts = [finished(handle.result(2 * WAIT)).text for handle in handles]

    assert any("to wait would close a circle" in text for text in texts)
