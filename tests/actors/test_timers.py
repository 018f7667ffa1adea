"""What an actor asks of the runtime: messages to itself, later; word of another's end; the value of a future."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future as StandardFuture
from dataclasses import dataclass
from typing import Any

import pykka
import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually, scripted
from understudy.testing import says


@dataclass
class Do:
    """Have the actor call this with itself, and reply with what it returns."""

    call: Callable[[us.Actor[object]], object]


class Notes(us.Actor[object]):
    """Notes every message, over all its lives, and does what it is told by functions of itself."""

    def __init__(self, noted: list[object]) -> None:
        self.noted = noted

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Do):
            return message.call(self)
        self.noted.append(message)
        return None


def notes(system: us.ActorSystem, name: str = "notes") -> tuple[us.ActorRef[object], list[object]]:
    noted: list[object] = []
    return system.spawn(lambda: Notes(noted), name=name), noted


def test_a_timer_sends_its_message_once(system: us.ActorSystem) -> None:
    ref, noted = notes(system)

    timer = ref.ask(Do(lambda actor: actor.after(0.001, "tick")))

    eventually(lambda: noted == ["tick"], "the message came")
    assert isinstance(timer, us.Timer) and not timer.is_active


def test_a_periodic_timer_sends_until_it_is_cancelled(system: us.ActorSystem) -> None:
    ref, noted = notes(system)

    timer = ref.ask(Do(lambda actor: actor.every(0.001, "tick")))
    eventually(lambda: len(noted) >= 3, "three messages came")
    assert isinstance(timer, us.Timer)
    ref.ask(Do(lambda actor: timer.cancel()))
    seen = len(noted)
    for _ in range(20):
        ref.ask("look")

    assert noted[seen:] == ["look"] * 20


def test_a_periodic_timer_does_not_pile_up_messages_for_a_slow_actor(system: us.ActorSystem) -> None:
    ref, noted = notes(system)
    ref.ask(Do(lambda actor: actor.every(0.001, "tick")))
    gate = Gate()
    ref.tell(Do(gate))
    assert gate.entered.wait(WAIT)
    eventually(lambda: system.health().actors[0].depth >= 1, "a message waits")
    quick, ticks = notes(system, "quick")
    quick.ask(Do(lambda actor: actor.every(0.001, "tick")))
    eventually(lambda: len(ticks) >= 20, "there was time for many more")
    assert system.health().actors[0].depth == 1
    gate.open()
    eventually(lambda: len(noted) >= 2, "it goes on")


def test_a_restart_cancels_what_the_old_object_had_set(system: us.ActorSystem) -> None:
    ref, noted = notes(system)
    timer = ref.ask(Do(lambda actor: actor.every(0.001, "tick")))
    assert isinstance(timer, us.Timer)

    with pytest.raises(us.AgentCrashed):
        ref.ask(ValueError("no"))

    assert not timer.is_active
    before = list(noted)
    ref.ask("look")
    assert noted == [*before, "look"]


def test_what_a_timer_of_the_old_object_has_sent_already_is_not_handled_by_the_new_one(
    system: us.ActorSystem,
) -> None:
    ref, noted = notes(system)

    def fail_when_it_waits(actor: us.Actor[object]) -> None:
        actor.after(0.0, "tick")
        eventually(lambda: system.health().actors[0].depth == 1, "the timer's message waits")
        raise ValueError("no")

    with pytest.raises(us.AgentCrashed, match="ValueError: no"):
        ref.ask(Do(fail_when_it_waits), timeout=2 * WAIT)
    ref.ask("look")

    assert noted == ["look"]


def test_the_end_cancels_timers(system: us.ActorSystem) -> None:
    ref, _ = notes(system)
    timer = ref.ask(Do(lambda actor: actor.every(1000.0, "tick")))

    assert ref.stop(timeout=WAIT)
    assert isinstance(timer, us.Timer) and not timer.is_active


@pytest.mark.parametrize(
    "set_timer", [Do(lambda a: a.after(-1, "x")), Do(lambda a: a.every(0, "x")), Do(lambda a: a.every(-1, "x"))]
)
def test_a_timer_with_impossible_seconds_is_refused(system: us.ActorSystem, set_timer: Do) -> None:
    ref, _ = notes(system)

    with pytest.raises(us.AgentCrashed, match="seconds"):
        ref.ask(set_timer)


def test_who_watches_hears_once_of_an_orderly_end(system: us.ActorSystem) -> None:
    watched, _ = notes(system, "watched")
    watcher, noted = notes(system, "watcher")
    for _ in range(3):
        watcher.ask(Do(lambda actor: actor.watch(watched)))

    watched.stop(block=False)

    eventually(lambda: len(noted) == 1, "word came")
    assert noted == [us.Down("shop/watched")]


def test_who_watches_hears_why_an_actor_was_given_up(system: us.ActorSystem) -> None:
    noted: list[object] = []
    watched = system.spawn(lambda: Notes([]), name="watched", strategy=us.OneForOne(max_restarts=1, within=60))
    watcher = system.spawn(lambda: Notes(noted), name="watcher")
    watcher.ask(Do(lambda actor: actor.watch(watched)))
    error = ValueError("no")

    for _ in range(2):
        with pytest.raises(us.AgentCrashed):
            watched.ask(error)

    eventually(lambda: len(noted) == 1, "word came")
    assert noted == [us.Down("shop/watched", error, 1)]


def test_who_heard_that_an_actor_was_given_up_does_not_hear_of_its_end_too(system: us.ActorSystem) -> None:
    watched = system.spawn(lambda: Notes([]), name="watched", strategy=us.OneForOne(max_restarts=0))
    watcher, noted = notes(system, "watcher")
    watcher.ask(Do(lambda actor: actor.watch(watched)))
    with pytest.raises(us.AgentCrashed):
        watched.ask(ValueError("no"))
    eventually(lambda: len(noted) == 1, "word came")

    assert watched.stop(timeout=WAIT)
    watcher.ask("look")

    assert noted[1:] == ["look"]  # a second word would have come first


def test_who_watches_too_late_hears_at_once(system: us.ActorSystem) -> None:
    watched, _ = notes(system, "watched")
    watcher, noted = notes(system, "watcher")
    assert watched.stop(timeout=WAIT)

    watcher.ask(Do(lambda actor: actor.watch(watched)))

    eventually(lambda: noted == [us.Down("shop/watched")], "word came")


def test_a_periodic_timer_outlives_a_full_mailbox(system: us.ActorSystem) -> None:
    noted: list[object] = []
    ref = system.spawn(lambda: Notes(noted), name="notes", mailbox=us.Mailbox(1))
    gate, entered, full = threading.Event(), threading.Event(), threading.Event()

    def hold(actor: us.Actor[object]) -> None:
        entered.set()
        assert full.wait(WAIT)
        actor.every(0.001, "tick")
        assert gate.wait(WAIT)

    ref.tell(Do(hold))
    assert entered.wait(WAIT)
    ref.tell("fills it")
    full.set()
    eventually(lambda: system.health().dead_letters > 0, "a tick found no room")
    gate.set()

    eventually(lambda: noted.count("tick") >= 3, "the timer goes on")


def test_word_of_an_end_comes_even_to_a_full_mailbox(system: us.ActorSystem) -> None:
    noted: list[object] = []
    watched, _ = notes(system, "watched")
    watcher = system.spawn(lambda: Notes(noted), name="watcher", mailbox=us.Mailbox(1))
    watcher.ask(Do(lambda actor: actor.watch(watched)))
    gate = Gate()
    watcher.tell(Do(gate))
    assert gate.entered.wait(WAIT)
    watcher.tell("waits")
    assert watched.stop(timeout=WAIT)
    gate.open()

    eventually(lambda: len(noted) == 2, "both came")
    assert noted == [us.Down("shop/watched"), "waits"]


def test_the_value_or_error_of_a_future_can_be_piped_to_the_actor_and_an_error_that_is_not_is_logged(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    ref, noted = notes(system)
    answers = scripted(says("forty-two")).submit("?")
    fails, fails_too = [scripted(us.RateLimited("no")).submit("?") for _ in range(2)]

    ref.ask(Do(lambda actor: actor.pipe(answers, lambda outcome: ("heard", outcome.text))))
    eventually(lambda: noted == [("heard", "forty-two")], "the value came")
    ref.ask(Do(lambda actor: actor.pipe(fails, lambda outcome: outcome, lambda error: type(error).__name__)))
    ref.ask(Do(lambda actor: actor.pipe(fails_too, lambda outcome: outcome)))

    eventually(lambda: noted[1:] == ["RateLimited"], "the error came")
    eventually(
        lambda: any("piped future failed" in record.message for record in caplog.records), "the other was logged"
    )


def test_that_a_piped_future_was_cancelled_is_told_as_an_error(system: us.ActorSystem) -> None:
    ref, noted = notes(system)
    future = StandardFuture[str]()
    ref.ask(Do(lambda actor: actor.pipe(future, lambda value: value, lambda error: type(error).__name__)))

    future.cancel()

    eventually(lambda: noted == ["CancelledError"], "the cancellation came")


def test_a_message_that_cannot_be_made_of_a_future_is_logged_with_the_actor_s_address(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    ref, _ = notes(system)
    future = StandardFuture[int]()
    ref.ask(Do(lambda actor: actor.pipe(future, lambda value: 1 // value)))

    future.set_result(0)

    (record,) = caplog.records
    assert record.message == "shop/notes: no message could be made of what a piped future brought"


def test_a_future_of_pykka_can_be_piped(system: us.ActorSystem) -> None:
    ref, noted = notes(system)
    future: pykka.Future[int] = pykka.ThreadingFuture()
    ref.ask(Do(lambda actor: actor.pipe(future, lambda value: ("heard", value))))

    future.set(7)

    eventually(lambda: noted == [("heard", 7)], "the value came")


def test_a_future_of_pykka_is_let_go_when_the_actor_it_is_piped_to_stops(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    ref, _ = notes(system)
    held: list[pykka.Future[int]] = [pykka.ThreadingFuture()]
    ref.ask(Do(lambda actor: actor.pipe(held[0], lambda value: value)))

    gone = weakref.ref(held.pop())

    ref.stop(timeout=WAIT)

    eventually(lambda: gone() is None, "no thread waits for it")
    assert "piped future failed" not in caplog.text


def pipe_no_future(actor: Any) -> object:
    return actor.pipe(7, str)


def pipe_no_function(actor: Any) -> object:
    return actor.pipe(StandardFuture[str](), "done")


def watch_no_reference(actor: Any) -> object:
    return actor.watch("feed")


def see_its_reference(actor: Any) -> object:
    return actor.ref


def set_a_timer(actor: Any) -> object:
    return actor.after(1.0, "tick")


@pytest.mark.parametrize(
    ("use", "says_"),
    [
        (pipe_no_future, "pipe takes a future, such as a run handle or what ask_future returns; got 7"),
        (pipe_no_function, "pipe takes a function that makes the message, got 'done'"),
        (watch_no_reference, "watch takes the reference of an actor of understudy, got 'feed'"),
    ],
)
def test_what_cannot_be_piped_or_watched_is_said_to_whoever_tries(
    system: us.ActorSystem, use: Callable[[Any], object], says_: str
) -> None:
    ref, _ = notes(system)

    with pytest.raises(us.AgentCrashed) as caught:
        ref.ask(Do(use))

    assert isinstance(caught.value.__cause__, TypeError) and says_ in str(caught.value.__cause__)


@pytest.mark.parametrize("use", [see_its_reference, set_a_timer])
def test_an_actor_that_is_not_spawned_yet_says_when_it_has_its_place(use: Callable[[Any], object]) -> None:
    class Hasty(us.Actor[object]):
        def __init__(self) -> None:
            use(self)

    with pytest.raises(AttributeError, match="Hasty: an actor has its ref, timers and watches from on_start on"):
        Hasty()
