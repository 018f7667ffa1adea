"""The children of an orchestrator's run, as data that can be saved: orders to run them, their states, their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy import errors
from understudy.errors import RunError, UnderstudyError, UnfinishedRun, labelled, message_of
from understudy.orchestration.agent.state import PausedChild
from understudy.vocabulary.context.session_values import is_same
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import JsonValue, Part, Usage
from understudy.vocabulary.runs.outcomes import Complete, Pause

ChildPhase: TypeAlias = Literal["pending", "paused", "limit", "done", "failed"]


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """The result of a complete child run, as it is reported."""

    text: str = ""
    combined_text: str | None = None
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    turns: int = 0
    changes: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    """Session keys that the child set."""
    removed: tuple[str, ...] = ()
    """Session keys that the child deleted."""

    @classmethod
    def of(
        cls, outcome: Complete[object], changes: Mapping[str, JsonValue] | None = None, removed: Iterable[str] = ()
    ) -> ChildResult:
        """Return the result of a complete child, with its changes to the session."""
        return cls(
            text=outcome.text,
            combined_text=outcome.combined_text,
            usage=outcome.usage,
            iterations=outcome.iterations,
            turns=outcome.turns,
            changes=dict(changes or {}),
            removed=tuple(removed),
        )


@dataclass(frozen=True, slots=True)
class ChildFailure:
    """Why a child failed, in a form that can be saved."""

    kind: str
    """Name of the error's class."""
    message: str

    @classmethod
    def of(cls, error: BaseException) -> ChildFailure:
        return cls(type(error).__name__, message_of(error))

    def __str__(self) -> str:
        return labelled(self.kind, self.message)

    def to_error(self) -> UnderstudyError:
        """Rebuild the error: of the same class if it is one of understudy's, else a `RunError` that names the class."""
        known = getattr(errors, self.kind, None)
        if isinstance(known, type) and issubclass(known, UnderstudyError):
            return known(self.message)
        return RunError(str(self))


@dataclass(slots=True)
class ChildState:
    """The state of one child."""

    phase: ChildPhase = "pending"
    begun: bool = False
    """Whether the machine gave the child out to run and has no report of it yet; it counts against `max_parallel`."""
    paused: PausedChild | None = None
    """The child's saved run, from a pause, a limit or a failure that may pass until the next report."""
    result: ChildResult | None = None
    failure: ChildFailure | None = None
    attempts: int = 0
    """How many attempts failed and were retried."""
    refused: bool = False
    """Whether it failed before it began or went on, of an error that may pass: then it does so when the run goes on."""

    @property
    def is_kept(self) -> bool:
        """Whether it goes on or begins anew after its failure, when the run goes on."""
        return self.paused is not None or self.refused

    @property
    def is_incomplete(self) -> bool:
        """Whether the child stopped short of its end, with an answer that meets no criterion or with failed tasks."""
        return self.phase == "limit" and self.failure is not None and self.failure.kind == UnfinishedRun.__name__

    def release(self, saved: str) -> None:
        """Let a child go on; `saved` is its run, with the limit raised if it stood at one."""
        self.phase, self.failure = "pending", None
        if not self.refused:  # else it has what it was to go on with, answers too
            self.paused = PausedChild(saved, ())
        self.refused = False


@fast_init
@dataclass(frozen=True, slots=True)
class ChildOrder:
    """Start a child, or resume a paused one."""

    position: int
    """The child's position, from 0; one runner may have several positions."""
    input: str | tuple[Part, ...]
    paused: PausedChild | None = None
    """The saved run to resume, and the answers for it; None for a new run."""
    delay: float = 0.0
    """Seconds to wait before the start."""
    asks_when: bool = False
    """Whether to ask the task's `when` function first; if it returns False, report with `child_skipped` instead."""


@fast_init
@dataclass(frozen=True, slots=True)
class RunChildren:
    """Run `children`, all at the same time; report each with `child_done`, `child_failed` or `child_paused`.

    Asked again, the machine repeats the children that are not reported yet; the runtime knows which it has started.
    """

    children: tuple[ChildOrder, ...]


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """No child runs. Ask a person about `pauses`, and feed some or all answers with `respond`."""

    pauses: tuple[Pause, ...]


def merged(results: Iterable[ChildResult]) -> tuple[dict[str, JsonValue], frozenset[str], frozenset[str]]:
    """Merge the children's changes to the session, in their order.

    Returns:
        The keys that are set, with their values; the keys that are deleted; and the keys in conflict, which two
        children left in different states: the later child wins.
    """
    changes: dict[str, JsonValue] = {}
    removed: set[str] = set()
    conflicts: set[str] = set()
    for result in results:
        for key, value in result.changes.items():
            if key in removed or (key in changes and not is_same(changes[key], value)):
                conflicts.add(key)
            removed.discard(key)
            changes[key] = value
        for key in result.removed:
            if key in changes:
                conflicts.add(key)
                del changes[key]
            removed.add(key)
    return changes, frozenset(removed), frozenset(conflicts)
