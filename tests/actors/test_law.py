"""The law under pressure: every accepted message ends in exactly one fate, and every reply completes exactly once."""

from __future__ import annotations

import faulthandler
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import understudy as us
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.mailbox import Envelope, Fate
from understudy.actors.threads.promise import Promise

WAIT = 20.0
ANSWERED = 5.0  # Seconds for one answer: a lost one costs them at each of the few tries of a failing example.
HANG = 90.0  # Seconds; pytest's own timeout, which ends the test, is longer.


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Have threads interrupt each other thousands of times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def stacks_of_a_hang() -> Iterator[None]:
    """Print what every thread is doing if a test hangs: which of them wait for each other shows nowhere else."""
    faulthandler.dump_traceback_later(HANG, file=2)  # standard error itself, whatever pytest makes of `sys.stderr`
    yield
    faulthandler.cancel_dump_traceback_later()


class Echo(us.Actor[object]):
    """Replies with the message; raises an exception it is sent."""

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message


class Bare:
    """The same, without a life of its own."""

    def on_receive(self, message: object) -> object:
        return message


@pytest.mark.usefixtures("frequent_switches")
def test_no_ask_that_races_a_stop_stays_unanswered() -> None:
    rounds, senders, each = 60, 3, 60
    for _ in range(rounds):
        cell = Cell("echo", Bare)
        go, replies = threading.Barrier(senders + 1), list[list[Promise[object]]]()

        def send(cell: Cell = cell, go: threading.Barrier = go, replies: list[list[Promise[object]]] = replies) -> None:
            go.wait(WAIT)
            replies.append([cell.ask(n) for n in range(each)])

        threads = [threading.Thread(target=send) for _ in range(senders)]
        for thread in threads:
            thread.start()
        go.wait(WAIT)
        cell.stop()
        for thread in threads:
            thread.join(WAIT)

        sent = [reply for some in replies for reply in some]
        assert len(sent) == senders * each
        assert all(reply.wait(WAIT) for reply in sent)
        assert sum(cell.counts.values()) == len(sent)


@pytest.mark.usefixtures("frequent_switches")
def test_no_ask_that_races_an_orderly_stop_stays_unanswered() -> None:
    for _ in range(25):
        system = us.ActorSystem("race")
        ref, go = system.spawn(Echo), threading.Barrier(4)
        answers: list[list[object]] = []

        def ask(
            ref: us.ActorRef[object] = ref, go: threading.Barrier = go, answers: list[list[object]] = answers
        ) -> None:
            go.wait(WAIT)
            mine: list[object] = []
            for n in range(20):
                try:
                    mine.append(ref.ask(n, timeout=WAIT))
                except us.AgentDown:
                    mine.append("down")
            answers.append(mine)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        go.wait(WAIT)
        ref.stop(block=False)
        for thread in threads:
            thread.join(WAIT)

        assert len(answers) == 3
        for mine in answers:
            handled = 20 - mine.count("down")
            assert mine == [*range(handled), *["down"] * (20 - handled)]  # none is handled after one that was not
        ref.stop(timeout=WAIT)


class Fates:
    """How each message ended; only what is a `Sent` is counted, for the runtime sends some too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = threading.Lock()
        self.of: dict[int, list[Fate]] = {}
        count, finish = self._count, Cell.finish

        def counted(
            cell: Cell, envelope: Envelope, fate: Fate, value: object = None, *, error: BaseException | None = None
        ) -> None:
            finish(cell, envelope, fate, value, error=error)
            if isinstance(envelope.message, Sent):
                count(envelope.message.number, fate)

        monkeypatch.setattr(Cell, "finish", counted)

    def _count(self, number: int, fate: Fate) -> None:
        with self._lock:
            self.of.setdefault(number, []).append(fate)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, and what its handling is to do: return, take a while, or raise."""

    number: int
    does: str


