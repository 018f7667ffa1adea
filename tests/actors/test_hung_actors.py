"""Actors whose messages must be handled in time: what hangs is given up, and the actor goes on without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually
from understudy.actors.actor import time_limited_cell
from understudy.vocabulary.context.scope import current_scope

LIMIT = 0.25  # A test that hangs waits for it; on a busy machine, what does not hang must still be in time.


class Hangs(us.Actor[str]):
    """Hangs at "hang" until the gate is opened; notes what each of its objects did."""

    gate: ClassVar[threading.Event]
    entered: ClassVar[threading.Event]
    log: ClassVar[list[str]]
    made: ClassVar[int]

    def on_start(self) -> None:
        Hangs.made += 1
        self.number = Hangs.made

    def before_restart(self, error: BaseException, message: object) -> None:
        self.log.append(f"{self.number} let go")

    def on_receive(self, message: str) -> str:
        if message.startswith("hang"):
            Hangs.entered.set()
            assert Hangs.gate.wait(WAIT)
            if message == "hang, then raise":
                raise LookupError("too late to matter")
        self.log.append(f"{self.number} handled {message}")
        return f"{self.number}: {message}"


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    Hangs.gate, Hangs.entered, Hangs.log, Hangs.made = threading.Event(), threading.Event(), [], 0
    with us.ActorSystem("shop") as system:
        yield system
        Hangs.gate.set()


def returned(system: us.ActorSystem) -> None:
    Hangs.gate.set()
    eventually(lambda: system.hung == 0, "what hung has come back")


def figures(system: us.ActorSystem) -> us.ActorFigures:
    (found,) = system.health().actors
    return found


def test_a_message_that_hangs_is_given_up_and_the_next_one_meets_a_new_object(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)

    with pytest.raises(us.AgentCrashed, match="shop/a did not handle a message within 0.25 s") as caught:
        ref.ask("hang", timeout=WAIT)

    assert isinstance(caught.value.__cause__, TimeoutError)
    assert ref.ask("hello", timeout=WAIT) == "2: hello"
    assert system.hung == 1
    returned(system)
    assert ref.ask("still there", timeout=WAIT) == "2: still there"
    assert (figures(system).failed, figures(system).restarts, figures(system).busy_for) == (1, 1, None)


def test_what_waited_behind_it_is_handled_once_and_in_order(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)
    replies = [ref.ask_future(message, timeout=WAIT) for message in ("hang", "one", "two", "three")]

    assert isinstance(replies[0].exception(WAIT), us.AgentCrashed)
    assert [reply.result(WAIT) for reply in replies[1:]] == ["2: one", "2: two", "2: three"]
    returned(system)
    assert Hangs.log == ["2 handled one", "2 handled two", "2 handled three", "1 handled hang"]
    assert isinstance(replies[0].exception(), us.AgentCrashed)  # what came late changed nothing


def test_a_stop_keeps_what_waits_behind_a_message_that_hangs(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)
    replies = [ref.ask_future(message, timeout=WAIT) for message in ("hang", "one", "two")]
    assert Hangs.entered.wait(WAIT)

    assert ref.stop(timeout=WAIT)

    assert isinstance(replies[0].exception(WAIT), us.AgentCrashed)
    assert [reply.result(WAIT) for reply in replies[1:]] == ["2: one", "2: two"]


def test_a_failure_that_comes_late_is_no_second_failure(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)

    with pytest.raises(us.AgentCrashed):
        ref.ask("hang, then raise", timeout=WAIT)
    returned(system)

    assert ref.ask("hello", timeout=WAIT) == "2: hello"
    assert (figures(system).failed, figures(system).restarts) == (1, 1)
    assert "1 let go" not in Hangs.log  # no hook runs on an object that is in use


def test_a_message_that_hangs_counts_against_the_strategy(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT, strategy=us.OneForOne(max_restarts=0))

    ref.tell("hang")
    eventually(lambda: not ref.is_alive(), "it is given up")

    with pytest.raises(us.AgentDown, match="did not handle a message within"):
        ref.ask("hello", timeout=WAIT)
    assert not system.health().ok


def test_several_may_hang_one_after_another(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)

    for _ in range(3):
        with pytest.raises(us.AgentCrashed):
            ref.ask("hang", timeout=WAIT)

    assert system.hung == 3
    assert ref.ask("hello", timeout=WAIT) == "4: hello"
    returned(system)


def test_an_actor_that_looks_at_its_scope_hears_of_it(system: us.ActorSystem) -> None:
    heard = threading.Event()

    class Attentive(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            scope = current_scope()
            assert scope is not None and scope.deadline is not None
            if message == "hang":
                scope.on_cancel(heard.set)
                assert heard.wait(WAIT)
            return "fine"

    ref = system.spawn(Attentive, name="a", turn_timeout=LIMIT)
    ref.tell("hang")

    assert heard.wait(WAIT)
    assert ref.ask("hello", timeout=WAIT) == "fine"
    eventually(lambda: system.hung == 0, "it has come back")


def test_a_group_is_restarted_with_the_one_that_hangs(system: us.ActorSystem) -> None:
    let_go = threading.Event()

    class Sibling(us.Actor[str]):
        def before_restart(self, error: BaseException, message: object) -> None:
            let_go.set()

    hangs = us.Child(Hangs, "hangs", turn_timeout=LIMIT)
    system.spawn(us.Supervisor("desk", [us.Child(Sibling, "sibling"), hangs], strategy=us.OneForAll()))

    system.find("hangs").tell("hang")

    assert let_go.wait(WAIT)
    assert system.find("hangs").ask("hello", timeout=WAIT) == "2: hello"


def test_an_actor_that_hangs_can_be_stopped(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)
    ref.tell("hang")
    assert Hangs.entered.wait(WAIT)

    assert ref.stop(timeout=WAIT)
    assert system.hung == 1


def test_what_is_handled_in_time_is_left_alone(system: us.ActorSystem) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=WAIT)

    assert [ref.ask(str(n)) for n in range(100)] == [f"1: {n}" for n in range(100)]
    assert (figures(system).handled, figures(system).failed, system.hung) == (100, 0, 0)  # the asks


@pytest.mark.parametrize("given", [0.0, -1.0])
def test_a_turn_timeout_is_above_zero(system: us.ActorSystem, given: float) -> None:
    with pytest.raises(ValueError, match="turn_timeout must be above 0 seconds"):
        system.spawn(Hangs, turn_timeout=given)
    with pytest.raises(ValueError, match="turn_timeout must be above 0 seconds"):
        us.Child(Hangs, turn_timeout=given)


class Late(us.Actor[str]):
    """Hangs at "hang", and asks for messages to itself when it comes back."""

    gate: ClassVar[threading.Event]
    errors: ClassVar[list[Exception]]
    heard: ClassVar[list[str]]

    def on_receive(self, message: str) -> object:
        self.heard.append(message)
        if message == "hang":
            assert Late.gate.wait(WAIT)
            for ask in (self.after, self.every):
                try:
                    ask(0.001, "from the past")
                except us.ActorError as error:
                    Late.errors.append(error)
        if message == "set a timer":
            self.after(0.0, "timed")
        if message == "timed":
            scope = current_scope()
            return None if scope is None else scope.deadline
        return message


def test_what_a_given_up_object_asks_for_later_is_refused(system: us.ActorSystem) -> None:
    Late.gate, Late.errors, Late.heard = threading.Event(), [], []
    ref = system.spawn(Late, name="late", turn_timeout=LIMIT)
    with pytest.raises(us.AgentCrashed):
        ref.ask("hang", timeout=WAIT)
    Late.gate.set()
    eventually(lambda: system.hung == 0, "it has come back")

    assert ["another one has taken its place" in str(error) for error in Late.errors] == [True, True]
    assert ref.ask("hello", timeout=WAIT) == "hello"
    assert Late.heard == ["hang", "hello"]


def test_a_timers_message_has_its_time_too(system: us.ActorSystem) -> None:
    deadlines: list[float | None] = []

    class Timed(us.Actor[str]):
        def on_receive(self, message: str) -> None:
            if message == "go":
                self.after(0.0, "timed")
                return
            scope = current_scope()
            deadlines.append(None if scope is None else scope.deadline)

    ref = system.spawn(Timed, turn_timeout=WAIT)
    ref.tell("go")
    eventually(lambda: len(deadlines) == 1, "the timer's message came")

    assert deadlines[0] is not None


def test_without_a_thread_for_the_alarm_the_message_fails_and_the_actor_goes_on(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = system.spawn(Hangs, name="a", turn_timeout=LIMIT)
    assert ref.ask("hello", timeout=WAIT) == "1: hello"

    def no_thread(moment: float, ring: object) -> object:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(time_limited_cell, "ring_at", no_thread)
        with pytest.raises(us.AgentCrashed, match="can't start new thread"):
            ref.ask("lost", timeout=WAIT)

    assert ref.ask("hello", timeout=WAIT) == "2: hello"
