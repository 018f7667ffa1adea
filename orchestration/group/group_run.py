"""`GroupRun`: the base of all orchestrators' machines: the next step, the end, saving and loading."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from understudy.orchestration.agent.feed_checks import checked_input
from understudy.vocabulary.messages import JsonValue, Part, Usage
from understudy.vocabulary.runs.outcomes import Complete, Incomplete

from .child_runs import ChildRuns, Spec, State
from .children import AwaitChildren, ChildOrder, ChildResult, ChildState, RunChildren, merged
from .outcome import incomplete, results_of, usage_of
from .spec import GroupSpec
from .state import GroupState


@dataclass(frozen=True, slots=True)
class GroupDone:
    """Nothing is left to do; nobody waits for children that still run."""

    outcome: Complete[str] | Incomplete


GroupStep = RunChildren | AwaitChildren | GroupDone


class GroupRun(ChildRuns[Spec, State]):
    """One run of an orchestrator; not safe to use from two threads at once.

    Args:
        spec: the definition's rules and limits, as data.
        input: the user's message: text, or parts.

    Raises:
        TypeError: the input holds something other than parts, or `spec` is no spec.
        ValueError: the input is empty.
    """

    __slots__ = ()

    def __init__(self, spec: Spec, input: str | Sequence[Part]) -> None:
        _check_spec(spec)
        super().__init__(spec, self._begun(spec, checked_input(input)))

    # --- the state of each kind of run

    @classmethod
    @abstractmethod
    def _begun(cls, spec: Spec, input: str | tuple[Part, ...]) -> State:
        """Return the state of a new run."""

    @classmethod
    @abstractmethod
    def _state_type(cls) -> type[State]:
        """Return the type of the state."""

    @classmethod
    @abstractmethod
    def _contradiction(cls, state: State, spec: Spec) -> str:
        """Return the first contradiction in a loaded state, or an empty text."""

    # --- what each kind decides

    @property
    def any_will_do(self) -> bool:
        """Whether the success of one child is enough; otherwise the run waits for each."""
        return False

    @abstractmethod
    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        """Return the input of a child."""

    @abstractmethod
    def _failure(self) -> Exception | None:
        """Return the error that ends the run, or None."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the children have decided the outcome."""

    @abstractmethod
    def _outcome(self) -> Complete[str] | Incomplete:
        """Return the outcome of a run that is done."""

    # --- what to do next

    def next_step(self, *, only_new: bool = False) -> GroupStep:
        """Return the step that is due; the same step until a report is fed.

        Args:
            only_new: return only the children that no earlier step had, maybe none. This takes the same time however
                many children run already.

        Raises:
            Exception: the failure of a child ends the run; the error keeps its type. Or a child reached a limit and
                nothing else is left to do: raise the limit and call `go_on`. If each such child stopped short of its end,
                with an answer that meets no criterion, the step is `GroupDone` with an `Incomplete`.
        """
        new = self.begin_new()
        if self.is_done:
            return GroupDone(self._outcome())
        if not self._queue.running:
            pauses = self.pauses
            return self._stopped() if self._limited and not pauses else AwaitChildren(pauses)
        return RunChildren(tuple([self.order_of(position) for position in (new if only_new else self._due())]))

    def begin_new(self) -> list[int]:
        """Have the children run for which a place is free, and return their positions.

        Raises:
            Exception: the failure of a child ends the run.
        """
        failure = self._failure()
        if failure is not None:
            raise failure
        return [] if self.is_done else self._admit()

    @property
    def outcome(self) -> Complete[str] | Incomplete | None:
        """The outcome; None while the run is not over."""
        return self._outcome() if self.is_done else None

    def due_children(self) -> list[int]:
        """Return the positions of the children that run or may begin; takes no step."""
        return self._due()

    def new_children(self) -> list[int]:
        """Return the positions of the children that may begin, without those that run; for a run that is not over."""
        return self._queue.new()

    @property
    def has_running(self) -> bool:
        """Whether a child runs that is not reported yet."""
        return bool(self._queue.running)

    def _stopped(self) -> GroupDone:
        """Return how the run stops because of children at a limit; raises unless all of these stopped short of their end."""
        limits = [at for at in sorted(self._limited) if not self._state.children[at].is_incomplete]
        if limits:
            raise self._error_of(limits[0])  # the lowest: a saved text has no order of limits
        return GroupDone(incomplete(self._spec.runner_id, self._state))

    def _admit(self) -> list[int]:
        """Let children run while places are free, and return the new ones."""
        new = self._queue.admit()
        for position in new:
            self._state.children[position].begun = True
        return new

    def order_of(self, position: int) -> ChildOrder:
        """Return the order for a child that a step named."""
        return ChildOrder(position, self._input_of(position), self._state.children[position].paused)

    def at_limit(self) -> bool:
        """Whether a child is at a limit and nothing else is left to do: only `go_on` continues the run."""
        return bool(self._limited) and not self._queue.running and not self.pauses and self._failure() is None

    @property
    def waits(self) -> bool:
        """Whether nothing is left to do before a person answers."""
        return bool(self.pauses) and not self.has_failed and not self.is_done and not self._due()

    @property
    def has_failed(self) -> bool:
        """Whether children have decided that the run fails."""
        return self._failure() is not None

    @property
    def may_go_on(self) -> bool:
        """Whether the run can go on from here: it has not failed, or the run of a child that it failed of was kept."""
        return not self.has_failed or any(self._state.children[at].is_kept for at in self._failed)

    def retry_failed(self) -> None:
        """Let the children go on that the run failed of, if their runs were kept; does nothing to a run that has not failed."""
        if self.has_failed:
            self._reopen_kept()

    # --- reports

    @property
    def changes(self) -> tuple[dict[str, JsonValue], frozenset[str], frozenset[str]]:
        """The children's changes to the session so far: keys set, keys deleted, and keys in conflict."""
        return merged(self._results_to_merge())

    def _results_to_merge(self) -> Iterable[ChildResult]:
        """Return the results that count, in the order in which they are merged."""
        return results_of(self._state)

    @property
    def usage(self) -> Usage:
        """Tokens of all children that are done."""
        return usage_of(self._state)

    # --- saving and loading

    def to_json(self) -> str:
        """Return the run as text, with the runs of children that are paused; functions and classes stay in the spec."""
        from .snapshot import dump

        return dump(self._state, self._spec)

    @classmethod
    def from_json(cls, text: str, spec: Spec, *, adopt: bool = False) -> Self:
        """Load a run that `to_json` made, in this process or another.

        Raises:
            SpecChanged: the run was made with another definition, and `adopt` is false.
            TypeError: `spec` is no spec.
            ValueError: the text is no saved run of a known format, or of another number of children.
        """
        from .snapshot import load

        _check_spec(spec)
        run = cls.__new__(cls)
        state = load(text, spec, adopt, cls._state_type(), lambda loaded: cls._contradiction(loaded, spec))
        super(GroupRun, run).__init__(spec, state)
        return run


def _check_spec(given: object) -> None:
    if not isinstance(given, GroupSpec):
        raise TypeError(f"a run is made with the run_spec of a group or workflow, got {given!r}")


class PlainRun(GroupRun[GroupSpec, GroupState]):
    """The run of a group whose children are all known from the start."""

    __slots__ = ()

    @classmethod
    def _begun(cls, spec: GroupSpec, input: str | tuple[Part, ...]) -> GroupState:
        return GroupState(input=input, children=[ChildState() for _ in spec.children])

    @classmethod
    def _state_type(cls) -> type[GroupState]:
        return GroupState

    @classmethod
    def _contradiction(cls, state: GroupState, spec: GroupSpec) -> str:
        from .contradictions import contradiction_of_group

        return contradiction_of_group(state, spec)