class Moody(us.Actor[object]):
    """Does what it is told, and notes what it began."""

    began: ClassVar[list[int]] = []

    def on_receive(self, message: object) -> object:
        assert isinstance(message, Sent)
        self.began.append(message.number)
        if message.does == "linger":
            threading.Event().wait(0.002)
        if message.does == "raise":
            raise ValueError(message.number)
        return message.number


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("limit", [None, 0.001], ids=["", "turn_timeout"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_expiry_handling_restart_and_stop_meet_at_each_message_has_one_fate(
    seed: int, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Moody.began = []
    fates, senders, each = Fates(monkeypatch), 4, 60
    system = us.ActorSystem("race")
    strategy = us.OneForOne(max_restarts=100_000, within=60, backoff=(0.0001, 0.001))
    ref = system.spawn(Moody, strategy=strategy, turn_timeout=limit)
    answers: dict[int, us.Future[object]] = {}
    go = threading.Barrier(senders + 1)

    def send(sender: int) -> None:
        chance = random.Random(f"{seed} {sender}")
        go.wait(WAIT)
        for number in range(sender * each, (sender + 1) * each):
            message = Sent(number, chance.choice(("return", "return", "linger", "raise")))
            timeout = chance.choice((0.0, 0.0002, 0.002, 0.01, WAIT))
            answers[number] = ref.ask_future(message, timeout=timeout)
            if chance.random() < 0.1:
                answers[number].cancel()

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    go.wait(WAIT)
    if seed % 2:
        for thread in threads:
            thread.join(WAIT)
    system.stop(0.01 if seed % 4 < 2 else WAIT)  # while they send, or after; in time, or not
    for thread in threads:
        thread.join(WAIT)
    ref.stop(timeout=WAIT)

    assert sorted(answers) == list(range(senders * each))
    for number, future in answers.items():
        error = future.exception(ANSWERED)  # raises TimeoutError if nobody answered
        assert error is None or isinstance(error, (TimeoutError, us.ActorError, CancelledError)), error
        assert error is not None or future.result(0) == number
    assert {number: len(ends) for number, ends in fates.of.items()} == dict.fromkeys(answers, 1)
    handled = [number for number, (fate,) in fates.of.items() if fate in (Fate.HANDLED, Fate.FAILED)]
    assert set(Moody.began) >= {number for number in handled if fates.of[number] == [Fate.HANDLED]}
    assert sorted(Moody.began) == sorted(set(Moody.began))  # none is begun twice
    assert set(Moody.began) <= set(handled)  # and none that was lost


class Law(RuleBasedStateMachine):
    """Random lives of some actors; whatever happens to them, each message has one fate in the end."""

    @initialize()
    def begin(self) -> None:
        self.system = us.ActorSystem("law")
        self.refs: list[us.ActorRef[object]] = []
        self.futures: list[us.Future[object]] = []
        self.asked: list[object] = []
        """What was asked, for each future."""
        self.spawned = 0

    @rule(limit=st.integers(0, 3))
    def spawn(self, limit: int) -> None:
        self.spawned += 1
        name = f"echo-{self.spawned}"
        self.refs.append(self.system.spawn(Echo, name=name, strategy=us.OneForOne(max_restarts=limit, within=60)))

    @precondition(lambda self: self.refs)
    @rule(data=st.data(), message=st.sampled_from(["hello", "crash", "exit"]), senders=st.integers(1, 3))
    def ask(self, data: st.DataObject, message: str, senders: int) -> None:
        ref = data.draw(st.sampled_from(self.refs))
        given: object = {"crash": ValueError("no"), "exit": SystemExit(1)}.get(message, message)
        futures: list[us.Future[object]] = []
        threads = [threading.Thread(target=lambda: futures.append(ref.ask_future(given))) for _ in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert len(futures) == senders
        self.futures += futures
        self.asked += [given] * senders

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def tell(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.refs)).tell("told")

    @precondition(lambda self: self.futures)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.futures)).cancel()

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.refs)).stop(block=False)

    @invariant()
    def figures_can_be_read(self) -> None:
        if hasattr(self, "system"):
            assert "law" in self.system.tree()

    def teardown(self) -> None:
        if not hasattr(self, "system"):
            return
        for future, given in zip(self.futures, self.asked, strict=True):
            error = future.exception(ANSWERED)  # raises TimeoutError if a message was lost
            if error is None:
                assert future.result(0) == given == "hello"
            elif isinstance(error, us.AgentCrashed):
                assert error.__cause__ is given
            else:
                assert isinstance(error, (us.AgentDown, CancelledError)), error
        assert self.system.stop(WAIT) == ()


TestLaw = Law.TestCase
TestLaw.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a shorter example of a lost message is not worth minutes
    suppress_health_check=[HealthCheck.too_slow],
)


def test_a_message_lost_on_purpose_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests above look for would be found: a cell that forgets to finish a message leaves its reply open."""

    def forgets(self: Cell, envelope: object, fate: Fate, value: object = None, *, error: object = None) -> None:
        if fate is Fate.HANDLED:
            return

    monkeypatch.setattr(ActorCell, "finish", forgets)
    with_loss = us.ActorSystem("loss")
    future = with_loss.spawn(Echo).ask_future("hello")

    with pytest.raises(TimeoutError):
        future.exception(0.05)
