"""Whether what a model object returned is a model's turn: nothing that is none may come near a run's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

from understudy.messages import (
    NO_USAGE,
    FilePart,
    FinishReason,
    ImagePart,
    ModelTurn,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)

_REASONS = frozenset(get_args(FinishReason))
_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
_TEXTS: dict[type, tuple[str, ...]] = {
    TextPart: ("text",),
    ToolCall: ("id", "name"),
    ReasoningPart: ("text",),
    ImagePart: ("data", "media_type", "url"),
    FilePart: ("data", "media_type", "url", "name"),
    ToolResult: ("call_id", "content", "name"),
    OpaquePart: (),
}
"""Kind of part -> its fields that must be strings."""
_TEXTS_OR_NONE: dict[type, tuple[str, ...]] = {
    TextPart: ("signature",),
    ToolCall: ("bad_arguments", "signature"),
    ReasoningPart: ("signature", "redacted"),
}
_MAPPINGS: dict[type, str] = {ToolCall: "arguments", OpaquePart: "data"}


def fault_of_turn(returned: object) -> str:
    """Say what is wrong with what a model object returned: what was found, and what was expected; empty for a turn.

    Values are not quoted, for they may hold what users say.
    """
    if not isinstance(returned, ModelTurn):
        return f"got {_kind(returned)}, expected a ModelTurn"
    parts: object = returned.parts
    if not isinstance(parts, tuple):
        return f"its parts are {_kind(parts)}, expected a tuple"
    for part in cast("tuple[object, ...]", parts):
        if type(part) is TextPart and type(part.text) is str and part.signature is None:
            continue  # the common case: every turn of every run comes here
        fault = _fault_of_part(part)
        if fault:
            position = next(n for n, each in enumerate(returned.parts) if each is part)
            return f"parts[{position}]{fault}"
    usage = returned.usage
    return ("" if usage is NO_USAGE else _fault_of_usage(usage)) or _fault_of_words(returned)


def _fault_of_part(part: object) -> str:
    kind = type(part)
    texts = _TEXTS.get(kind)
    if texts is None:
        return f" is {_kind(part)}, expected a part, such as TextPart or ToolCall"
    for name in texts:
        if not isinstance(value := getattr(part, name), str):
            return f".{name} is {_kind(value)}, expected a string"
    for name in _TEXTS_OR_NONE.get(kind, ()):
        if (value := getattr(part, name)) is not None and not isinstance(value, str):
            return f".{name} is {_kind(value)}, expected a string or None"
    name = _MAPPINGS.get(kind, "")
    if name and not isinstance(value := getattr(part, name), Mapping):
        return f".{name} is {_kind(value)}, expected a mapping"
    return ""


def _fault_of_usage(usage: object) -> str:
    if not isinstance(usage, Usage):
        return f"its usage is {_kind(usage)}, expected a Usage"
    for name in _COUNTS:
        count: object = getattr(usage, name)
        if count is None:
            continue
        if not isinstance(count, int) or isinstance(count, bool):
            return f"usage.{name} is {_kind(count)}, expected a whole number or None"
        if count < 0:
            return f"usage.{name} is {count}, expected at least 0"
    return "" if isinstance(usage.raw, Mapping) else f"usage.raw is {_kind(usage.raw)}, expected a mapping"


def _fault_of_words(turn: ModelTurn) -> str:
    reason: object = turn.finish_reason
    if not isinstance(reason, str) or reason not in _REASONS:
        expected = ", ".join(map(repr, get_args(FinishReason)))
        return f"its finish_reason is {reason!r}, expected one of {expected}"
    raw: object = turn.raw_finish_reason
    if raw is not None and not isinstance(raw, str):
        return f"its raw_finish_reason is {_kind(raw)}, expected a string or None"
    if type(turn.refusal) is type(turn.dialect) is type(turn.model) is type(turn.response_id) is str:
        return ""
    for name in ("refusal", "dialect", "model", "response_id"):
        if not isinstance(value := getattr(turn, name), str):
            return f"its {name} is {_kind(value)}, expected a string"
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
