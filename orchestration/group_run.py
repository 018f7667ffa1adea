"""What the machines of sequences and parallel groups have in common: children that run, pause, end and are saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from understudy.budget import Spending
from understudy.errors import ProtocolViolation
from understudy.messages import JsonValue, Part, Usage
from understudy.outcomes import Complete, Incomplete, Pause, PauseAnswer, TaskResult

from .children import AwaitChildren, Child, ChildFailure, ChildOrder, ChildResult, RunChildren, merged
from .group_spec import GroupSpec
from .line import Line
from .pauses import CHILD, check_answers
from .state import PausedChild


@dataclass(slots=True, kw_only=True)
class GroupState:
    """What the run of a group remembers."""

    spending: Spending = field(default_factory=Spending)
    """What all inside of it has spent; whoever drives the run keeps it."""
    input: str | tuple[Part, ...]
    children: list[Child]
    order: list[int] = field(default_factory=list[int])
    """Positions of the children that are done or failed, in the order in which they ended."""


@dataclass(frozen=True, slots=True)
class GroupDone:
    """Nothing is left to do; children that still run are not waited for."""

    outcome: Complete[str] | Incomplete


GroupStep = RunChildren | AwaitChildren | GroupDone


Spec = TypeVar("Spec", bound=GroupSpec)
State = TypeVar("State", bound=GroupState)


class GroupRun(ABC, Generic[Spec, State]):
    """One run of an orchestrator; not safe to use from two threads at once.

    Args:
        spec: what the run decides by.
        input: what the user says: text, or parts.
    """

    __slots__ = ("_errors", "_failed", "_limited", "_line", "_spec", "_state")

    _spec: Spec
    _state: State
    _errors: dict[int, Exception]
    """Position -> what the child failed of, while this object lives; the text has only what that was in words."""
    _line: Line
    """Who runs, and who is next."""
    _failed: list[int]
    """Positions of the children that failed, in the order in which they did."""
    _limited: list[int]
    """Positions of the children that stand at a limit."""

    def __init__(self, spec: Spec, input: str | Sequence[Part]) -> None:
        self._errors = {}
        self._spec = spec
        self._state = self._begun(input if isinstance(input, str) else tuple(input))
        self._make_index()

    def _make_index(self) -> None:
        """Note where what is looked for at each step stands; none of it is saved, for it follows from the rest."""
        children, able = self._state.children, list(self._able())
        running = [position for position in able if children[position].begun]
        waiting = [position for position in able if not children[position].begun]
        self._line = Line(self._spec.max_parallel, running, waiting)
        self._failed = [position for position in self._state.order if children[position].failure is not None]
        self._limited = [position for position, child in enumerate(children) if child.phase == "limit"]

    # --- what each kind remembers

    @abstractmethod
    def _begun(self, input: str | tuple[Part, ...]) -> State:
        """Return the state of a run that begins."""

    @classmethod
    @abstractmethod
    def _state_type(cls) -> type[State]:
        """Return the type of the state."""

    # --- what each kind decides

    @abstractmethod
    def _able(self) -> Iterable[int]:
        """Return the positions of the children that may run as soon as there is room."""

    @abstractmethod
    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        """Return what a child is told."""

    @abstractmethod
    def _failure(self) -> Exception | None:
        """Return what the run fails of, if it does."""

    @abstractmethod
    def _outcome(self) -> Complete[str] | Incomplete | None:
        """Return what the run came to; None if it is not over."""

    # --- what to do next

    def next_step(self, *, only_new: bool = False) -> GroupStep:
        """Return what the driver must do now; the same again until it is fed.

        Args:
            only_new: of the children to run, return only those that no step had before, in time that does not depend on
                how many run besides. There may be none.

        Raises:
            Exception: a child's failure ends the run; it keeps its type. Or a child reached a limit, and nothing else is
                left to do: `go_on` lets it go on once the limit is raised.
        """
        failure = self._failure()
        if failure is not None:
            raise failure
        outcome = self._outcome()
        if outcome is not None:
            return GroupDone(outcome)
        new = self._admit()
        if not self._line.running:
            pauses = self.pauses
            if self._limited and not pauses:
                raise self._error_of(min(self._limited))  # not the first: the text has no order of them
            return AwaitChildren(pauses)
        return RunChildren(tuple([self.order_of(position) for position in (new if only_new else self._due())]))

    def _admit(self) -> list[int]:
        """Let children run for which there is room, and return which."""
        new = self._line.admit()
        for position in new:
            self._state.children[position].begun = True
        return new

    def _due(self) -> list[int]:
        """Return the positions of the children that are to run now."""
        return self._line.due()

    def order_of(self, position: int) -> ChildOrder:
        """Return what a child that a step had is to do."""
        return ChildOrder(position, self._input_of(position), self._state.children[position].paused)

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """What children wait for a person for, in their order; others may run besides."""
        return tuple(self._pauses())

    def _pauses(self) -> Iterator[Pause]:
        for position, child in enumerate(self._state.children):
            if child.phase == "paused" and child.paused is not None:
                for pause in child.paused.pauses:
                    yield replace(pause, id=_in_child(position, pause.id), path=(self._spec.runner_id, *pause.path))

    # --- what came of it

    def child_done(self, position: int, result: ChildResult) -> None:
        """Take the result of a child that is complete.

        Raises:
            ProtocolViolation: this child was not to be run.
        """
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
        """
        child = self._running(position, "a failure")
        child.phase, child.failure, child.paused = "failed", failure, None
        self._state.order.append(position)
        self._failed.append(position)
        self._keep_error(position, error)

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

    # --- limits

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        """Take note that a child reached a limit: it does not run, and can go on where it stands once that is raised.

        Args:
            position: which child.
            saved: its run, as whoever drives it will want to have it back.
            failure: which limit, in words.
            error: the exception itself.

        Raises:
            ProtocolViolation: this child was not to be run.
        """
        child = self._running(position, "a limit")
        child.phase, child.failure, child.paused = "limit", failure, PausedChild(saved, ())
        self._limited.append(position)
        self._keep_error(position, error)

    @property
    def limited(self) -> dict[int, str]:
        """The runs of the children that stand at a limit, by position, as `child_at_limit` was given them."""
        children = self._state.children
        return {p: paused.saved for p in self._limited if (paused := children[p].paused) is not None}

    def at_limit(self) -> bool:
        """Whether the run stopped where it can be made to go on without an answer."""
        return bool(self._limited) and not self._line.running and not self.pauses and self._failure() is None

    def go_on(self, raised: Mapping[int, str]) -> None:
        """Let children go on that stand at a limit.

        Args:
            raised: their runs by position, with the limit raised.

        Raises:
            ProtocolViolation: a child does not stand at a limit.
        """
        self._check_limited(raised)
        for position, saved in raised.items():
            self._release(position, saved)
            self._limited.remove(position)
            self._line.join(position)

    def _check_limited(self, raised: Mapping[int, str]) -> None:
        if not raised.keys() <= set(self._limited):
            raise ProtocolViolation(f"at a limit stand {self._limited or 'none'}, not {sorted(raised)}")

    def _release(self, position: int, saved: str) -> None:
        child = self._state.children[position]
        child.phase, child.failure, child.paused = "pending", None, PausedChild(saved, ())
        self._errors.pop(position, None)

    def child_paused(self, position: int, saved: str, pauses: Sequence[Pause]) -> None:
        """Take note that a child waits for a person.

        Args:
            position: which child.
            saved: its run, as whoever drives it will want to have it back.
            pauses: what it waits for, at least one thing.

        Raises:
            ProtocolViolation: this child was not to be run, or waits for nothing.
        """
        if not pauses:
            raise ProtocolViolation(f"a pause of child {position} that waits for nothing")
        child = self._running(position, "a pause")
        child.phase, child.paused = "paused", PausedChild(saved, tuple(pauses))

    def respond(self, answers: Mapping[str, PauseAnswer]) -> None:
        """Take a person's answers to some or all of the `pauses`, by their ids; these children go on.

        Raises:
            ProtocolViolation: nothing was given, or no pause has such an id, or no waiting call.
            TypeError: an answer is not of the kind that its pause waits for.
        """
        check_answers(self.pauses, answers)
        for position, child in enumerate(self._state.children):
            if child.phase == "paused" and child.paused is not None:
                for pause in child.paused.pauses:
                    answer = answers.get(_in_child(position, pause.id))
                    if answer is not None:
                        child.paused.answers[pause.id] = dict(answer) if isinstance(answer, Mapping) else answer
                        self._wants_to_go_on(position, child)

    def _wants_to_go_on(self, position: int, child: Child) -> None:
        if child.phase == "paused":
            child.phase = "pending"
            if self._may_run(position):
                self._line.join(position)

    def _may_run(self, position: int) -> bool:
        """Whether a child still counts that goes on after a pause."""
        return True

    def _running(self, position: int, what: str) -> Child:
        if not self.expects(position):
            due = self._due() or "none"
            raise ProtocolViolation(
                f"{what} of child {position} came out of order: {self._spec.runner_id!r} waits for {due}"
            )
        child = self._state.children[position]
        child.begun = False
        self._line.leave(position)
        return child

    def expects(self, position: int) -> bool:
        """Whether what comes of a child still counts; not so if the others have decided meanwhile."""
        return position in self._line.running or position in self._due()

    # --- reports

    @property
    def changes(self) -> tuple[dict[str, JsonValue], frozenset[str], frozenset[str]]:
        """What the children changed in the session so far: keys set, keys deleted, and keys in conflict."""
        return merged(self._kept())

    def _kept(self) -> Iterable[ChildResult]:
        """Return the results that count, the last one last."""
        return [child.result for child in self._state.children if child.result is not None]

    @property
    def usage(self) -> Usage:
        """Tokens of all children that are done."""
        return sum([result.usage for result in self._all_results()], Usage())

    def _all_results(self) -> list[ChildResult]:
        return [child.result for child in self._state.children if child.result is not None]

    def _complete(
        self,
        result: ChildResult,
        reason: str,
        combined_text: str | None,
        tasks: Mapping[str, TaskResult] | None = None,
    ) -> Complete[str]:
        results = self._all_results()
        return Complete(
            agent_id=self._spec.runner_id,
            completion_reason=reason,
            iterations=sum(each.iterations for each in results),
            turns=sum(each.turns for each in results),
            usage=self.usage,
            text=result.text,
            output=result.text,
            combined_text=combined_text,
            tasks=tasks or {},
        )

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def state(self) -> State:
        """The run's state, to read; only the machine changes it."""
        return self._state

    # --- saving and loading

    def to_json(self) -> str:
        """Return the run as text, with the runs of children that are paused; functions and classes stay in the spec."""
        from .group_snapshot import dump

        return dump(self._state, self._spec.fingerprint())

    @classmethod
    def from_json(cls, text: str, spec: Spec, *, adopt: bool = False) -> Self:
        """Load a run that `to_json` made, in this process or another.

        Raises:
            SpecChanged: the run was made with another definition, and `adopt` is false.
            ValueError: the text is no saved run of a known format, or of another number of children.
        """
        from .group_snapshot import load

        run = cls.__new__(cls)
        run._errors = {}
        run._spec = spec
        run._state = load(text, spec, adopt, cls._state_type())
        run._make_index()
        return run


class PlainRun(GroupRun[GroupSpec, GroupState]):
    """The run of a group whose children stand there from the beginning."""

    __slots__ = ()

    def _begun(self, input: str | tuple[Part, ...]) -> GroupState:
        return GroupState(input=input, children=[Child() for _ in self._spec.children])

    @classmethod
    def _state_type(cls) -> type[GroupState]:
        return GroupState


def _in_child(position: int, pause_id: str) -> str:
    return f"{CHILD}/{position}/{pause_id}"
