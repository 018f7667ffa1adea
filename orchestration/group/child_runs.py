"""`ChildRuns`: the children of a run, of which each is told to run, pauses, reaches a limit, fails, or is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.feed_checks import check_pauses, check_texts
from understudy.orchestration.agent.pauses import answer_child, check_answers, pauses_of_child
from understudy.orchestration.agent.state import PausedChild
from understudy.vocabulary.runs.outcomes import Pause, PauseAnswer

from .children import ChildFailure, ChildResult, ChildState
from .feed_checks import check_child_failure, check_child_result
from .queue import ChildQueue
from .spec import GroupSpec
from .state import GroupState

Spec = TypeVar("Spec", bound=GroupSpec)
State = TypeVar("State", bound=GroupState)


class ChildRuns(ABC, Generic[Spec, State]):
    """What a machine of children is told of each, and where each stands then; what to do about it is not its matter."""

    __slots__ = ("_errors", "_failed", "_limited", "_line", "_spec", "_state")

    _spec: Spec
    _state: State
    _errors: dict[int, Exception]
    """Position -> what the child failed of, while this object lives; the text has only what that was in words."""
    _line: ChildQueue
    """Who runs, and who is next."""
    _failed: list[int]
    """Positions of the children that failed, in the order in which they did."""
    _limited: list[int]
    """Positions of the children that stand at a limit."""

    def __init__(self, spec: Spec, state: State) -> None:
        self._errors = {}
        self._spec = spec
        self._state = state
        self._make_index()

    def _make_index(self) -> None:
        """Note where what is looked for at each step stands; none of it is saved, for it follows from the rest."""
        children, able = self._state.children, list(self._able())
        running = [position for position in able if children[position].begun]
        waiting = [position for position in able if not children[position].begun]
        self._line = ChildQueue(self._spec.max_parallel, running, waiting)
        self._failed = [position for position in self._state.order if children[position].failure is not None]
        self._limited = [position for position, child in enumerate(children) if child.phase == "limit"]

    # --- what each kind decides

    @abstractmethod
    def _able(self) -> Iterable[int]:
        """Return the positions of the children that may run as soon as there is room."""

    def _may_run(self, position: int) -> bool:
        """Whether a child still counts that goes on after a pause."""
        return True

    def _due(self) -> list[int]:
        """Return the positions of the children that are to run now."""
        return self._line.due()

    # --- what came of a child

    def child_done(self, position: int, result: ChildResult) -> None:
        """Take the result of a child that is complete.

        Raises:
            ProtocolViolation: this child was not to be run.
            TypeError: something is of the wrong type.
        """
        check_child_result(result)
        child = self._running(position, "a result")
        child.phase, child.result, child.paused = "done", result, None
        self._state.order.append(position)

    def child_failed(self, position: int, failure: ChildFailure, error: Exception | None = None) -> None:
        """Take note that a child failed, was cancelled, or stopped short of its end.

        Args:
            position: which child.
            failure: what it failed of, in words.
            error: the exception itself, which the run ends with if it ends of this; else one is made of the words.

        Raises:
            ProtocolViolation: this child was not to be run.
            TypeError: something is of the wrong type.
        """
        check_child_failure(failure, error)
        child = self._running(position, "a failure")
        child.phase, child.failure, child.paused = "failed", failure, None
        self._state.order.append(position)
        self._failed.append(position)
        self._keep_error(position, error)

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        """Take note that a child reached a limit: it does not run, and can go on where it stands once that is raised.

        Args:
            position: which child.
            saved: its run, as whoever drives it will want to have it back.
            failure: which limit, in words.
            error: the exception itself.

        Raises:
            ProtocolViolation: this child was not to be run.
            TypeError: something is of the wrong type.
        """
        check_child_failure(failure, error)
        check_pauses(saved, ())
        child = self._running(position, "a limit")
        child.phase, child.failure, child.paused = "limit", failure, PausedChild(saved, ())
        self._limited.append(position)
        self._keep_error(position, error)

    def child_paused(self, position: int, saved: str, pauses: Sequence[Pause]) -> None:
        """Take note that a child waits for a person.

        Args:
            position: which child.
            saved: its run, as whoever drives it will want to have it back.
            pauses: what it waits for, at least one thing.

        Raises:
            ProtocolViolation: this child was not to be run, or waits for nothing.
            TypeError: something is of the wrong type.
        """
        if not pauses:
            raise ProtocolViolation(f"a pause of child {position} that waits for nothing")
        check_pauses(saved, pauses)
        child = self._running(position, "a pause")
        child.phase, child.paused = "paused", PausedChild(saved, tuple(pauses))

    def expects(self, position: int) -> bool:
        """Whether what comes of a child still counts; not so if the others have decided meanwhile."""
        return position in self._line.running or position in self._due()

    def _running(self, position: int, what: str) -> ChildState:
        if not self.expects(position):
            due = self._due() or "none"
            raise ProtocolViolation(
                f"{what} of child {position} came out of order: {self._spec.runner_id!r} waits for {due}"
            )
        child = self._state.children[position]
        child.begun = False
        self._line.leave(position)
        return child

    # --- what they failed of

    def _keep_error(self, position: int, error: Exception | None) -> None:
        if error is not None:
            self._errors[position] = error

    def _failures(self) -> list[Exception]:
        """Return what children failed of, in the order in which they did."""
        return [self._error_of(position) for position in self._failed]

    def _error_of(self, position: int) -> Exception:
        failure = self._state.children[position].failure
        assert failure is not None
        return self._errors.get(position) or failure.to_error()

    # --- those that go on

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """What children wait for a person for, in their order; others may run besides."""
        path = (self._spec.runner_id,)
        return tuple([pause for at, _, paused in self._paused() for pause in pauses_of_child(at, paused, path)])

    def _paused(self) -> Iterator[tuple[int, ChildState, PausedChild]]:
        for position, child in enumerate(self._state.children):
            if child.phase == "paused" and child.paused is not None:
                yield position, child, child.paused

    def respond(self, answers: Mapping[str, PauseAnswer]) -> None:
        """Take a person's answers to some or all of the `pauses`, by their ids; these children go on.

        Raises:
            ProtocolViolation: nothing was given, or no pause has such an id, or no waiting call.
            TypeError: an answer is not of the kind that its pause waits for.
        """
        check_answers(self.pauses, answers)
        for position, child, paused in self._paused():
            if answer_child(position, paused, answers):
                child.phase = "pending"
                if self._may_run(position):
                    self._line.join(position)

    @property
    def limited(self) -> dict[int, str]:
        """The runs of the children that stand at a limit, by position, as `child_at_limit` was given them."""
        children = self._state.children
        return {p: paused.saved for p in self._limited if (paused := children[p].paused) is not None}

    def go_on(self, raised: Mapping[int, str]) -> None:
        """Let children go on that stand at a limit.

        Args:
            raised: their runs by position, with the limit raised.

        Raises:
            ProtocolViolation: a child does not stand at a limit.
        """
        self._check_limited(raised)
        check_texts("raised", raised)
        for position, saved in raised.items():
            self._state.children[position].release(saved)
            self._errors.pop(position, None)
            self._limited.remove(position)
            self._line.join(position)

    def _check_limited(self, raised: Mapping[int, str]) -> None:
        if not raised.keys() <= set(self._limited):
            raise ProtocolViolation(f"at a limit stand {self._limited or 'none'}, not {sorted(raised)}")

    # --- what a driver reads

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def state(self) -> State:
        """The run's state, to read; only the machine changes it."""
        return self._state
