"""`ChildRuns`: the children of a group's run and their phases: pending, paused, at a limit, failed, done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.feed_checks import (
    check_pauses,
    check_text_or_none,
    check_texts,
    fault_of_usage,
    kind_of,
)
from understudy.orchestration.agent.pauses import answer_child, check_answers, pauses_of_child
from understudy.orchestration.agent.state import PausedChild
from understudy.vocabulary.checks import checked_mapping, checked_text, checked_whole
from understudy.vocabulary.runs.outcomes import Pause, PauseAnswer

from .children import ChildFailure, ChildResult, ChildState
from .spec import GroupSpec
from .state import GroupState


class ChildQueue:
    """The children that may run, by position. A step costs what it changes, however many children there are.

    Args:
        places: how many run at once; None for all.
        running: positions of the children that run.
        waiting: positions of the children that wait; the lowest runs first.
    """

    __slots__ = ("_places", "_waiting", "running")

    def __init__(self, places: int | None, running: Iterable[int], waiting: Iterable[int]) -> None:
        self._places = places
        self.running = set(running)
        self._waiting = sorted(waiting)

    def due(self) -> list[int]:
        """Return the positions that run now, and those for which a place is free, in order."""
        # A child that goes on after a pause waits behind the running ones, whatever its position.
        return sorted([*sorted(self.running), *self._waiting][: self._places])

    def new(self) -> list[int]:
        """Return the positions of waiting children for which a place is free."""
        room = len(self._waiting) if self._places is None else max(0, self._places - len(self.running))
        return self._waiting[:room]

    def admit(self) -> list[int]:
        """Move waiting children to the free places, and return their positions."""
        admitted = self.new()
        if admitted:
            del self._waiting[: len(admitted)]
            self.running.update(admitted)
        return admitted

    def join(self, position: int) -> None:
        """Put a child into the queue."""
        insort(self._waiting, position)

    def leave(self, position: int) -> None:
        """Remove a child that runs or waits; no error if it does neither."""
        self.running.discard(position)
        at = bisect_left(self._waiting, position)
        if self._waiting[at : at + 1] == [position]:
            del self._waiting[at]


Spec = TypeVar("Spec", bound=GroupSpec)
State = TypeVar("State", bound=GroupState)


class ChildRuns(ABC, Generic[Spec, State]):
    """Takes the reports about children and keeps their states; subclasses decide what follows from them."""

    __slots__ = ("_errors", "_failed", "_limited", "_queue", "_spec", "_state")

    _spec: Spec
    _state: State
    _errors: dict[int, Exception]
    """Position -> the exception that the child failed with. It is not saved; the saved text has only its words."""
    _queue: ChildQueue
    """The children that run, and those that wait in the queue."""
    _failed: list[int]
    """Positions of the failed children, in the order of their failures."""
    _limited: list[int]
    """Positions of the children at a limit."""

    def __init__(self, spec: Spec, state: State) -> None:
        self._errors = {}
        self._spec = spec
        self._state = state
        self._make_index()

    def _make_index(self) -> None:
        """Build the indexes that each step reads. They are not saved, because they follow from the state."""
        children, able = self._state.children, list(self._eligible())
        running = [position for position in able if children[position].begun]
        waiting = [position for position in able if not children[position].begun]
        self._queue = ChildQueue(self._spec.max_parallel, running, waiting)
        self._failed = [position for position in self._state.order if children[position].failure is not None]
        self._limited = [position for position, child in enumerate(children) if child.phase == "limit"]

    # --- what each kind decides

    @abstractmethod
    def _eligible(self) -> Iterable[int]:
        """Return the positions of the children that may run as soon as a place is free."""

    def _may_run(self, position: int) -> bool:
        """Whether a child may still go on after its pause."""
        return True

    def _due(self) -> list[int]:
        """Return the positions of the children that must run now."""
        return self._queue.due()

    # --- reports about a child

    def child_done(self, position: int, result: ChildResult) -> None:
        """Take the result of a complete child.

        Raises:
            ProtocolViolation: no result of this child is expected.
            TypeError: an argument is of the wrong type.
        """
        check_child_result(result)
        self.take_result(position, result)

    def take_result(self, position: int, result: ChildResult) -> None:
        """As `child_done`, for a result that needs no check: the runtime made it of a run's outcome."""
        child = self._running(position, "a result")
        child.phase, child.result, child.paused = "done", result, None
        self._state.order.append(position)

    def child_failed(self, position: int, failure: ChildFailure, error: Exception | None = None) -> None:
        """Note that a child failed, was cancelled, or ended incomplete.

        Args:
            position: the child's position.
            failure: the failure, in words that can be saved.
            error: the exception itself, raised if the failure ends the run; None for an error made of the words.

        Raises:
            ProtocolViolation: no failure of this child is expected.
            TypeError: an argument is of the wrong type.
        """
        check_child_failure(failure, error)
        child = self._running(position, "a failure")
        child.phase, child.failure, child.paused = "failed", failure, None
        self._state.order.append(position)
        self._failed.append(position)
        self._keep_error(position, error)

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        """Note that a child reached a limit: it stops, and can go on from there when the limit is raised.

        Args:
            position: the child's position.
            saved: the child's run as text, from which it goes on.
            failure: the limit, in words that can be saved.
            error: the exception itself.

        Raises:
            ProtocolViolation: no report of this child is expected.
            TypeError: an argument is of the wrong type.
        """
        check_child_failure(failure, error)
        check_pauses(saved, ())
        child = self._running(position, "a limit")
        child.phase, child.failure, child.paused = "limit", failure, PausedChild(saved, ())
        self._limited.append(position)
        self._keep_error(position, error)

    def child_paused(self, position: int, saved: str, pauses: Sequence[Pause]) -> None:
        """Note that a child waits for a person.

        Args:
            position: the child's position.
            saved: the child's run as text, from which it goes on.
            pauses: the child's pauses, at least one.

        Raises:
            ProtocolViolation: no pause of this child is expected, or there are no pauses.
            TypeError: an argument is of the wrong type.
        """
        if not pauses:
            raise ProtocolViolation(f"a pause of child {position} that waits for nothing")
        check_pauses(saved, pauses)
        child = self._running(position, "a pause")
        child.phase, child.paused = "paused", PausedChild(saved, tuple(pauses))

    def child_kept(self, position: int, saved: str) -> None:
        """Keep the run of a child that failed, or that was under way when the run ended: the child goes on from there.

        A child that was under way does so with its next order, a failed one after `retry_failed`.

        Raises:
            ProtocolViolation: the child is done, paused or at a limit.
        """
        check_pauses(saved, ())
        child = self._state.children[position]
        if child.phase not in ("pending", "failed"):
            raise ProtocolViolation(
                f"child {position} of {self._spec.runner_id!r} is {child.phase}, and was to be kept"
            )
        child.paused = PausedChild(saved, ())

    def child_refused(self, position: int, before: PausedChild | None) -> None:
        """Note that a child that is told to have failed could not begin or go on: what it had stays, for the next time.

        Args:
            position: the child's position.
            before: what it was to go on with; None if it was to begin.

        Raises:
            ProtocolViolation: the child has not failed.
        """
        child = self._state.children[position]
        if child.phase != "failed":
            raise ProtocolViolation(f"child {position} of {self._spec.runner_id!r} is {child.phase}, and was refused")
        child.paused, child.refused = before, True

    def expects(self, position: int) -> bool:
        """Whether a report about the child still counts; it does not once other children have decided the run."""
        return position in self._queue.running or position in self._due()

    def _running(self, position: int, what: str) -> ChildState:
        if not self.expects(position):
            due = self._due() or "none"
            raise ProtocolViolation(
                f"{what} of child {position} came out of order: {self._spec.runner_id!r} waits for {due}"
            )
        child = self._state.children[position]
        child.begun = False
        self._queue.leave(position)
        return child

    # --- failures

    def _keep_error(self, position: int, error: Exception | None) -> None:
        if error is not None:
            self._errors[position] = error

    def _failures(self) -> list[Exception]:
        """Return the errors of the failed children, in the order of their failures."""
        return [self._error_of(position) for position in self._failed]

    def _error_of(self, position: int) -> Exception:
        failure = self._state.children[position].failure
        assert failure is not None
        return self._errors.get(position) or failure.to_error()

    # --- children that go on

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The pauses of all children, in the children's order; other children may still run."""
        path = (self._spec.runner_id,)
        return tuple([pause for at, _, paused in self._paused() for pause in pauses_of_child(at, paused, path)])

    def _paused(self) -> Iterator[tuple[int, ChildState, PausedChild]]:
        for position, child in enumerate(self._state.children):
            if child.phase == "paused" and child.paused is not None:
                yield position, child, child.paused

    def respond(self, answers: Mapping[str, PauseAnswer]) -> None:
        """Take a person's answers to some or all of the `pauses`, by their ids; the answered children go on.

        Raises:
            ProtocolViolation: there are no answers, or an id is unknown.
            TypeError: an answer is of another kind than its pause.
        """
        check_answers(self.pauses, answers)
        for position, child, paused in self._paused():
            if answer_child(position, paused, answers):
                child.phase = "pending"
                if self._may_run(position):
                    self._queue.join(position)

    @property
    def limited(self) -> dict[int, str]:
        """Position -> the saved run of each child at a limit, as `child_at_limit` took it."""
        children = self._state.children
        return {p: paused.saved for p in self._limited if (paused := children[p].paused) is not None}

    def go_on(self, raised: Mapping[int, str]) -> None:
        """Let children at a limit go on.

        Args:
            raised: position -> the child's saved run, with its limit raised.

        Raises:
            ProtocolViolation: a child is not at a limit.
        """
        self._check_raised(raised)
        for position, saved in raised.items():
            self._state.children[position].release(saved)
            self._errors.pop(position, None)
            self._limited.remove(position)
            self._queue.join(position)

    def _reopen_kept(self) -> None:
        """Let the failed children go on whose runs were kept, and those begin that were refused."""
        children = self._state.children
        for position in [each for each in self._failed if children[each].is_kept]:
            child = children[position]
            child.phase, child.failure, child.refused = "pending", None, False
            self._state.order.remove(position)
            self._errors.pop(position, None)
        self._make_index()

    def _check_raised(self, raised: Mapping[int, str]) -> None:
        if not raised.keys() <= set(self._limited):
            raise ProtocolViolation(f"at a limit stand {self._limited or 'none'}, not {sorted(raised)}")
        check_texts("raised", raised)

    # --- for the runtime

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def state(self) -> State:
        """The run's state, for reading only."""
        return self._state


