"""The parts of a run as events of AG-UI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from understudy.vocabulary.messages import FilePart, ImagePart, JsonValue, ToolResult

from .event_json import event_json
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
