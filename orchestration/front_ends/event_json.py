"""Events as plain JSON objects.

Each object has the `type` of the event (`text_delta` for `TextDelta`), its `id`, and all its fields. An outcome is
`outcome.to_dict()`, an error its type, message and token, a turn its text, calls and usage. There are no tracebacks, and no
data that only a provider can read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import TypeAlias, cast

from understudy.errors import ProviderError, UnderstudyError, kind_and_message, message_of
from understudy.vocabulary.messages import FilePart, ImagePart, JsonValue, ModelTurn, ToolCall, ToolResult, Usage
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.outcome_data import plain_call, plain_citation, plain_usage, plain_value
from understudy.vocabulary.runs.outcomes import Complete, Ending, Outcome

Plain: TypeAlias = "dict[str, JsonValue]"

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def event_json(event: Event) -> Plain:
    """Return an event as a JSON object: `type`, `id` and all its fields."""
    kind, names = _form(type(event))
    told: Plain = {"type": kind, "id": event.id}
    for name in names:
        told[name] = _plain(getattr(event, name))
    return told


def event_type(event: Event) -> str:
    """Return the name of an event's type: `text_delta` for `TextDelta`."""
    return _form(type(event))[0]


_FORMS: dict[str, tuple[str, tuple[str, ...]]] = {}
"""Class name -> the name of the type, and the names of the fields."""


def _form(cls: type[Event]) -> tuple[str, tuple[str, ...]]:
    found = _FORMS.get(cls.__name__)
    if found is None:
        kind = _HUMP.sub("_", cls.__name__).lower()
        found = _FORMS[cls.__name__] = kind, tuple([field.name for field in fields(cls)])
    return found


def error_json(error: BaseException) -> Plain:
    """Return an error: its type and message, and a provider's status and the token to go on with if it has them."""
    told: Plain = {"type": type(error).__name__, "message": message_of(error)}
    if isinstance(error, ProviderError):
        told["retryable"] = error.retryable
        if error.status is not None:
            told["status"] = error.status
        if error.request_id:
            told["request_id"] = error.request_id
    if isinstance(error, UnderstudyError):
        if error.path:
            told["path"] = list(error.path)
        if error.token:
            told["token"] = error.token
    return told


def outcome_json(outcome: Outcome[object]) -> Plain:
    """Return `outcome.to_dict()`. An output that a user's own code cannot give as JSON is None."""
    try:
        return outcome.to_dict()
    except Exception as error:  # noqa: BLE001 (whatever a user's serializer raises: the stream must come to its end)
        return {
            "status": outcome.status,
            "agent_id": outcome.agent_id,
            "run_id": outcome.run_id,
            "text": outcome.text if isinstance(outcome, Complete) else None,
            "completion_reason": outcome.completion_reason,
            "usage": plain_usage(outcome.usage),
            "output": None,
            "output_error": kind_and_message(error),
        }


def call_json(call: ToolCall) -> Plain:
    """Return a tool call: id, name, arguments, and the model's own text where that is no JSON object."""
    told = plain_call(call)
    return told if call.bad_arguments is None else {**told, "bad_arguments": call.bad_arguments}


def result_json(result: ToolResult) -> Plain:
    """Return the result of a tool call, with its pictures and documents."""
    told: Plain = {
        "call_id": result.call_id,
        "name": result.name,
        "content": result.content,
        "is_error": result.is_error,
        "error_kind": result.error_kind,
    }
    return told if not result.parts else {**told, "parts": [_media(part) for part in result.parts]}


def turn_json(turn: ModelTurn) -> Plain:
    """Return a model's turn without the data that only its provider reads."""
    return {
        "text": turn.text,
        "thinking": turn.thinking,
        "tool_calls": [call_json(call) for call in turn.tool_calls],
        "usage": plain_usage(turn.usage),
        "finish_reason": turn.finish_reason,
        "raw_finish_reason": turn.raw_finish_reason,
        "refusal": turn.refusal,
        "model": turn.model,
        "response_id": turn.response_id,
        "request_id": turn.request_id,
        "citations": [plain_citation(each) for each in turn.citations],
    }


def _media(part: ImagePart | FilePart) -> Plain:
    told: Plain = {"kind": part.kind, "media_type": part.media_type}
    told |= {"url": part.url} if part.url else {"data": part.data}
    return {**told, "name": part.name} if isinstance(part, FilePart) and part.name else told


def _plain(value: object) -> JsonValue:
    match value:
        case None | str() | int():
            return value
        case float():
            return value if isfinite(value) else None
        case ToolCall():
            return call_json(value)
        case ToolResult():
            return result_json(value)
        case ModelTurn():
            return turn_json(value)
        case Usage():
            return plain_usage(value)
        case BaseException():
            return error_json(value)
        case Ending():
            return outcome_json(cast("Outcome[object]", value))
        case Mapping():
            return {str(key): _plain(each) for key, each in cast("Mapping[object, object]", value).items()}
        case Sequence():
            return [_plain(each) for each in cast("Sequence[object]", value)]
        case _:
            try:
                return plain_value(value)
            except Exception:  # noqa: BLE001 (as in `outcome_json`)
                return None
