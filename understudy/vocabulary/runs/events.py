"""The events of a run.

The last event of a handle is `RunFinished` or `RunFailed`, and there is exactly one of them. All but the deltas are numbered
without gaps, each run's on their own, and go on in number when a run goes on after a pause.

Deltas are pieces of a model's turn. How a turn is cut into deltas differs from reader to reader: a slow one gets fewer and
longer deltas. Their texts, joined, are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.vocabulary.messages import NO_USAGE, ModelTurn, ToolCall, ToolResult, Usage

from .outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    run_id: str = ""
    seq: int = 0
    """Position among the events of the run that `run_id` names, from 0, without gaps; it goes on after a pause."""
    path: tuple[str, ...] = ()
    """Ids of the runners, from the one whose handle publishes the event to the one whose run it is about."""
    parent_run_id: str | None = None
    """Id of the outer run: the group's, or that of the agent or tool that started this one; None without one."""
    time: float = field(default=0.0, compare=False)
    """When it happened, in seconds since the epoch."""

    @property
    def id(self) -> str:
        """The place of the event among those of its run, for `handle.events(after=…)` and `Last-Event-ID`."""
        return str(self.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delta(_Event):
    """A piece of the model's turn. Its `seq` is that of the event before it."""

    text: str
    turn: int = 1
    attempt: int = 1
    """Which try at the turn it is of, from 1. The pieces of a turn's last attempt are the turn's."""
    offset: int = 0
    """How many characters the deltas of this attempt have before this one."""

    @property
    def id(self) -> str:
        """The place after the delta."""
        return f"{self.seq}.{self.turn}.{self.attempt}.{self.offset + len(self.text)}"


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
    """Seconds from the start of the call until the run took the turn, including callbacks, criteria and validators."""
    attempts: int = 1
    """How many requests the model's client sent, as far as it reported them with `RetryScheduled`. In a process that went on with a
    streamed run, the turn that was due counts one for each process and stay before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDropped(_Event):
    """What was shown of a turn does not stand: stop showing its text.

    A callback or guardrail rejected or replaced the turn of the last `TurnFinished`; the answer in it fits neither the output type
    nor the criteria, and the model is asked again or the run fails; or the model call failed after a part of the turn was
    shown. A reader that goes on in the middle of a turn is told the same if the process that showed it has died;
    then the event has the number of the event before it.
    """

    turn: int
    text: str
    """The text of the turn's `TextDelta` events; empty if the process that showed it has died."""
    by: str
    """The callback's name; `output_type` or `criteria` for an answer that these refuse; empty if the model call failed, or its
    process died."""
    attempt: int = 1
    """The attempt whose deltas were shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(_Delta):
    """A piece of the model's text. A model that does not stream gives one piece a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(_Delta):
    """A piece of the model's reasoning before its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta(_Delta):
    """The name of a tool that the model is about to call, and a piece of the arguments' JSON in `text`.

    Only a model that streams gives it. The call itself comes with `ToolStarted`.
    """

    index: int
    """Tells the calls of a turn apart."""
    name: str
    call_id: str = ""
    """The provider's id of the call; empty if it sends none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialOutput(_Event):
    """The answer of a typed agent as far as the model has written it. The outcome's `output` is the answer that was checked.

    Comes after a delta, and only of a model that streams. It shows what fits the output type already: a class whose
    required fields have not all come shows nothing yet.
    """

    output: object
    """In the output type. Its last part may be cut off, such as a text, a number or a list."""
    turn: int
    attempt: int = 1
    offset: int = 0
    """How many characters the deltas of this attempt have until here."""

    @property
    def id(self) -> str:
        """The place of the event, which is that after its delta."""
        return f"{self.seq}.{self.turn}.{self.attempt}.{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_Event):
    """A tool call begins."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(_Event):
    """A tool reported progress with `ctx.progress(…)`. Between the call's `ToolStarted` and `ToolFinished`."""

    call: ToolCall
    text: str
    done: float | None = None
    """How much is done, in the tool's own unit, if the tool reported it."""
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(_Event):
    """A tool call has its result."""

    call: ToolCall
    result: ToolResult
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """The tool's exception, if it raised one, without frames; only its words for a tool in a worker process."""
    duration: float = field(default=0.0, compare=False)
    """Seconds since the start of the first attempt; 0 for a call that never ran."""
    attempts: int = 0
    """How often the tool was called; 0 for a call that never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(_Event):
    """An attempt failed, and the next one follows after `wait`, unless the run ends first."""

    what: Literal["model", "tool", "task"]
    """The kind of work that is retried: a model call by its client, a tool call, or a task of a workflow."""
    attempt: int
    """Number of the failed attempt, from 1. For a task, each item of its list and each repetition starts at 1 again."""
    wait: float
    """Seconds until the next attempt."""
    error: BaseException = field(compare=False, repr=False)
    """The error of the attempt, without frames; a `ToolTimeout` for a call that timed out."""
    turn: int | None = None
    """Of a model call: the turn; None for a summary of the conversation."""
    call: ToolCall | None = None
    """Of a tool."""
    task: str = ""
    """Of a task: its name."""
    position: int | None = None
    """Of a task: the position of the child, as in `ChildStarted`."""
    runner_id: str = ""
    """Of a task: the runner that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted(_Event):
    """The next request shows less of a long conversation: see `Compaction`. The run's own messages stay whole."""

    how: Literal["pruned", "summarized"]
    """Whether tool results are left out or shortened, or a summary stands in place of the oldest messages."""
    messages_before: int
    messages_after: int
    """Messages of the request, before and after."""
    tokens_before: int
    tokens_after: int
    """Tokens of the request, before and after; mostly estimates."""
    pruned: int = 0
    """How many tool results are left out from now on."""
    usage: Usage = NO_USAGE
    """Tokens of the model calls for the summary; the run's usage has them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed(_Event):
    """There is no summary of a long conversation; the run goes on without it."""

    error: BaseException = field(compare=False, repr=False)
    """The error of the model call, without frames; a `BadReply` if its answer is no summary."""
    usage: Usage = NO_USAGE
    """Tokens of the model calls for the summary; the run's usage has them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDiverged(_Event):
    """A run that had paused is complete, and the conversation went on meanwhile. Its turn is added at the end."""

    messages: int
    """How many messages other runs stored meanwhile; this run has not seen them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted(_Event):
    """A child of a sequence, a parallel group or a workflow starts, or goes on after a pause."""

    position: int
    """Position of the child, from 0; in a workflow, children are numbered in the order in which they become due."""
    runner_id: str
    child_run_id: str
    task: str = ""
    """Of a workflow: the task it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFinished(_Event):
    """A child ended or paused; exactly one of `outcome` and `error` is set.

    Each `ChildStarted` has one. A child that the end of its group cuts off has a `RunCancelled` here.
    """

    position: int
    runner_id: str
    child_run_id: str
    task: str = ""
    outcome: Outcome[object] | None = None
    error: BaseException | None = None
    duration: float = field(default=0.0, compare=False)
    """Seconds since the child started or went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConflict(_Event):
    """Calls of a turn, or children, that ran at the same time changed the same session keys in different ways.

    The later one wins: in the order of the calls, of a parallel group's children, and of the ends of a workflow's tasks.
    """

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverwritten(_Event):
    """The run stored values of its session in place of what another run had stored, which this one has not seen."""

    keys: tuple[str, ...]
    other_run_id: str
    """The run that was first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNotSaved(_Event):
    """Values of the session could not be stored. The outcome or error of the run has them all the same."""

    keys: tuple[str, ...]
    error: BaseException = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(_Event):
    """The run ended, or paused, with an outcome. The last event."""

    outcome: Outcome[object]
    duration: float = field(default=0.0, compare=False)
    """Seconds since the run started or went on, including its time in the queue."""


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
    | ReasoningDelta
    | ToolCallDelta
    | PartialOutput
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | RetryScheduled
    | ContextCompacted
    | CompactionFailed
    | ConversationDiverged
    | ChildStarted
    | ChildFinished
    | SessionConflict
    | SessionOverwritten
    | SessionNotSaved
    | RunFinished
    | RunFailed
)
