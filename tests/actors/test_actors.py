"""Actors of the user's own: messages, replies, failures, restarts, stops, and what a system says of them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import assert_type, cast

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually
from understudy.actors.actor import lifecycle


@dataclass(frozen=True)
class Add:
    number: int


@dataclass(frozen=True)
class Total(us.Query[int]):
    pass


@dataclass(frozen=True)
class Fail:
    error: BaseException


@dataclass(frozen=True)
class Hold:
    """Keeps the actor at this message until the gate opens."""

    entered: threading.Event
    gate: threading.Event


Message = Add | Total | Fail | Hold


class Sum(us.Actor[Message]):
    """Adds up; what it has learnt is lost when it fails."""

    def on_start(self) -> None:
        self.total = 0

    def on_receive(self, message: Message) -> object:
        match message:
            case Add(number=number):
                self.total += number
                return None
            case Total():
                return self.total
            case Fail(error=error):
                raise error
            case Hold(entered=entered, gate=gate):
                entered.set()
                return gate.wait(WAIT)


def held(ref: us.ActorRef[Message]) -> threading.Event:
    """Make the actor busy; it goes on when the returned gate is set."""
    entered, gate = threading.Event(), threading.Event()
    ref.tell(Hold(entered, gate))
    assert entered.wait(WAIT)
    return gate


def test_an_actor_handles_messages_in_order_and_replies(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")

    for number in range(100):
        ref.tell(Add(number))
    total = ref.ask(Total())

    assert_type(ref, us.ActorRef[Message])
    assert_type(total, int)
    assert total == 4950


def test_a_message_takes_the_context_variables_of_its_sender_along_and_keeps_its_own_changes(
    system: us.ActorSystem,
) -> None:
    colour = contextvars.ContextVar("colour", default="none")

    class Paints(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            before = colour.get()
            colour.set(message)
            return before

    ref = system.spawn(Paints)
    colour.set("green")
    reply = ref.ask_future("red")
    ref.tell("blue")
    colour.set("white")

    assert reply.result(WAIT) == "green"
    assert ref.ask("black") == "white"


def test_a_future_of_the_reply_can_be_waited_for_later(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    ref.tell(Add(2))

    future = ref.ask_future(Total())

    assert future.result(WAIT) == 2
    assert future.exception() is None
    assert future.done() and not future.running() and not future.cancelled()


def test_an_ask_that_is_cancelled_before_its_turn_is_never_handled(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    gate = held(ref)

    future = ref.ask_future(Add(5))
    assert future.cancel() is True
    assert future.cancelled()
    gate.set()

    with pytest.raises(CancelledError):
        future.result(WAIT)
    assert ref.ask(Total()) == 0


def test_an_ask_that_times_out_is_never_handled(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    gate = held(ref)

    with pytest.raises(TimeoutError, match="shop/sum-1 did not reply within 0.01 s"):
        ref.ask(Add(5), timeout=0.01)
    gate.set()

    assert ref.ask(Total()) == 0


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_tell_that_fails_restarts_as_an_ask_does(system: us.ActorSystem, error: BaseException) -> None:
    ref, sibling = system.spawn(Sum), system.spawn(Sum)
    sibling.tell(Add(1))

    ref.tell(Add(5))
    ref.tell(Fail(error))
    ref.tell(Add(7))

    assert ref.ask(Total()) == 7  # what waited in the mailbox was kept
    assert sibling.ask(Total()) == 1


def test_an_actor_that_fails_too_often_is_given_up_with_its_cause(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum", strategy=us.OneForOne(max_restarts=2, within=60))

    for n in range(3):
        with pytest.raises(us.AgentCrashed, match=f"shop/sum failed: ValueError: failure {n}"):
            ref.ask(Fail(ValueError(f"failure {n}")))
    with pytest.raises(us.AgentDown, match="shop/sum failed too often.*failure 2") as caught:
        ref.ask(Total())

    assert isinstance(caught.value.__cause__, ValueError)
    assert not ref.is_alive()
    assert not system.health().ok
    assert "shop/sum" in system.health().advice


def test_an_actor_that_was_given_up_is_tried_once_more_after_a_while(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    ref = system.spawn(Sum, strategy=us.OneForOne(max_restarts=0))
    with pytest.raises(us.AgentCrashed):
        ref.ask(Fail(ValueError("no")))

    assert ref.ask(Total()) == 0
    assert ref.is_alive()
    assert system.health().ok


class Stillborn(us.Actor[str]):
    def on_start(self) -> None:
        raise LookupError("no database")


def no_object() -> Stillborn:
    raise LookupError("no database")


@pytest.mark.parametrize("kind", [Stillborn, no_object])
def test_failing_to_start_burns_the_same_budget(system: us.ActorSystem, kind: Callable[[], us.Actor[str]]) -> None:
    starts: list[int] = []

    def make() -> us.Actor[str]:
        starts.append(1)
        return kind()

    ref = system.spawn(make, name="a", strategy=us.OneForOne(max_restarts=3, within=60))

    with pytest.raises(us.AgentDown, match="no database") as caught:
        ref.ask("hello")
    assert isinstance(caught.value.__cause__, LookupError)
    assert len(starts) == 4


def test_a_factory_that_makes_no_actor_is_told_so(system: us.ActorSystem) -> None:
    ref: us.ActorRef[str] = system.spawn(cast("type[us.Actor[str]]", lambda: "no actor"), name="odd")

    with pytest.raises(us.AgentDown, match="must be given what makes an Actor, and it made 'no actor'"):
        ref.ask("hello")


def test_the_failed_object_is_told_before_it_is_replaced(system: us.ActorSystem) -> None:
    told: list[tuple[BaseException, object, int]] = []

    class Tidy(Sum):
        def before_restart(self, error: BaseException, message: object) -> None:
            told.append((error, message, self.total))
            raise RuntimeError("and fails at that")

    ref = system.spawn(Tidy)
    ref.tell(Add(3))
    error = ValueError("no")
    ref.tell(Fail(error))

    assert ref.ask(Total()) == 0
    assert told == [(error, Fail(error), 3)]


def test_a_stopped_actor_has_handled_what_waited(system: us.ActorSystem) -> None:
    totals: list[int] = []

    class Last(Sum):
        def on_stop(self) -> None:
            totals.append(self.total)

    ref = system.spawn(Last)
    gate = held(ref)
    for _ in range(10):
        ref.tell(Add(1))
    ending = ref.stop(block=False)
    gate.set()

    assert ending.result(WAIT) is True
    assert totals == [10]


def test_messages_to_a_stopped_actor_are_refused_or_counted(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")
    assert ref.stop(timeout=WAIT)

    ref.tell(Add(1))
    with pytest.raises(us.AgentDown, match="shop/sum has stopped"):
        ref.ask(Total())
    assert isinstance(ref.ask_future(Total()).exception(WAIT), us.AgentDown)
    assert not ref.is_alive()


def test_an_actor_may_stop_itself(system: us.ActorSystem) -> None:
    class Once(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            self.ref.stop()
            return "done"

    ref = system.spawn(Once)

    assert ref.ask("go") == "done"
    ref.stop(timeout=WAIT)
    assert not ref.is_alive()


def test_a_name_is_taken_until_its_actor_has_stopped(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")

    with pytest.raises(ValueError, match="has an actor 'sum' already"):
        system.spawn(Sum, name="sum")
    assert ref.stop(timeout=WAIT)

    assert system.spawn(Sum, name="sum").ask(Total()) == 0


def test_an_actor_is_found_by_its_name(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")

    assert system.find("sum") == ref
    assert hash(system.find("sum")) == hash(ref)
    with pytest.raises(KeyError, match="no actor 'som'; it has: sum"):
        system.find("som")


def test_a_full_mailbox_refuses_one_more(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, mailbox=us.Mailbox(2))
    gate = held(ref)
    ref.tell(Add(1))
    ref.tell(Add(1))

    with pytest.raises(us.MailboxFull, match="shop/sum-1"):
        ref.tell(Add(1))
    with pytest.raises(us.MailboxFull):
        ref.ask(Total())
    gate.set()

    eventually(lambda: system.health().actors[0].depth == 0, "the mailbox is empty again")
    assert ref.ask(Total()) == 2


def test_a_caller_outside_of_actors_waits_for_room_if_the_mailbox_says_so(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, mailbox=us.Mailbox(1, when_full="block"))
    gate = held(ref)
    ref.tell(Add(1))
    with pytest.raises(us.MailboxFull):
        ref.tell(Add(10), timeout=0.01)

    waiting = threading.Thread(target=lambda: ref.tell(Add(100)))
    waiting.start()
    gate.set()
    waiting.join(WAIT)

    assert not waiting.is_alive()
    assert ref.ask(Total()) == 101


def test_an_actor_never_waits_for_room(system: us.ActorSystem) -> None:
    full = system.spawn(Sum, mailbox=us.Mailbox(1, when_full="block"))
    gate = held(full)
    full.tell(Add(1))

    class Sender(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            try:
                full.tell(Add(1))
            except us.MailboxFull:
                return "refused"
            return "waited"

    assert system.spawn(Sender).ask("go") == "refused"
    gate.set()


def test_the_figures_can_be_read_while_an_actor_hangs(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")
    ref.tell(Add(1))
    gate = held(ref)
    ref.tell(Add(1))
    ref.tell(Add(1))

    health = system.health()
    tree = system.tree()
    gate.set()

    (sum_,) = health.actors
    assert (sum_.address, sum_.state, sum_.depth, sum_.handled, sum_.restarts) == ("shop/sum", "running", 2, 1, 0)
    assert sum_.high_water >= 2
    assert sum_.busy_for is not None and sum_.oldest_age >= 0
    assert health.ok and health.advice == ""
    assert "sum: running, 2 waiting" in tree


def test_stopping_a_system_stops_the_last_actor_first_and_names_those_that_hang() -> None:
    stopped: list[str] = []

    class Named(us.Actor[Hold]):
        def on_receive(self, message: Hold) -> object:
            message.entered.set()
            return message.gate.wait(WAIT)

        def on_stop(self) -> None:
            stopped.append(self.ref.address)

    system = us.ActorSystem("shop")
    first, second = system.spawn(Named, name="first"), system.spawn(Named, name="second")
    hanging = system.spawn(Named, name="hanging")
    entered, gate = threading.Event(), threading.Event()
    hanging.tell(Hold(entered, gate))
    assert entered.wait(WAIT)

    left = system.stop(timeout=0.05)
    gate.set()

    assert left == ("shop/hanging",)
    assert not first.is_alive() and not second.is_alive()
    eventually(lambda: sorted(stopped) == ["shop/first", "shop/hanging", "shop/second"], "all have stopped")
    with pytest.raises(us.AgentDown):
        system.spawn(Named)


def test_an_actor_can_run_an_agent(system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=us.FunctionModel(lambda request: us.says(f"heard {request.text}")))

    class Desk(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return agent.run(message, system=system).text

    assert system.spawn(Desk).ask("hello") == "heard hello"
