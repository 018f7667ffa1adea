"""Runs that begin runs for ever are stopped after 1,000; messages between actors are not counted, but carry the count."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

import understudy as us
from tests.hosts.processes import output
from tests.support.scripts import WAIT, eventually, results_of
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.context.ancestry import DEFAULT_MAX_HOPS, next_hops

MANY = 2 * DEFAULT_MAX_HOPS


class Player(us.Actor[int]):
    """Does with each ball what it is told to, and says when it has the last one."""

    def __init__(self, hit: Callable[[Player, int], object], over: queue.SimpleQueue[int]) -> None:
        self._hit = hit
        self._over = over

    def on_receive(self, message: int) -> object:
        if message >= MANY:
            self._over.put(next_hops())
            return message
        return self._hit(self, message)


Ref = us.ActorRef[int]
Over = queue.SimpleQueue[int]


def send_by_tell(ref: Ref, ball: int) -> None:
    ref.tell(ball)


def send_by_ask(ref: Ref, ball: int) -> None:
    ref.ask_future(ball)


@pytest.mark.parametrize("send", [send_by_tell, send_by_ask])
def test_two_may_hand_a_task_to_and_fro_as_often_as_they_like(
    system: us.ActorSystem, send: Callable[[Ref, int], None]
) -> None:
    players: list[Ref] = []
    over: Over = queue.SimpleQueue()
    for name in ("a", "b"):
        players.append(
            system.spawn(lambda: Player(lambda _, ball: send(players[(ball + 1) % 2], ball + 1), over), name=name)
        )

    send(players[0], 0)

    assert over.get(timeout=WAIT) == 0


def test_an_actor_may_pipe_as_often_as_it_likes(system: us.ActorSystem) -> None:
    over: Over = queue.SimpleQueue()
    nobody = system.spawn(lambda: Player(lambda _, ball: ball, over), name="nobody")
    ready = nobody.ask_future(1)
    ready.result(WAIT)

    def pipe(player: Player, ball: int) -> None:
        player.pipe(ready, lambda _: ball + 1)

    system.spawn(lambda: Player(pipe, over), name="a").tell(0)

    assert over.get(timeout=WAIT) == 0


@pytest.mark.parametrize("way", ["tell", "ask", "pipe"])
def test_a_message_carries_the_count_of_runs_and_adds_nothing(system: us.ActorSystem, way: str) -> None:
    over: Over = queue.SimpleQueue()
    last = system.spawn(lambda: Player(lambda _, ball: ball, over), name="last")

    def hand_on(player: Player, ball: int) -> None:
        if ball:
            last.tell(MANY)
        elif way == "tell":
            player.ref.tell(1)
        elif way == "ask":
            player.ref.ask_future(1)
        else:
            player.pipe(last.ask_future(1), lambda _: 1)

    first = system.spawn(lambda: Player(hand_on, over), name="first")

    def tell() -> str:
        first.tell(0)
        return "told"

    acting("clerk", tell).run("go", system=system)

    assert over.get(timeout=WAIT) == 1  # the run's


@pytest.mark.parametrize("again", ["every", "after"])
def test_what_goes_by_the_clock_goes_on(system: us.ActorSystem, again: str) -> None:
    enough, seen = threading.Event(), list[int]()

    class Ticker(us.Actor[str]):
        def on_start(self) -> None:
            self.ticks = 0
            if again == "every":
                self.every(1e-6, "tick")
            else:
                self.after(0.0, "tick")

        def on_receive(self, message: str) -> None:
            self.ticks += 1
            seen.append(next_hops())
            if again == "after":
                self.after(0.0, "tick")
            if self.ticks == DEFAULT_MAX_HOPS + 10:
                enough.set()

    system.spawn(Ticker, name="ticker")

    assert enough.wait(WAIT)
    assert set(seen) == {0}


# --- runs


def acting(id: str, act: Callable[[], str]) -> us.Agent:
    return us.Agent(
        id,
        model=FunctionModel(lambda request: says("ok") if request.tool_results else calls("act")),
        tools=[us.tool(name="act")(act)],
    )


def chain_of_runs(
    system: us.ActorSystem, over: queue.SimpleQueue[us.RunError]
) -> tuple[us.RunHandle[str], list[us.RunHandle[str]]]:
    """Have each run begin another one until that is refused; the first run, and those that came of it."""
    agents: list[us.Agent] = []
    runs: list[us.RunHandle[str]] = []

    def begin_another() -> str:
        try:
            runs.append(agents[0].submit("again"))
        except us.RunError as error:
            over.put(error)
            raise
        return "begun"

    agents.append(acting("endless", begin_another))
    return agents[0].submit("go", system=system), runs


def test_runs_that_each_begin_another_are_stopped() -> None:
    over: queue.SimpleQueue[us.RunError] = queue.SimpleQueue()
    with us.ActorSystem("short", max_hops=50) as system:
        first, runs = chain_of_runs(system, over)
        error = over.get(timeout=WAIT)

        assert type(error) is us.RunError
        assert "more than 50 runs, each begun by the one before it, the last by 'endless', of 'endless'" in str(error)
        eventually(lambda: len(runs) == 50, "every run has noted the one it began")
        assert not results_of(first.result(WAIT))[0].is_error
        assert sum(results_of(run.result(WAIT))[0].is_error for run in runs) == 1  # the last one, noted in any order


def test_runs_are_counted_also_where_actors_begin_them(system: us.ActorSystem) -> None:
    seen: list[int] = []

    class Starter(us.Actor[int]):
        def on_receive(self, message: int) -> str:
            seen.append(next_hops())
            return inner.run("go", system=system).text if message == 0 else "there"

    a, b = (system.spawn(Starter, name=name) for name in ("a", "b"))

    def ask() -> str:
        seen.append(next_hops())
        return str(b.ask(1))

    inner = acting("inner", ask)

    def begin() -> str:
        seen.append(next_hops())
        return str(a.ask(0))

    acting("outer", begin).run("go", system=system)

    assert seen == [1, 1, 2, 2]
    assert next_hops() == 0


def test_two_actors_that_begin_runs_which_tell_them_to_are_stopped() -> None:
    over: queue.SimpleQueue[us.RunError] = queue.SimpleQueue()
    with us.ActorSystem("short", max_hops=5) as system:

        class Starter(us.Actor[str]):
            def on_receive(self, message: str) -> None:
                try:
                    agent.submit("go")
                except us.RunError as error:
                    over.put(error)

        starter = system.spawn(Starter)

        def tell() -> str:
            starter.tell("again")
            return "told"

        agent = acting("clerk", tell)
        starter.tell("begin")

        assert "the last by 'short/starter-1', of 'clerk'" in str(over.get(timeout=WAIT))


def test_the_default_system_is_told_how_many_runs_may_lead_to_one() -> None:
    told = output("""
        import understudy as us
        from understudy.testing import FunctionModel, says
        us.configure(max_hops=7)
        print(us.Agent("clerk", model=FunctionModel(lambda request: says("hello"))).run("go").text)
        from understudy.actors.system.actor_system import runs_of
        from understudy.actors.system.runtime import current_system
        print(runs_of(current_system()).max_hops)
    """)

    assert told == "hello\n7\n"


def test_what_a_callback_begins_when_its_run_is_over_begins_anew() -> None:
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    gate = threading.Event()
    inner = acting("inner", lambda: str(gate.wait(WAIT)))

    def begin() -> str:
        inner.submit("go").add_done_callback(lambda _: seen.put(next_hops()))
        return "begun"

    acting("outer", begin).run("go")
    gate.set()

    assert seen.get(timeout=WAIT) == 0
