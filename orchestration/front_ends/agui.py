"""The events of a run as AG-UI 1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from understudy.errors import RunCancelled, message_of
from understudy.vocabulary.messages import FilePart, ImagePart, JsonObject, JsonValue, ToolResult
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    Event,
    RunFailed,
    RunFinished,
    TextDelta,
    TurnStarted,
)
from understudy.vocabulary.runs.outcomes import NeedsApproval, NeedsInput, Outcome

from .event_json import call_json, event_json, outcome_json
from .interrupts import Interrupt, interrupts_of
from .parts import (
    CallBegan,
    CallDone,
    CallGrew,
    CallReady,
    CallVoid,
    Mark,
    Other,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextGrew,
    TextKind,
    TurnVoid,
)
from .run_parts import RunParts
from .sse import json_text, quoted

Plain: TypeAlias = "dict[str, JsonValue]"

NAMESPACE = "understudy"


def agui_events(marks: Iterable[Mark]) -> Iterator[Plain]:
    """Yield the events that tell the parts of a run."""
    for mark in marks:
        match mark:
            case TextBegan(kind, id):
                yield from _text_start(kind, id)
            case TextGrew(kind, id, text):
                name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
                yield {"type": name, "messageId": id, "delta": text}
            case TextEnded(kind, id):
                yield from _text_end(kind, id)
            case StepBegan(turn):
                yield {"type": "STEP_STARTED", "stepName": f"turn {turn}"}
            case StepEnded(turn):
                yield {"type": "STEP_FINISHED", "stepName": f"turn {turn}"}
            case CallBegan() | CallGrew() | CallReady() | CallDone() | CallVoid():
                yield from _of_call(mark)
            case TurnVoid():
                yield custom({**event_json(mark.event), "ids": list(mark.ids)})
            case Other(event):
                yield custom(event_json(event))


def custom(told: Plain) -> Plain:
    """Return an event for which AG-UI has no name."""
    return {"type": "CUSTOM", "name": f"{NAMESPACE}.{told['type']}", "value": told}


def _text_start(kind: TextKind, id: str) -> Iterator[Plain]:
    if kind == "text":
        yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}
        return
    yield {"type": "REASONING_START", "messageId": id}
    yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}


def _text_end(kind: TextKind, id: str) -> Iterator[Plain]:
    if kind == "text":
        yield {"type": "TEXT_MESSAGE_END", "messageId": id}
        return
    yield {"type": "REASONING_MESSAGE_END", "messageId": id}
    yield {"type": "REASONING_END", "messageId": id}


def _of_call(mark: CallBegan | CallGrew | CallReady | CallDone | CallVoid) -> Iterator[Plain]:
    match mark:
        case CallBegan(id, name, text_id):
            told: Plain = {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name}
            yield {**told, "parentMessageId": text_id} if text_id else told
        case CallGrew(id, text):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": text}
        case CallReady(id):
            yield {"type": "TOOL_CALL_END", "toolCallId": id}
        case CallDone(id, event):
            yield _result(id, _content(event.result), event.result.error_kind if event.result.is_error else None)
        case CallVoid(id, _, is_ready, why):
            if not is_ready:
                yield {"type": "TOOL_CALL_END", "toolCallId": id}
            yield _result(id, why, "not_run")


def _result(id: str, content: JsonValue, error_kind: str | None) -> Plain:
    told: Plain = {
        "type": "TOOL_CALL_RESULT",
        "messageId": f"{id}.result",
        "toolCallId": id,
        "content": content,
        "role": "tool",
    }
    return (
        told if error_kind is None else {**told, "metadata": {NAMESPACE: {"is_error": True, "error_kind": error_kind}}}
    )


def _content(result: ToolResult) -> JsonValue:
    if not result.parts:
        return result.content
    return [{"type": "text", "text": result.content}, *[_media(part) for part in result.parts]]


def _media(part: ImagePart | FilePart) -> JsonValue:
    source: Plain = {"type": "url", "value": part.url}
    if not part.url:
        source = {"type": "data", "value": part.data, "mimeType": part.media_type}
    return {"type": "image" if isinstance(part, ImagePart) else "document", "source": source}


ENDED = "Not run: the run has ended."


@dataclass(slots=True)
class _Subagent:
    """A run inside."""

    parent: str | None
    """Run id of the subagent around it; None if that is the run which the client follows."""
    parts: RunParts
    is_over: bool = False


class Subagents:
    """Tells the runs inside of a run. For one thread at a time.

    `ChildFinished` tells the end of a child of a group. The end of a sub-agent's run has no event of its own: it is over when
    the model of the run around it is called again, or that run ends.

    Args:
        shown: ids of tool calls that the client has from before a pause.
    """

    __slots__ = ("_by_run", "_shown")

    def __init__(self, shown: Sequence[str] = ()) -> None:
        self._shown = tuple(shown)
        self._by_run: dict[str, _Subagent] = {}

    def told(self, event: Event) -> Iterator[Plain]:
        """Yield what the client is told of an event of a run inside."""
        run_id = event.run_id
        yield from self._begin(run_id, event.path[-1], event.parent_run_id)
        subagent = self._by_run[run_id]
        if subagent.is_over:
            return
        match event:
            case ChildStarted() | ChildFinished():
                yield from self.child(event, run_id)
            case _:
                if isinstance(event, TurnStarted):
                    yield from self.end_below(run_id)
                for each in agui_events(subagent.parts.read(event)):
                    yield {**each, "subagentRunId": run_id}

    def child(self, event: ChildStarted | ChildFinished, parent: str | None) -> Iterator[Plain]:
        """Yield the beginning or the end of a child of a group.

        Args:
            event: of the group.
            parent: run id of the group, if it is a subagent itself.
        """
        yield from self._begin(event.child_run_id, event.runner_id, parent)
        if isinstance(event, ChildFinished):
            is_suspended = isinstance(event.outcome, (NeedsInput, NeedsApproval))
            for each in self._end(event.child_run_id, is_suspended, event.error):
                if event.outcome is not None and each["type"] == "SUBAGENT_FINISHED":
                    own = each["subagentRunId"] == event.child_run_id
                    each = {**each, "result": outcome_json(event.outcome)} if own else each
                yield each

    def end_below(
        self, parent: str | None, *, is_suspended: bool = False, error: BaseException | None = None
    ) -> Iterator[Plain]:
        """Yield the ends of all runs inside of a run.

        Args:
            parent: the run's id; None for the one that the client follows.
            is_suspended: whether they wait for a person.
            error: what ended them.
        """
        for run_id in [run_id for run_id, each in self._by_run.items() if each.parent == parent and not each.is_over]:
            yield from self._end(run_id, is_suspended, error)

    def end_waiting(self) -> Iterator[Plain]:
        """Yield an end for the calls of runs that wait, where the run around them is over without them."""
        for run_id, subagent in self._by_run.items():
            for each in agui_events(subagent.parts.calls.void(ENDED)):
                yield {**each, "subagentRunId": run_id}

    def _begin(self, run_id: str, name: str, parent: str | None) -> Iterator[Plain]:
        if run_id in self._by_run:
            return
        parent = parent if parent in self._by_run else None
        self._by_run[run_id] = _Subagent(parent, RunParts(run_id, is_inner=True, shown=self._shown))
        told: Plain = {"type": "SUBAGENT_STARTED", "subagentRunId": run_id, "name": name}
        yield {**told, "parentSubagentRunId": parent} if parent is not None else told

    def _end(self, run_id: str, is_suspended: bool, error: BaseException | None) -> Iterator[Plain]:
        subagent = self._by_run[run_id]
        if subagent.is_over:
            return
        yield from self.end_below(run_id, is_suspended=is_suspended, error=error)
        subagent.is_over = True
        keep = subagent.parts.calls.ids() if is_suspended else ()
        for each in agui_events(subagent.parts.end(ENDED, keep)):
            yield {**each, "subagentRunId": run_id}
        told: Plain = {"subagentRunId": run_id}
        if error is not None:
            yield {"type": "SUBAGENT_ERROR", **told, "message": message_of(error), "code": type(error).__name__}
        else:
            yield {"type": "SUBAGENT_FINISHED", **told, "outcome": {"type": "suspended" if is_suspended else "success"}}


VERSION = "1.0"


class AguiEncoder:
    """Turns the events of one run into events of AG-UI 1.0. For one reader, and one thread at a time.

    A text is a message, a turn a step, a run inside a subagent. A pause is `RUN_FINISHED` with one interrupt for each question
    and each call that needs a decision; `answers_of` reads the answers. What has no name in AG-UI is `CUSTOM`, with
    the name `understudy.` and the event's type, and the event as `event_json` tells it.

    Args:
        thread_id: as the client's request has it.
        run_id: as the client's request has it; it is not the id of the run here.
        inner: whether texts and calls of runs inside are told too, as work of subagents. Their beginnings and ends are always.
        shown: ids of the tool calls that the client has already, if the run goes on after a pause.
    """

    __slots__ = ("_begun", "_inner", "_over", "_parts", "_run", "_shown", "_subagents", "_text", "_text_id")

    def __init__(self, *, thread_id: str, run_id: str, inner: bool = False, shown: Sequence[str] = ()) -> None:
        self._run: Plain = {"threadId": thread_id, "runId": run_id}
        self._inner = inner
        self._shown = tuple(shown)
        self._parts: RunParts | None = None
        self._subagents = Subagents(shown)
        self._begun = False
        self._over = False
        self._text_id = ""
        self._text = ""
        """The beginning of each event that adds to the text `_text_id`."""

    def encode(self, event: Event) -> list[JsonObject]:
        """Return what the client is told of an event; nothing after the end of the run."""
        if self._over:
            return []
        told: list[JsonObject] = []
        if not self._begun:
            self._begun = True
            told.append({"type": "RUN_STARTED", **self._run, "protocolVersion": VERSION})
        if len(event.path) > 1:
            told += self._of_inner(event)
        else:
            told += self._of_outer(event)
        return told

    def encode_bytes(self, event: Event) -> bytes:
        """Return the same as `text/event-stream`."""
        if type(event) is TextDelta and self._parts is not None and len(event.path) < 2:
            id = self._parts.open_text(event)
            if id and not self._over:
                if id != self._text_id:
                    self._text_id = id
                    self._text = f'data: {{"type":"TEXT_MESSAGE_CONTENT","messageId":{quoted(id)},"delta":'
                return f"{self._text}{quoted(event.text)}}}\n\n".encode()
        return "".join([f"data: {json_text(each)}\n\n" for each in self.encode(event)]).encode()

    def _of_inner(self, event: Event) -> Iterator[Plain]:
        if self._inner and not isinstance(event, (RunFinished, RunFailed)):
            yield from self._subagents.told(event)

    def _of_outer(self, event: Event) -> Iterator[Plain]:
        parts = self._parts
        if parts is None:
            parts = self._parts = RunParts(event.run_id, shown=self._shown)
        match event:
            case RunFinished(outcome=outcome):
                self._over = True
                yield from self._finished(parts, outcome)
            case RunFailed(error=error):
                self._over = True
                yield from self._failed(parts, error)
            case ChildStarted() | ChildFinished():
                yield from self._subagents.child(event, None)
            case _:
                if isinstance(event, TurnStarted):
                    yield from self._subagents.end_below(None)
                yield from agui_events(parts.read(event))

    def _finished(self, parts: RunParts, outcome: Outcome[object]) -> Iterator[Plain]:
        waits = isinstance(outcome, (NeedsInput, NeedsApproval))
        yield from self._subagents.end_below(None, is_suspended=waits)
        if not waits:
            yield from self._subagents.end_waiting()
        yield from agui_events(parts.finish(outcome))
        asked = interrupts_of(outcome) if isinstance(outcome, (NeedsInput, NeedsApproval)) else []
        for one in asked:
            if one.call is not None and not one.is_inner:
                yield from agui_events(parts.show(one.call))
        calls = [_call_id(parts, one) for one in asked]
        yield from agui_events(parts.end(ENDED, parts.calls.ids() if asked else ()))
        told: Plain = {"type": "RUN_FINISHED", **self._run, "result": outcome_json(outcome)}
        if asked:
            told["outcome"] = {
                "type": "interrupt",
                "interrupts": [interrupt_json(one, id) for one, id in zip(asked, calls, strict=True)],
            }
        else:
            told["outcome"] = {"type": "success"}
        yield told

    def _failed(self, parts: RunParts, error: BaseException) -> Iterator[Plain]:
        yield from self._subagents.end_below(None, error=error)
        yield from agui_events(parts.end(ENDED))
        if isinstance(error, RunCancelled):
            yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "cancelled"}}
        else:
            yield {"type": "RUN_ERROR", "message": message_of(error), "code": type(error).__name__}


def _call_id(parts: RunParts, asked: Interrupt) -> str:
    return "" if asked.call is None or asked.is_inner else parts.calls.id_of(asked.call)


APPROVAL_SCHEMA: Plain = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    },
    "required": ["approved"],
}
ANSWER_SCHEMA: Plain = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


def interrupt_json(asked: Interrupt, tool_call_id: str) -> Plain:
    """Return one interrupt.

    Args:
        asked: the question or the call.
        tool_call_id: the id under which the client has the call; empty if it has it not, as a call of a run inside.
    """
    path: list[JsonValue] = list(asked.pause.path)
    if asked.call is None:
        told: Plain = {"id": asked.id, "reason": "input_required", "message": asked.pause.question}
        return {**told, "responseSchema": ANSWER_SCHEMA, "metadata": {NAMESPACE: {"path": path}}}
    about: Plain = {"path": path, "call": call_json(asked.call)}
    if asked.in_doubt:
        about["in_doubt"] = True
    told = {"id": asked.id, "reason": "tool_call", "message": asked.reason or f"Call {asked.call.name}?"}
    if tool_call_id:
        told["toolCallId"] = tool_call_id
    return {**told, "responseSchema": APPROVAL_SCHEMA, "metadata": {NAMESPACE: about}}
