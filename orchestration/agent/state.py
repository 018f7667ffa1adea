"""The state of an agent's run, as data: everything `AgentRun` needs to go on in another process, and views of its messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast, overload

from understudy.errors import (
    BadReply,
    CallbackAbort,
    ContentBlocked,
    RunCancelled,
    ToolError,
    ToolTimeout,
    ToolUnavailable,
    UnderstudyError,
)
from understudy.orchestration.agent.context_state import ContextState
from understudy.orchestration.agent.spec import DEFAULT_MAX_OUTPUT_RETRIES
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Message, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Decision, Pause

Phase: TypeAlias = Literal["model", "tools", "input", "incomplete", "bad_output", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRule:
    """One phase of a run."""

    meaning: str
    """The state of a run in this phase, in words."""
    due: tuple[str, ...]
    """The steps that `next_step` returns; empty if it raises an error."""
    moves: Mapping[str, frozenset[Phase]]
    """Method of `AgentRun` -> the phases that can follow; a method that is not here does not change the phase."""


_ENDED: frozenset[Phase] = frozenset({"done", "failed"})
_GOES_ON: frozenset[Phase] = frozenset({"tools", "model"})

PHASES: Mapping[Phase, PhaseRule] = {
    "model": PhaseRule(
        meaning="the model has to answer",
        due=("CallModel",),
        moves={
            "model_response": frozenset({"model", "tools", "input", "incomplete", "bad_output", *_ENDED}),
            "checked_response": frozenset({"model", "tools", "input", "incomplete", "bad_output", *_ENDED}),
            "turn_ruled": frozenset({"model", *_ENDED}),
            "end_by": _ENDED,
        },
    ),
    "tools": PhaseRule(
        meaning="a round of tool calls is open: calls run, or wait for a person",
        due=("CallTools", "AwaitApproval", "AwaitInput"),
        moves={
            "next_step": frozenset({*_GOES_ON, "failed"}),
            "guard": frozenset({"tools", *_ENDED}),
            "tool_results": frozenset({*_GOES_ON, "failed"}),
            "checked_results": frozenset({*_GOES_ON, "failed"}),
            "review": frozenset({"tools", *_ENDED}),
            "decisions": _GOES_ON,
            "answer": _GOES_ON,
            "respond": _GOES_ON,
            "end_by": _ENDED,
        },
    ),
    "input": PhaseRule(
        meaning="the model asked a person a question",
        due=("AwaitInput",),
        moves={"answer": frozenset({"model"}), "respond": frozenset({"model"}), "end_by": _ENDED},
    ),
    "incomplete": PhaseRule(
        meaning="the text meets no criterion, and max_continues is reached",
        due=("Done",),
        moves={"extend": frozenset({"incomplete", "model"}), "end_by": _ENDED},
    ),
    "bad_output": PhaseRule(
        meaning="the answer does not fit the output type, and the model is not asked again",
        due=(),
        moves={"extend": frozenset({"bad_output", "model"}), "end_by": _ENDED},
    ),
    "done": PhaseRule(meaning="the run has its answer", due=("Done",), moves={}),
    "failed": PhaseRule(
        meaning="the run failed; only a callback can still give a text", due=(), moves={"end_by": _ENDED}
    ),
}
"""The calls that `AgentRun` takes in each phase, and the phases they lead to.

The functions that change `RunState.phase` decide by more than the phase, such as counts and limits, so they do not read
the table. A test plays the scenarios and compares each transition with it.
"""


@dataclass(slots=True)
class PausedChild:
    """A child run that waits for a person, or that was stopped and goes on without an answer."""

    saved: str
    """The child's run as text, from which it goes on."""
    pauses: tuple[Pause, ...]
    """The child's pauses; ids and paths begin at the child. Empty if the child goes on without an answer."""
    answers: dict[str, str | Decision | dict[str, Decision]] = field(
        default_factory=dict[str, "str | Decision | dict[str, Decision]"]
    )
    """Pause id -> the answer for the child; empty while the child waits."""


@dataclass(slots=True)
class ToolRound:
    """The tool calls of one turn and what is known of each, until one message of results closes the round."""

    calls: tuple[ToolCall, ...]
    """In call order, as they will run: with repaired names and approved arguments."""
    waiting: tuple[str, ...] = ()
    """Ids of the calls that a person must decide about."""
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    questions: dict[str, str] = field(default_factory=dict[str, str])
    """Call id -> the question to a person that the call is."""
    children: dict[str, PausedChild] = field(default_factory=dict[str, PausedChild])
    """Call id -> the paused child run of the call, until the result arrives."""
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    """Call id -> a callback's reason for asking a person about it."""
    approved: tuple[str, ...] = ()
    """Ids of the calls that a person approved."""
    edited: tuple[str, ...] = ()
    """Ids of the calls that a person approved with other arguments; the model is told."""
    guarded: tuple[str, ...] = ()
    """Ids of the calls that callbacks decided about; a person's approval removes the id, so callbacks see it again."""
    reviewed: tuple[str, ...] = ()
    """Ids of the calls whose results callbacks have seen."""
    in_doubt: tuple[str, ...] = ()
    """Ids of the calls that were under way when the process died: nobody knows what they did. They wait for a decision."""
    admitted: bool = False
    """Whether the round was counted against max_iterations; no call runs before that."""

    def copied(self) -> ToolRound:
        """Return a copy that shares nothing with this one that changes."""
        children = {id: replace(child, answers=dict(child.answers)) for id, child in self.children.items()}
        return replace(
            self,
            results=dict(self.results),
            questions=dict(self.questions),
            children=children,
            reasons=dict(self.reasons),
        )

    def pending(self) -> tuple[ToolCall, ...]:
        """Return the calls that may run and have no result yet."""
        if not (self.results or self.waiting or self.questions or self.children):
            return self.calls
        return tuple([c for c in self.calls if c.id not in self.results and not self.waits(c.id)])

    def waits(self, call_id: str) -> bool:
        """Whether the call waits for a person."""
        child = self.children.get(call_id)
        asks = child is not None and bool(child.pauses) and not child.answers
        return asks or call_id in self.waiting or call_id in self.questions

    def open_calls(self) -> int:
        """Return how many calls have no result yet; they run or wait."""
        return len(self.calls) - len(self.results)

    def waiting_calls(self) -> tuple[ToolCall, ...]:
        return tuple([c for c in self.calls if c.id in self.waiting])

    def is_complete(self) -> bool:
        return len(self.results) == len(self.calls)

    def message(self) -> Message:
        """Return the one history message that answers every call, in call order."""
        told = [self._of_edited(call) if call.id in self.edited else self.results[call.id] for call in self.calls]
        return Message("user", tuple(told))

    def _of_edited(self, call: ToolCall) -> ToolResult:
        # The model's own message keeps the arguments that it wrote, for it may be signed.
        arguments, result = json.dumps(call.arguments, ensure_ascii=False), self.results[call.id]
        return replace(result, content=f"A person changed the arguments of this call to {arguments}\n{result.content}")


