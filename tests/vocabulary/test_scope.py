"""Deadlines and cancellation."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable

import pytest

from tests.support.together import all_at_once
from understudy.errors import RunCancelled, RunTimedOut
from understudy.vocabulary.context.scope import (
    NO_RETRIES_LEFT,
    Scope,
    current_scope,
    enter_scope,
    leave_scope,
    scope_in,
)

INSTANT = 2.0**-10  # A thousandth of a second or so, and exact, so that it can be added and taken away.


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- deadlines


def test_the_time_left_runs_with_the_clock_and_never_below_zero() -> None:
    clock = Clock()
    scope = Scope(107.0, clock)

    left = [scope.remaining()]
    clock.now = 106.5
    left.append(scope.remaining())
    clock.now = 120.0
    left.append(scope.remaining())

    assert left == [7.0, 0.5, 0.0]


def test_without_a_deadline_there_is_no_time_left_to_count() -> None:
    scope = Scope(None, Clock())

    assert scope.remaining() is None
    scope.check()


@pytest.mark.parametrize(
    ("parent", "own", "deadline"),
    [(None, None, None), (None, 105.0, 105.0), (105.0, None, 105.0), (105.0, 109.0, 105.0), (105.0, 103.0, 103.0)],
)
def test_a_deadline_only_shrinks_from_parent_to_child(
    parent: float | None, own: float | None, deadline: float | None
) -> None:
    clock = Clock()

    assert Scope(own, clock, parent=Scope(parent, clock)).deadline == deadline


def test_check_raises_when_the_deadline_has_passed() -> None:
    clock = Clock()
    scope = Scope(101.0, clock)
    scope.check()

    clock.now = 101.0

    with pytest.raises(RunTimedOut):
        scope.check()


# --- cancelling


def test_cancelling_a_parent_cancels_its_children_and_not_the_other_way_round() -> None:
    parent = Scope(None, Clock())
    child, other = Scope(None, Clock(), parent=parent), Scope(None, Clock(), parent=parent)

    child.cancel()
    assert (parent.cancelled, child.cancelled, other.cancelled) == (False, True, False)

    parent.cancel()
    assert (parent.cancelled, other.cancelled) == (True, True)
    with pytest.raises(RunCancelled):
        other.check()


def test_a_cancelled_scope_that_is_late_too_counts_as_cancelled() -> None:
    scope = Scope(1.0, Clock())

    scope.cancel()

    with pytest.raises(RunCancelled):
        scope.check()


def cancel_child_then_parent(parent: Scope, child: Scope) -> None:
    child.cancel()
    parent.cancel()


def cancel_parent_then_child(parent: Scope, child: Scope) -> None:
    parent.cancel()
    child.cancel()


def cancel_each_twice(parent: Scope, child: Scope) -> None:
    for scope in (parent, child, parent, child):
        scope.cancel()


@pytest.mark.parametrize("cancel", [cancel_child_then_parent, cancel_parent_then_child, cancel_each_twice])
@pytest.mark.parametrize("cancelled_before", [False, True])
def test_a_callback_is_called_once_whoever_is_cancelled(
    cancel: Callable[[Scope, Scope], None], cancelled_before: bool
) -> None:
    parent = Scope(None, Clock())
    child = Scope(None, Clock(), parent=parent)
    called: list[str] = []
    if cancelled_before:
        parent.cancel()

    child.on_cancel(lambda: called.append("child"))
    cancel(parent, child)

    assert called == ["child"]


def test_a_chain_of_scopes_may_be_longer_than_the_stack() -> None:
    first = Scope(None, lambda: 0.0)
    last, heard = first, list[str]()
    for _ in range(sys.getrecursionlimit() + 10):
        last = Scope(None, lambda: 0.0, parent=last)
    take_back = last.on_cancel(lambda: heard.append("taken back"))
    last.on_cancel(lambda: heard.append("cancelled"))

    take_back()
    first.cancel()

    assert last.cancelled
    assert heard == ["cancelled"]


def test_a_callback_that_comes_too_late_is_called_at_once() -> None:
    scope = Scope(None, Clock())
    scope.cancel()
    called: list[str] = []

    remove = scope.on_cancel(lambda: called.append("late"))

    assert called == ["late"]
    remove()


def test_a_callback_that_was_taken_back_is_not_called() -> None:
    parent = Scope(None, Clock())
    child = Scope(None, Clock(), parent=parent)
    called: list[str] = []
    remove = child.on_cancel(lambda: called.append("gone"))
    child.on_cancel(lambda: called.append("stays"))

    remove()
    remove()
    child.cancel()
    parent.cancel()

    assert called == ["stays"]


def test_callbacks_run_in_the_order_in_which_they_were_added() -> None:
    scope = Scope(None, Clock())
    called: list[int] = []
    for i in range(3):
        scope.on_cancel(lambda i=i: called.append(i))  # type: ignore[misc]  # mypy cannot infer such a lambda

    scope.cancel()

    assert called == [0, 1, 2]


@pytest.mark.parametrize("failure", [LookupError("broken"), SystemExit("leaves")], ids=repr)
def test_a_callback_that_fails_keeps_no_other_from_being_called(failure: BaseException) -> None:
    def fail() -> None:
        raise failure

    scope, called = Scope(None, Clock()), list[str]()
    scope.on_cancel(fail)
    scope.on_cancel(lambda: called.append("next"))

    assert scope.cancel() == [failure]
    assert called == ["next"]
    assert scope.cancel() == []


def test_functions_of_users_are_handed_over_in_order_and_the_runtimes_are_called_at_once() -> None:
    parent = Scope(None, Clock())
    child, called = Scope(None, Clock(), parent), list[str]()
    child.on_cancel(lambda: called.append("first"))
    child.on_cancel_at_once(lambda: called.append("at once"))
    child.on_cancel(lambda: called.append("second"))
    handed: list[list[Callable[[], object]]] = []

    parent.cancel(handed.append)
    child.cancel(handed.append)
    assert called == ["at once"]
    for hook in handed.pop():
        hook()
    assert handed == []

    assert called == ["at once", "first", "second"]


def test_many_threads_may_cancel_and_a_callback_is_still_called_once() -> None:
    parent = Scope(None, Clock())
    child = Scope(None, Clock(), parent=parent)
    called: list[int] = []
    child.on_cancel(lambda: called.append(1))

    all_at_once(lambda scope: scope.cancel(), [parent, child] * 4)

    assert called == [1]


# --- trying again


def test_all_scopes_inside_of_one_share_its_retries() -> None:
    run = Scope(None, Clock(), retries=3)
    call, tool = Scope(None, Clock(), parent=run), Scope(None, Clock(), parent=run)
    inner = Scope(None, Clock(), parent=tool, retries=50)

    taken = [scope.take_retry() for scope in (call, inner, run, tool, inner, call)]

    assert taken == [True, True, True, False, False, False]
    assert [scope.retries_left for scope in (run, call, tool, inner)] == [0, 0, 0, 0]


def test_a_number_below_a_scope_without_one_holds_for_what_is_inside_only() -> None:
    message = Scope(None, Clock())
    run, sibling = Scope(None, Clock(), parent=message, retries=1), Scope(None, Clock(), parent=message, retries=1)

    assert [run.take_retry(), run.take_retry(), sibling.take_retry()] == [True, False, True]
    assert (message.retries_left, message.take_retry()) == (None, True)


def test_where_nobody_counts_anything_may_be_tried_again() -> None:
    scope, error = Scope(None, Clock(), parent=Scope(None, Clock())), LookupError("no")

    assert all(scope.take_retry(error) for _ in range(1000))
    assert scope.retries_left is None
    assert not hasattr(error, "__notes__")


def test_an_error_that_is_not_tried_again_says_so_once() -> None:
    scope, error = Scope(None, Clock(), retries=1), LookupError("no")

    assert scope.take_retry(error)
    assert not hasattr(error, "__notes__")
    assert not scope.take_retry(error)
    assert not scope.take_retry(error)
    assert error.__notes__ == [NO_RETRIES_LEFT]


def test_an_error_that_takes_no_notes_is_refused_all_the_same() -> None:
    class Closed(Exception):
        def add_note(self, note: str) -> None:
            raise AttributeError(note)

    assert not Scope(None, Clock(), retries=0).take_retry(Closed())


def test_threads_that_try_again_at_once_take_no_more_than_there_is() -> None:
    run = Scope(None, Clock(), retries=100)
    taken: list[bool] = []

    all_at_once(
        lambda scope: taken.extend([scope.take_retry() for _ in range(50)]),
        [Scope(None, Clock(), parent=run) for _ in range(8)],
    )

    assert (len(taken), sum(taken), run.retries_left) == (400, 100, 0)


# --- sleeping


def test_a_wait_that_does_not_fit_is_refused_before_it_begins() -> None:
    scope = Scope(105.0, Clock())

    with pytest.raises(RunTimedOut, match=r"a wait of 60 s does not fit into the 5 s left"):
        scope.sleep(60.0)


def test_who_wakes_after_the_deadline_is_told_so() -> None:
    readings = [100.0, 100.0, 106.0]  # before the wait, for its length, and after it

    with pytest.raises(RunTimedOut, match="the run's deadline has passed"):
        Scope(105.0, lambda: readings.pop(0)).sleep(INSTANT)

    assert readings == []


@pytest.mark.parametrize(("deadline", "left"), [(None, None), (100.0 + INSTANT, INSTANT)])
def test_a_wait_that_just_fits_is_waited_for(deadline: float | None, left: float | None) -> None:
    scope = Scope(deadline, Clock())

    scope.sleep(INSTANT)

    assert scope.remaining() == left


def test_a_cancelled_scope_does_not_wait() -> None:
    scope = Scope(None, Clock())
    scope.cancel()

    with pytest.raises(RunCancelled):
        scope.sleep(60.0)


@pytest.mark.parametrize("through_parent", [False, True])
def test_cancelling_wakes_who_sleeps(through_parent: bool) -> None:
    parent = Scope(None, Clock())
    scope = Scope(None, Clock(), parent=parent)
    woken = threading.Event()
    asleep = threading.Event()
    ends: list[type[BaseException]] = []

    class Watched(Scope):
        def on_cancel_at_once(self, callback: Callable[[], object]) -> Callable[[], None]:
            remove = super().on_cancel_at_once(callback)
            asleep.set()  # from here on a cancel reaches the sleeper, whether it waits already or not
            return remove

    sleeper_scope = Watched(None, Clock(), parent=scope)

    def work() -> None:
        try:
            sleeper_scope.sleep(60.0)
        except RunCancelled as error:
            ends.append(type(error))
        woken.set()

    threading.Thread(target=work, name="sleeper", daemon=True).start()
    assert asleep.wait(10)
    (parent if through_parent else scope).cancel()

    assert woken.wait(10)
    assert ends == [RunCancelled]


def test_a_sleep_leaves_nothing_behind_with_its_scope() -> None:
    parent = Scope(None, Clock())
    scope = Scope(None, Clock(), parent=parent)

    for _ in range(3):
        scope.sleep(0.0)

    assert parent._callbacks == {}  # pyright: ignore[reportPrivateUsage]  # a leak shows nowhere else
    assert scope._callbacks == {}  # pyright: ignore[reportPrivateUsage]  # as above


# --- the current one


def test_outside_of_runs_there_is_no_scope() -> None:
    assert current_scope() is None


def test_scopes_nest_in_their_context_and_other_threads_have_their_own() -> None:
    outer, inner = Scope(None, Clock()), Scope(None, Clock())
    seen: list[Scope | None] = []

    first = enter_scope(outer)
    second = enter_scope(inner)
    thread = threading.Thread(target=lambda: seen.append(current_scope()), name="other", daemon=True)
    thread.start()
    thread.join(10)
    seen.append(current_scope())
    leave_scope(second)
    seen.append(current_scope())
    leave_scope(first)

    assert seen == [None, inner, outer]
    assert current_scope() is None


def test_a_scope_that_was_not_made_is_made_once_in_its_context_and_holds_what_its_parent_holds() -> None:
    clock, context = Clock(), contextvars.copy_context()
    parent = Scope(5.0, clock)
    context.run(enter_scope, (9.0, clock, parent))

    seen = scope_in(context)
    first, second = context.run(current_scope), context.run(current_scope)

    assert first is second is scope_in(context)
    assert first is not None and seen is not None
    assert (first.deadline, seen.deadline) == (5.0, 5.0)
    parent.cancel()
    assert first.cancelled and seen.cancelled
