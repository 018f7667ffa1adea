"""Cells and promises are Pykka's: its hooks, its references, its envelopes. Also the parts of Pykka that they rely on."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pykka
import pytest

from understudy.actors.cells.cell import Cell
from understudy.actors.threads.promise import Late, Promise
from understudy.errors import AgentDown

WAIT = 10.0


class Counter:
    """Replies with the number of its messages; raises the message if it is an error."""

    def __init__(self) -> None:
        self.count = 0

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        self.count += 1
        return self.count


class Sent(NamedTuple):
    """What Pykka's references put into an inbox."""

    message: object
    reply_to: pykka.Future[Any] | None


def bare_ref(cell: Cell) -> pykka.ActorRef[Cell]:
    """Return a reference as Pykka makes it."""
    return pykka.ActorRef(cell)


# --- what the package relies on


class BareActor(pykka.ThreadingActor):
    """An actor as Pykka makes it."""


def test_pykka_has_three_hooks_for_other_ways_to_run_an_actor() -> None:
    assert pykka.Actor.__abstractmethods__ == {"_create_actor_inbox", "_create_future", "_start_actor_loop"}


def test_a_cell_has_all_that_pykkas_constructor_sets() -> None:
    cell = Cell("shop/counter", Counter)

    assert vars(BareActor()).keys() == {"actor_urn", "actor_inbox", "actor_stopped", "_actor_ref"}
    assert (cell.actor_urn, cell.actor_inbox, cell.actor_stopped.is_set()) == ("shop/counter", cell, False)
    assert cell.actor_ref.actor_urn == "shop/counter"


def test_a_promise_has_all_that_pykkas_constructor_sets() -> None:
    class BareFuture(pykka.Future[int]):
        """A future as Pykka makes it."""

    assert vars(BareFuture()).keys() == {
        "_get_hook",
        "_get_hook_result",
    }  # the second is read only where there is a hook
    assert getattr(Promise[int](), "_get_hook") is None  # noqa: B009 (it is private to Pykka)


# --- cells as Pykka's code sees them


def test_a_bare_reference_tells_and_asks_a_cell() -> None:
    ref = bare_ref(Cell("counter", Counter))

    ref.tell("one")

    assert ref.ask("two", timeout=WAIT) == 2
    assert ref.ask("three", block=False).get(timeout=WAIT) == 3


def test_a_failure_of_a_cell_is_the_error_of_pykkas_future() -> None:
    ref = bare_ref(Cell("counter", Counter))

    with pytest.raises(Exception, match="counter failed: ValueError: bad") as caught:
        ref.ask(ValueError("bad"), timeout=WAIT)

    assert isinstance(caught.value.__cause__, ValueError)
    assert ref.ask("again", timeout=WAIT) == 1


def test_a_bare_reference_stops_a_cell() -> None:
    cell = Cell("counter", Counter)
    ref = bare_ref(cell)

    assert ref.stop(timeout=WAIT)

    with pytest.raises(AgentDown):
        cell.ask("late").get(timeout=WAIT)
    assert cell.actor_stopped.is_set() and cell.actor_stopped.wait(0)


def test_pykkas_stop_by_the_actor_itself_is_the_cells_own() -> None:
    cell = Cell("counter", Counter)

    pykka.Actor.stop(cell)

    assert cell.actor_stopped.is_set()


def test_a_message_to_a_stopped_cell_fails_the_future_of_a_reference_that_saw_it_alive() -> None:
    cell = Cell("counter", Counter)
    future: pykka.Future[Any] = pykka.ThreadingFuture()

    cell.stop()
    cell.put(Sent("late", future))

    with pytest.raises(AgentDown):
        future.get(timeout=WAIT)


def test_a_foreign_future_that_was_set_already_keeps_its_value() -> None:
    cell = Cell("counter", Counter)
    future: pykka.Future[Any] = pykka.ThreadingFuture()
    future.set("mine")

    cell.put(Sent("hello", future))

    assert cell.ask("after").get(timeout=WAIT) == 2
    assert future.get(timeout=WAIT) == "mine"


def test_the_stop_event_of_a_cell_cannot_be_set() -> None:
    cell = Cell("counter", Counter)

    for change in (cell.actor_stopped.set, cell.actor_stopped.clear):
        with pytest.raises(TypeError, match="stopped by stop"):
            change()
    assert not cell.actor_stopped.is_set()


def test_a_cell_gives_its_messages_to_no_loop_of_pykkas() -> None:
    cell = Cell("counter", Counter)

    assert cell.empty()
    with pytest.raises(TypeError, match="thread of the pool"):
        cell.get()
    with pytest.raises(TypeError, match="its own inbox"):
        getattr(cell, "_create_actor_inbox")()  # noqa: B009 (it is private)


# --- promises as Pykka's code sees them


def test_a_promise_is_a_future_of_pykkas_that_waits() -> None:
    promise: Promise[str] = Promise()
    threading.Timer(0.01, promise.set, ("here",)).start()

    assert promise.get(timeout=WAIT) == "here"
    assert pykka.get_all([promise], timeout=WAIT) == ["here"]


@pytest.mark.parametrize("expected", [TimeoutError, pykka.Timeout])
def test_a_promise_that_comes_too_late_raises_the_error_of_both(expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        Promise[str]().get(timeout=0)

    assert type(caught.value) is Late


def test_the_error_that_is_being_handled_is_set_as_pykka_does_it() -> None:
    handled: Promise[str] = Promise()
    given: Promise[str] = Promise()
    error = ValueError("given")

    try:
        raise KeyError("handled")
    except KeyError:
        handled.set_exception()
    given.set_exception((ValueError, error, None))

    assert isinstance(handled.error(), KeyError)
    assert given.error() is error


def test_an_error_that_is_nowhere_ends_a_promise_all_the_same() -> None:
    promise: Promise[str] = Promise()

    promise.set_exception()

    assert isinstance(promise.error(), RuntimeError)


def test_a_class_of_errors_without_an_error_is_one_of_them() -> None:
    promise: Promise[str] = Promise()

    promise.set_exception((KeyError, None, None))

    assert isinstance(promise.error(), KeyError)


def test_a_future_that_pykka_derives_from_a_promise_has_its_value() -> None:
    promise: Promise[int] = Promise()
    doubled = promise.map(lambda number: number * 2)
    joined = promise.join(promise)
    promise.set(21)

    assert (doubled.get(timeout=WAIT), doubled.get(timeout=WAIT)) == (42, 42)
    assert joined.get(timeout=WAIT) == [21, 21]


def test_a_derived_future_that_comes_too_late_can_be_asked_again() -> None:
    promise: Promise[int] = Promise()
    doubled = promise.map(lambda number: number * 2)

    with pytest.raises(pykka.Timeout):
        doubled.get(timeout=0)
    promise.set(21)

    assert doubled.get(timeout=WAIT) == 42
