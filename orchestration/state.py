"""What a run remembers: everything `AgentRun` needs to go on in another process, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.errors import BadReply, RunCancelled, ToolError, UnderstudyError
from understudy.messages import Message, ToolCall, ToolResult, Usage

Phase: TypeAlias = Literal["model", "tools", "input", "incomplete", "done", "failed"]


@dataclass(slots=True)
class Round:
    """The tool calls of one turn, on their way to one message of results."""

    calls: tuple[ToolCall, ...]
    """In call order, as they are to run: names repaired, arguments as approved."""
    waiting: tuple[str, ...] = ()
    """Ids of the calls that a person must decide about."""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    admitted: bool = False
    """Whether the round was counted against max_iterations; before that nothing of it may run."""

    def pending(self) -> tuple[ToolCall, ...]:
        """Return the calls that may run and have no result yet."""
        return tuple([c for c in self.calls if c.id not in self.results and c.id not in self.waiting])

    def waiting_calls(self) -> tuple[ToolCall, ...]:
        return tuple([c for c in self.calls if c.id in self.waiting])

    def is_complete(self) -> bool:
        return len(self.results) == len(self.calls)

    def message(self) -> Message:
        """Return the one history message that answers every call, in call order."""
        return Message("user", tuple([self.results[call.id] for call in self.calls]))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed for good, in a form that can be saved."""

    kind: Literal["tool", "cancelled", "bad_reply"]
    message: str
    tool: str = ""
    call_id: str = ""

    def to_error(self) -> UnderstudyError:
        """Make the error that `next_step` raises; a new one each time, for tracebacks grow."""
        if self.kind == "tool":
            return ToolError(self.message, tool=self.tool, call_id=self.call_id)
        return RunCancelled(self.message) if self.kind == "cancelled" else BadReply(self.message)


@dataclass(slots=True, kw_only=True)
class RunState:
    """One run's state. `messages` only ever grows at its end: requests hold views of it."""

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
    usage: Usage = field(default_factory=Usage)
    round: Round | None = None
    question: str = ""
    text: str = ""
    completion_reason: str = ""
    finish_reason: str | None = None
    failure: Failure | None = None
