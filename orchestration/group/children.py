"""The runs inside of an orchestrator's run: what each is to do, and what it came to, as data that can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy import errors
from understudy.errors import RunError, UnderstudyError
from understudy.orchestration.agent.state import PausedChild
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import JsonValue, Part, Usage
from understudy.vocabulary.runs.outcomes import Complete, Pause

ChildPhase: TypeAlias = Literal["pending", "paused", "limit", "done", "failed"]


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildResult:
    """What a child's run came to, told by whoever drove it."""

    text: str = ""
    combined_text: str | None = None
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    turns: int = 0
    changes: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    """Session keys that the child set."""
    removed: tuple[str, ...] = ()
    """Session keys that it deleted."""

    @classmethod
    def of(
        cls, outcome: Complete[object], changes: Mapping[str, JsonValue] | None = None, removed: Iterable[str] = ()
    ) -> ChildResult:
        """Return the result of a child that is complete, with what it changed in the session."""
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
    """The error's class."""
    message: str

    @classmethod
    def of(cls, error: BaseException) -> ChildFailure:
        return cls(type(error).__name__, str(error))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def to_error(self) -> UnderstudyError:
        """Make the error again: of its class if it is one of understudy's, else a `RunError` that names the class."""
        known = getattr(errors, self.kind, None)
        if isinstance(known, type) and issubclass(known, UnderstudyError):
            return known(self.message)
        return RunError(str(self))


@dataclass(slots=True)
class ChildState:
    """Where one child stands."""

    phase: ChildPhase = "pending"
    begun: bool = False
    """Whether the driver was told to run it, and has not reported it yet; it counts against `max_parallel`."""
    paused: PausedChild | None = None
    """The child's run while it waits for a person, or at a limit, and until it has gone on."""
    result: ChildResult | None = None
    failure: ChildFailure | None = None
    attempts: int = 0
    """How often it failed and was to be run again."""

    def release(self, saved: str) -> None:
        """Have it go on that stood at a limit, with its run as it is once that is raised."""
        self.phase, self.failure, self.paused = "pending", None, PausedChild(saved, ())


@fast_init
@dataclass(frozen=True, slots=True)
class ChildOrder:
    """Run a child, or go on with one that was paused."""

    position: int
    """Which of the children, from 0; one runner may stand at several."""
    input: str | tuple[Part, ...]
    paused: PausedChild | None = None
    """The run to go on with, and the answers for it; None for a run that begins."""
    delay: float = 0.0
    """Seconds to wait before."""
    asks_when: bool = False
    """Whether to ask the task's function first; if it says no, report with `child_skipped` instead."""


@fast_init
@dataclass(frozen=True, slots=True)
class RunChildren:
    """Run `children`, all at the same time; report each with `child_done`, `child_failed` or `child_paused`.

    Asked again, the machine gives those that are not reported yet: whoever drives it knows which it has begun.
    """

    children: tuple[ChildOrder, ...]


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """Nothing runs; ask a person what `pauses` say, and answer with `respond`, for all or some of them."""

    pauses: tuple[Pause, ...]


def merged(results: Iterable[ChildResult]) -> tuple[dict[str, JsonValue], frozenset[str], frozenset[str]]:
    """Lay what children changed in the session over one another, in their order.

    Returns:
        The keys that are set, with their values; the keys that are deleted; and those of both that two children left
        in different ways, of which the last one's holds.
    """
    changes: dict[str, JsonValue] = {}
    removed: set[str] = set()
    conflicts: set[str] = set()
    for result in results:
        for key, value in result.changes.items():
            if key in removed or (key in changes and changes[key] != value):
                conflicts.add(key)
            removed.discard(key)
            changes[key] = value
        for key in result.removed:
            if changes.pop(key, None) is not None:
                conflicts.add(key)
            removed.add(key)
    return changes, frozenset(removed), frozenset(conflicts)
