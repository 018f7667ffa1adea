"""What happens in a run, for those who watch it.

The last event of a handle is `RunFinished` or `RunFailed`, and there is exactly one of them. All are numbered without gaps, each
run's on their own, and go on in number when a run goes on after a pause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult

from .outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    run_id: str = ""
    seq: int = 0
    """Position among the events of the run that `run_id` names, from 0, without gaps; it goes on after a pause."""
    path: tuple[str, ...] = ()
    """Ids of the runners from the one whose handle tells it to the one whose run it is of, both included."""
    parent_run_id: str | None = None
    """Id of the run that this one was begun in: the group's, the lead's, or that of a tool which began it; None outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(_Event):
    """A model call begins."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished(_Event):
    """The model answered."""

    turn: int
    response: ModelTurn
    duration: float = field(default=0.0, compare=False)
    """Seconds from the beginning of the call until its answer was taken, with what callbacks, criteria and validators did to it."""
    attempts: int = 1
    """How many requests the model's client sent for it, so far as it told of them with `RetryScheduled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDropped(_Event):
    """A callback or guardrail rejected or replaced the turn that `TurnFinished` told before: take its text away again."""

    turn: int
    text: str
    """What was told as `TextDelta`."""
    by: str
    """The callback's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(_Event):
    """A piece of the model's text. A provider that does not stream gives one piece a turn."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_Event):
    """A tool call begins."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(_Event):
    """A tool says how far a call is, with `ctx.progress(…)`. Between the call's `ToolStarted` and `ToolFinished`."""

    call: ToolCall
    text: str
    done: float | None = None
    """How much is done, in the tool's own unit, if it said so."""
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(_Event):
    """A tool call has its result."""

    call: ToolCall
    result: ToolResult
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """What the tool raised, where the result says so; of a tool in a worker process, its words. Its frames are empty."""
    duration: float = field(default=0.0, compare=False)
    """Seconds from the beginning of its first attempt; 0 for a call that never ran."""
    attempts: int = 0
    """How often the tool was called; 0 for a call that never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(_Event):
    """An attempt failed, and another one follows after `wait`, unless the run ends before."""

    what: Literal["model", "tool", "task"]
    """What is tried again: a model call by its client, a tool call, or a run for a task of a workflow."""
    attempt: int
    """Which attempt failed, from 1. Those of a task are counted anew for each item of its list and each repetition."""
    wait: float
    """Seconds until the next attempt."""
    error: BaseException = field(compare=False, repr=False)
    """What the attempt failed of; of a call that timed out, a `ToolTimeout`. Its frames are empty."""
    turn: int | None = None
    """Of a model call: the turn."""
    call: ToolCall | None = None
    """Of a tool."""
    task: str = ""
    """Of a task: its name."""
    position: int | None = None
    """Of a task: which of the children, as `ChildStarted` has it."""
    runner_id: str = ""
    """Of a task: whose run failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDiverged(_Event):
    """The run paused, and is complete now; meanwhile the conversation went on without it. Its turn stands at the end."""

    messages: int
    """How many messages others stored between; the run has not seen them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted(_Event):
    """A run inside of the run of a sequence, a parallel group or a workflow begins, or goes on after a pause."""

    position: int
    """Which of the children, from 0; a workflow's are counted in the order in which they become due."""
    runner_id: str
    child_run_id: str
    task: str = ""
    """Of a workflow: the task it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFinished(_Event):
    """A run inside of the run ended or paused; exactly one of `outcome` and `error` is there."""

    position: int
    runner_id: str
    child_run_id: str
    task: str = ""
    outcome: Outcome[object] | None = None
    error: BaseException | None = None
    duration: float = field(default=0.0, compare=False)
    """Seconds it ran, since it began or went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConflict(_Event):
    """Children of a parallel group left the same keys of the session in different ways; the last child's values hold."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(_Event):
    """The run ended, or paused, with an outcome. The last event."""

    outcome: Outcome[object]
    duration: float = field(default=0.0, compare=False)
    """Seconds the run took, since it began or went on, with its time in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(_Event):
    """The run ended with an error. The last event."""

    error: BaseException
    duration: float = field(default=0.0, compare=False)
    """As of `RunFinished`."""


Event: TypeAlias = (
    TurnStarted
    | TurnFinished
    | TurnDropped
    | TextDelta
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | RetryScheduled
    | ConversationDiverged
    | ChildStarted
    | ChildFinished
    | SessionConflict
    | RunFinished
    | RunFailed
)
