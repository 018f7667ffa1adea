"""What is handed to and fro for ever ends after 1,000 hops; what goes by the clock, and what is merely much, does not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, results_of
from understudy.ancestry import MAX_HOPS, next_hops
from understudy.testing import FunctionModel, calls, says


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("court") as system:
        yield system


class Player(us.Actor[int]):
    """Does with each ball what it is told to, until that is refused."""

    def __init__(self, hit: Callable[[Player, int], object], over: queue.SimpleQueue[tuple[int, Exception]]) -> None:
        self._hit = hit
        self._over = over

    def on_receive(self, message: int) -> object:
        try:
            return self._hit(self, message)
        except us.ActorError as error:
            self._over.put((message, error))
            raise


Ref = us.ActorRef[int]
Over = queue.SimpleQueue[tuple[int, Exception]]


def send_by_tell(ref: Ref, ball: int) -> None:
    ref.tell(ball)


def send_by_ask(ref: Ref, ball: int) -> None:
    ref.ask_future(ball)


@pytest.mark.parametrize("send", [send_by_tell, send_by_ask])
def test_two_that_hand_a_task_to_and_fro_are_stopped(system: us.ActorSystem, send: Callable[[Ref, int], None]) -> None:
    players: list[Ref] = []
    over: Over = queue.SimpleQueue()
    for name in ("a", "b"):
        players.append(
            system.spawn(lambda: Player(lambda _, ball: send(players[(ball + 1) % 2], ball + 1), over), name=name)
        )

    send(players[0], 0)
    last, error = over.get(timeout=WAIT)

    assert last == MAX_HOPS == 1000  # the first one has none
    assert type(error) is us.ActorError
    assert error.actor == "court/b"
    assert "from 'court/a' to 'court/b'" in str(error)
    assert over.empty()


def test_what_is_asked_for_counts_as_well(system: us.ActorSystem) -> None:
    over: Over = queue.SimpleQueue()
    b = system.spawn(lambda: Player(lambda _, ball: ball, over), name="b")

    def ask_then_go_on(player: Player, ball: int) -> object:
        reply = b.ask(ball)
        player.ref.tell(ball + 1)
        return reply

    system.spawn(lambda: Player(ask_then_go_on, over), name="a").tell(0)
    last, error = over.get(timeout=WAIT)

    assert last == MAX_HOPS
    assert "from 'court/a' to 'court/b'" in str(error)


def test_a_message_that_comes_of_a_future_comes_of_the_message_that_piped_it(system: us.ActorSystem) -> None:
    over: Over = queue.SimpleQueue()
    b = system.spawn(lambda: Player(lambda _, ball: ball + 1, over), name="b")

    def ask_and_pipe(player: Player, ball: int) -> None:
        player.pipe(b.ask_future(ball), lambda reply: int(str(reply)))

    system.spawn(lambda: Player(ask_and_pipe, over), name="a").tell(0)
    last, error = over.get(timeout=WAIT)

    assert last == MAX_HOPS
    assert isinstance(error, us.ActorError)


def test_to_pipe_without_asking_anybody_is_stopped_too(system: us.ActorSystem) -> None:
    over: Over = queue.SimpleQueue()
    nobody = system.spawn(lambda: Player(lambda _, ball: ball, over), name="nobody")
    ready = nobody.ask_future(1)
    ready.result(WAIT)

    def pipe(player: Player, ball: int) -> None:
        player.pipe(ready, lambda _: ball + 1)

    system.spawn(lambda: Player(pipe, over), name="a").tell(0)
    last, error = over.get(timeout=WAIT)

    assert last == MAX_HOPS
    assert "from 'court/a' to 'court/a'" in str(error)


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
            if self.ticks == MAX_HOPS + 10:
                enough.set()

    system.spawn(Ticker, name="ticker")

    assert enough.wait(WAIT)
    assert set(seen) == {1}


def test_many_messages_of_one_turn_are_no_chain(system: us.ActorSystem) -> None:
    over: Over = queue.SimpleQueue()
    b = system.spawn(lambda: Player(lambda _, ball: ball, over), name="b", mailbox=us.Mailbox(2 * MAX_HOPS))

    def send_many(_: Player, balls: int) -> str:
        for ball in range(balls):
            b.tell(ball)
        return "sent"

    a = system.spawn(lambda: Player(send_many, over), name="a")

    assert a.ask(MAX_HOPS + 10, timeout=WAIT) == "sent"


# --- runs


def acting(id: str, act: Callable[[], str]) -> us.Agent:
    return us.Agent(
        id,
        model=FunctionModel(lambda request: says("ok") if request.tool_results else calls("act")),
        tools=[us.tool(name="act")(act)],
    )


def test_runs_that_each_begin_another_are_stopped() -> None:
    agents: list[us.Agent] = []
    runs: list[us.RunHandle[str]] = []
    over: queue.SimpleQueue[us.RunError] = queue.SimpleQueue()

    def begin_another() -> str:
        try:
            runs.append(agents[0].submit("again"))
        except us.RunError as error:
            over.put(error)
            raise
        return "begun"

    agents.append(acting("endless", begin_another))
    first = agents[0].submit("go")
    error = over.get(timeout=WAIT * 3)

    assert type(error) is us.RunError
    assert "from 'endless' to 'endless'" in str(error)
    eventually(lambda: len(runs) == MAX_HOPS, "every run has noted the one it began")
    assert not results_of(first.result(WAIT))[0].is_error
    assert sum(results_of(run.result(WAIT))[0].is_error for run in runs) == 1  # the last one, noted in any order


def test_messages_and_runs_are_one_chain(system: us.ActorSystem) -> None:
    seen: list[int] = []
    over: Over = queue.SimpleQueue()

    def look(_: Player, ball: int) -> object:
        seen.append(next_hops())
        return inner.run("go", system=system).text if ball == 0 else "there"

    a, b = (system.spawn(lambda: Player(look, over), name=name) for name in ("a", "b"))

    def ask() -> str:
        seen.append(next_hops())
        return str(b.ask(1))

    inner = acting("inner", ask)

    def begin() -> str:
        seen.append(next_hops())
        return str(a.ask(0))

    acting("outer", begin).run("go", system=system)

    assert seen == [1, 2, 3, 4]
    assert next_hops() == 0


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
