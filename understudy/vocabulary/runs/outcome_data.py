"""Converts the values of outcomes to plain data for JSON, for `outcome.to_dict()`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import isfinite
from typing import TypeAlias, cast

from understudy.vocabulary.any_outcome import AnyOutcome
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall, Usage

Plain: TypeAlias = "dict[str, JsonValue]"

DETAILS = ("cached_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens")
"""Counts that not every provider reports; missing ones are left out."""


def plain_ending(ending: AnyOutcome | BaseException) -> Plain:
    """Return an outcome or an error as plain data."""
    if isinstance(ending, BaseException):
        return {"status": "failed", "error": {"type": type(ending).__name__, "message": str(ending)}}
    return ending.to_dict()


def plain_usage(usage: Usage) -> Plain:
    """Return the known counts of tokens."""
    told: Plain = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return told | {name: count for name in DETAILS if (count := getattr(usage, name)) is not None}


def plain_citation(citation: Citation) -> Plain:
    """Return a source of the text, without what only its provider reads."""
    return {
        "title": citation.title,
        "url": citation.url,
        "quote": citation.quote,
        "start": citation.start,
        "end": citation.end,
    }


def plain_call(call: ToolCall) -> Plain:
    """Return a tool call with its arguments."""
    return {"id": call.id, "name": call.name, "arguments": cast(JsonObject, plain_value(call.arguments))}


def plain_value(value: object) -> JsonValue:
    """Return a value as JSON can carry it: models and dataclasses as mappings, what JSON has no form for as text."""
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    from pydantic_core import to_jsonable_python  # pydantic is loaded where there are such values

    try:
        return cast(
            JsonValue, to_jsonable_python(value, inf_nan_mode="null", bytes_mode="base64", serialize_unknown=True)
        )
    except UnicodeEncodeError:
        return _with_halves(value)


def _with_halves(value: object) -> JsonValue:
    """Return a value with half a surrogate pair where pydantic takes none: in a key, or in a text of a class of its own."""
    match value:
        case Enum():
            return plain_value(value.value)
        case str():
            return str.__str__(value)
        case dict():
            items = cast("dict[object, object]", value).items()
            return {_plain_key(key): plain_value(each) for key, each in items}
        case list() | tuple() | set() | frozenset():
            return [plain_value(each) for each in cast("Iterable[object]", value)]
        case _:
            from pydantic import TypeAdapter

            return plain_value(TypeAdapter(type(value)).dump_python(value, warnings=False))


def _plain_key(key: object) -> str:
    value = plain_value(key)
    return value if isinstance(value, str) else str(key)