FailureKind: TypeAlias = Literal[
    "tool", "tool_timeout", "tool_unavailable", "cancelled", "bad_reply", "blocked", "callback"
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed for good, in a form that can be saved."""

    kind: FailureKind
    message: str
    tool: str = ""
    call_id: str = ""
    callback: str = ""
    """The name of the callback that ended the run, for the kind `callback`."""
    request_id: str = ""
    """The provider's id of the turn that ended the run."""
    reason: str = ""
    """The provider's word for why it blocked that turn."""

    def to_error(self) -> UnderstudyError:
        """Return the error that `next_step` raises; a new one each time, because tracebacks grow."""
        of_tools = {"tool": ToolError, "tool_timeout": ToolTimeout, "tool_unavailable": ToolUnavailable}
        if self.kind in of_tools:
            return of_tools[self.kind](self.message, tool=self.tool, call_id=self.call_id)
        if self.kind == "blocked":
            return ContentBlocked(self.message, reason=self.reason, code=self.reason, request_id=self.request_id)
        if self.kind == "callback":
            return CallbackAbort(self.message, callback=self.callback)
        return (
            RunCancelled(self.message)
            if self.kind == "cancelled"
            else BadReply(self.message, request_id=self.request_id)
        )


@dataclass(slots=True, kw_only=True)
class RunState(Spending):
    """One run's state and spending. `messages` only grows at its end, because requests hold views of it."""

    messages: list[Message]
    start: int
    """Index of the run's first own message; the given history is before it."""
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
    """How many turns in a row callbacks have rejected with feedback."""
    round: ToolRound | None = None
    question: str = ""
    text: str = ""
    completion_reason: str = ""
    finish_reason: str | None = None
    model: str = ""
    """Of the last turn, as are the two ids: the model that answered, as it calls itself."""
    response_id: str = ""
    request_id: str = ""
    failure: Failure | None = None
    max_output_retries: int = DEFAULT_MAX_OUTPUT_RETRIES
    problems: list[str] = field(default_factory=list[str])
    """The problem of each answer that did not fit the output type, in order."""
    context: ContextState | None = None
    """What requests show of a long history; None in a run without compaction."""

    def copied(self) -> RunState:
        """Return a copy that shares nothing with this one that changes."""
        round_ = None if self.round is None else self.round.copied()
        context = None if self.context is None else replace(self.context, news=list(self.context.news))
        return replace(self, messages=list(self.messages), problems=list(self.problems), round=round_, context=context)

    def fail(self, failure: Failure) -> None:
        """End the run with a failure."""
        self.failure = failure
        self.phase = "failed"


def check_answered(history: Iterable[Message]) -> None:
    """Check that providers accept a history: the results of all tool calls must follow at once.

    Raises:
        ValueError: a call has no result, as in the messages of a paused run.
    """
    open_calls: dict[str, ToolCall] = {}
    for message in history:
        results = message.tool_results
        for result in results:
            open_calls.pop(result.call_id, None)
        if open_calls and not results:
            break
        open_calls |= {call.id: call for call in message.tool_calls}
    for call in open_calls.values():
        raise ValueError(
            f"history: the call of {call.name!r} (id {call.id!r}) has no result; a run that waits goes on with resume(token), "
            "and what it added is a history once it is over"
        )


class Transcript(Sequence[Message]):
    """The first `length` messages of a list that only grows.

    The view does not change when the owner of the list appends to it, so a request can keep its view.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message], length: int) -> None:
        self._messages = messages
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple([self._messages[i] for i in range(*index.indices(self._length))])
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._messages[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        # By index, because the list may grow during the iteration.
        for i in range(self._length):
            yield self._messages[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # type: ignore[assignment]  # equals both lists and tuples, so no hash fits

    def __repr__(self) -> str:
        return f"Transcript({self._length} messages)"


def count_new(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return how many messages of `now` are newer than all of `before`.

    Each view ends with the latest message of its time. It may lack the oldest messages: a memory forgets whole turns
    from the front. Messages that were added and forgotten between the views are not counted. If a conversation repeats
    itself word for word, the result is the lowest number that fits.
    """
    before, now = tuple(before), tuple(now)
    for kept in range(min(len(before), len(now)), 0, -1):
        if before[-kept:] == now[:kept]:
            return len(now) - kept
    return len(now)