def check_child_result(given: ChildResult) -> None:
    """Check a child's result, but not the values of its session.

    Raises:
        TypeError: a field is of the wrong type.
        ValueError: a count is negative.
    """
    if not isinstance(given, ChildResult):
        raise TypeError(f"the result of a child must be a ChildResult, got {kind_of(given)}")
    checked_text("the result of a child: text", given.text)
    check_text_or_none("the result of a child: combined_text", given.combined_text)
    if fault := fault_of_usage(given.usage):
        raise TypeError(f"the result of a child: {fault}")
    for name in ("iterations", "turns"):
        checked_whole(f"the result of a child: {name}", getattr(given, name), 0)
    checked_mapping("the result of a child: changes", given.changes)
    for key in given.removed:
        checked_text("the result of a child: each of removed", key)


def check_child_failure(given: ChildFailure, error: Exception | None) -> None:
    """Raise `TypeError` unless these are a `ChildFailure` and an exception or None."""
    if not isinstance(given, ChildFailure):
        raise TypeError(f"the failure of a child must be a ChildFailure, got {kind_of(given)}")
    checked_text("the failure of a child: kind", given.kind)
    checked_text("the failure of a child: message", given.message)
    if error is not None and not isinstance(error, Exception):
        raise TypeError(f"the error of a child must be an exception or None, got {kind_of(error)}")
