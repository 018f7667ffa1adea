"""The parts of a run as chunks of the UI message stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from understudy.vocabulary.messages import JsonValue, ToolCall
from understudy.vocabulary.runs.events import ToolFinished

from .event_json import call_json, event_json, result_json
from .interrupts import is_id, parsed_id
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
    TurnVoid,
)
from .shown_calls import arguments_text
from .sse import json_text

Plain: TypeAlias = "dict[str, JsonValue]"


def data_part(name: str, data: Plain, id: str = "") -> Plain:
    """Return a part with data of our own. Without an id the client hears of it and does not keep it."""
    told: Plain = {"type": f"data-{name}", "data": harmless(data)}
    return {**told, "id": id} if id else {**told, "transient": True}


FORBIDDEN = {"__proto__", "constructor"}
"""Keys with which the client takes no JSON: a model that writes one could end the stream."""


def harmless(value: JsonValue) -> JsonValue:
    """Return a value in which each object with a forbidden key is its JSON text."""
    if isinstance(value, Mapping):
        if not FORBIDDEN.isdisjoint(value):
            return json_text(value)
        return {key: harmless(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [harmless(each) for each in value]
    return value


class AiSdkChunks:
    """Writes the parts of a run as chunks.

    Args:
        version: major version of the client's package.
        shown: ids of the calls that the client has from before a pause.
    """

    __slots__ = ("_names", "_shown", "_version")

    def __init__(self, version: int, shown: frozenset[str]) -> None:
        self._version = version
        self._shown = shown
        self._names: dict[str, str] = {}
        """Id of a call -> name of the tool."""

    def of(self, marks: Iterable[Mark]) -> Iterator[Plain]:
        """Yield the chunks that tell the parts of a run."""
        for mark in marks:
            match mark:
                case TextBegan(kind, id):
                    yield {"type": f"{kind}-start", "id": id}
                case TextGrew(kind, id, text):
                    yield {"type": f"{kind}-delta", "id": id, "delta": text}
                case TextEnded(kind, id):
                    yield {"type": f"{kind}-end", "id": id}
                case StepBegan():
                    yield {"type": "start-step"}
                case StepEnded():
                    yield {"type": "finish-step"}
                case CallBegan() | CallGrew() | CallReady() | CallDone() | CallVoid():
                    yield self._of_call(mark)
                case TurnVoid():
                    yield self._void(mark)
                case Other(event):
                    told = event_json(event)
                    yield data_part(str(told["type"]).replace("_", "-"), told)

    def approved(self, event: ToolFinished) -> Iterator[Plain]:
        """Yield the result of a call of a run inside that the client was asked to approve."""
        found = [id for id in self._shown if is_id(id) and parsed_id(id).call_id == event.call.id]
        if len(found) == 1:  # two runs inside may have calls of one id, and nothing tells them apart
            self._shown -= {found[0]}
            yield self._result(found[0], event, was_asked=True)

    def inner_call(self, id: str, call: ToolCall) -> Iterator[Plain]:
        """Yield a call of a run inside, which the client has not and is to approve."""
        yield self._of_call(CallBegan(id, call.name, ""))
        yield self._of_call(CallGrew(id, arguments_text(call)))
        yield self._of_call(CallReady(id, call))

    def _of_call(self, mark: CallBegan | CallGrew | CallReady | CallDone | CallVoid) -> Plain:
        match mark:
            case CallBegan(id, name):
                return {"type": "tool-input-start", "toolCallId": id, "toolName": name}
            case CallGrew(id, text):
                return {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": text}
            case CallReady(id, call):
                return {"type": "tool-input-available", "toolCallId": id, "toolName": call.name, "input": _input(call)}
            case CallDone(id, event):
                return self._result(id, event, was_asked=id in self._shown)
            case CallVoid(id, name, is_ready, why):
                if is_ready:
                    return {"type": "tool-output-error", "toolCallId": id, "errorText": why}
                told: Plain = {"type": "tool-input-error", "toolCallId": id, "toolName": name}
                return {**told, "input": None, "errorText": why}

    def _result(self, id: str, event: ToolFinished, *, was_asked: bool) -> Plain:
        result = event.result
        if result.error_kind == "rejected" and was_asked and self._version > 5:
            return {"type": "tool-output-denied", "toolCallId": id}
        if result.is_error:
            return {"type": "tool-output-error", "toolCallId": id, "errorText": result.content}
        output = result.content if not result.parts else result_json(result)
        return {"type": "tool-output-available", "toolCallId": id, "output": output}

    def _void(self, mark: TurnVoid) -> Plain:
        if self._version >= 7 and mark.in_step:
            return {"type": "reset-step"}
        return data_part("turn-dropped", {**event_json(mark.event), "ids": list(mark.ids)})


def _input(call: ToolCall) -> JsonValue:
    return harmless(call_json(call)["arguments"]) if call.bad_arguments is None else call.bad_arguments
