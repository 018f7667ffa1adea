"""What a run remembers: everything `AgentRun` needs to go on in another process, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.errors import (
    BadReply,
    CallbackAbort,
    RunCancelled,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
    UnderstudyError,
)
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Message, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Approve, Pause, Reject

from .phases import Phase
from .spec import DEFAULT_MAX_OUTPUT_RETRIES


@dataclass(slots=True)
class PausedChild:
    """The run that a call began, which waits for a person."""

    saved: str
    """The child's run as text; whoever drives it reads that."""
    pauses: tuple[Pause, ...]
    """What it waits for, in its own words: ids and paths begin at the child."""
    answers: dict[str, str | Approve | Reject | dict[str, Approve | Reject]] = field(
        default_factory=dict[str, "str | Approve | Reject | dict[str, Approve | Reject]"]
    )
    """Pause id -> the answer with which the child is to go on; empty while it waits."""


@dataclass(slots=True)
class ToolRound:
    """The tool calls of one turn, on their way to one message of results."""

    calls: tuple[ToolCall, ...]
    """In call order, as they are to run: names repaired, arguments as approved."""
    waiting: tuple[str, ...] = ()
    """Ids of the calls that a person must decide about."""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    questions: dict[str, str] = field(default_factory=dict[str, str])
    """Call id -> what the model asks a person with it."""
    children: dict[str, PausedChild] = field(default_factory=dict[str, PausedChild])
    """Call id -> the run inside of it that pauses; until its result comes."""
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    """Call id -> why a callback wants a person to decide about it."""
    approved: tuple[str, ...] = ()
    """Ids of the calls that a person approved."""
    guarded: tuple[str, ...] = ()
    """Ids of the calls that callbacks have been asked about, and where a person approved it, since then."""
    reviewed: tuple[str, ...] = ()
    """Ids of the calls whose results callbacks have seen."""
    admitted: bool = False
    """Whether the round was counted against max_iterations; before that nothing of it may run."""

    def pending(self) -> tuple[ToolCall, ...]:
        """Return the calls that may run and have no result yet."""
        if not (self.results or self.waiting or self.questions or self.children):
            return self.calls
        return tuple([c for c in self.calls if c.id not in self.results and not self.waits(c.id)])

    def waits(self, call_id: str) -> bool:
        """Whether a person must do something before the call goes on."""
        child = self.children.get(call_id)
        return call_id in self.waiting or call_id in self.questions or (child is not None and not child.answers)

    def open_calls(self) -> int:
        """Return how many calls have no result yet, whether they run or wait."""
        return len(self.calls) - len(self.results)

    def waiting_calls(self) -> tuple[ToolCall, ...]:
        return tuple([c for c in self.calls if c.id in self.waiting])

    def is_complete(self) -> bool:
        return len(self.results) == len(self.calls)

    def message(self) -> Message:
        """Return the one history message that answers every call, in call order."""
        return Message("user", tuple([self.results[call.id] for call in self.calls]))


FailureKind: TypeAlias = Literal["tool", "tool_timeout", "tool_unavailable", "cancelled", "bad_reply", "callback"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed for good, in a form that can be saved."""

    kind: FailureKind
    message: str
    tool: str = ""
    call_id: str = ""
    callback: str = ""
    """Who ended the run, of the kind `callback`."""

    def to_error(self) -> UnderstudyError:
        """Make the error that `next_step` raises; a new one each time, for tracebacks grow."""
        of_tools = {"tool": ToolError, "tool_timeout": ToolTimeout, "tool_unavailable": ToolUnavailable}
        if self.kind in of_tools:
            return of_tools[self.kind](self.message, tool=self.tool, call_id=self.call_id)
        if self.kind == "callback":
            return CallbackAbort(self.message, callback=self.callback)
        return RunCancelled(self.message) if self.kind == "cancelled" else BadReply(self.message)


@dataclass(slots=True, kw_only=True)
class RunState(Spending):
    """One run's state, with what it spent. `messages` only ever grows at its end: requests hold views of it."""

    messages: list[Message]
    start: int
    """Where the run's own messages begin; before it stands the history it was given."""
    system: str
    max_iterations: int
    max_turns: int
    max_continues: int
    phase: Phase = "model"
    turns: int = 0
    iterations: int = 0
    continues: int = 0
    invalid_retries: int = 0
    rejections: int = 0
    """How many turns in a row a callback has rejected with feedback, up to now."""
    round: ToolRound | None = None
    question: str = ""
    text: str = ""
    completion_reason: str = ""
    finish_reason: str | None = None
    failure: Failure | None = None
    max_output_retries: int = DEFAULT_MAX_OUTPUT_RETRIES
    problems: list[str] = field(default_factory=list[str])
    """What was wrong with each answer that did not fit the output type, in order."""

    def fail(self, failure: Failure) -> None:
        """End the run for good."""
        self.failure = failure
        self.phase = "failed"
