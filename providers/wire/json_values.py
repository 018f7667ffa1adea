"""JSON, read and written, and its narrowing to what a wire format says it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NoReturn, TypeGuard

from understudy.vocabulary.checks import DEEPEST, not_json
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall

UNREADABLE = "INVALID_JSON"
"""Name under which a model sees what it wrote instead of arguments."""


class WrongShape(ValueError):
    """JSON that is not what the API promises; says where, what was expected and what came."""


def parse(text: str | bytes, *, in_range: bool = True) -> JsonValue:
    """Read JSON as RFC 8259 has it.

    Args:
        text: the JSON.
        in_range: refuse a number that no float can hold, such as 1e999; otherwise it is read as an infinite one.

    Raises:
        ValueError: it is none; Python's own NaN and Infinity are none either.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_no_constant, parse_float=_finite if in_range else float)
    except RecursionError:
        problem = "nested too deeply"
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    else:
        return value
    # Out here, for the decoder's error holds the whole text, and what a server sends may quote a key.
    raise ValueError(problem)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"{word[:20]} is a number out of range")
    return number


def written(value: JsonValue) -> str:
    """Write JSON, without spaces.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: something is not JSON.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # any mapping will do
    raise TypeError(f"a request holds a {type(value).__name__}, which is not JSON")


def is_object(value: object) -> TypeGuard[Mapping[str, JsonValue]]:
    """Tell whether decoded JSON is an object."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[JsonValue]]:
    """Tell whether decoded JSON is an array."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def as_object(value: JsonValue, where: str) -> JsonObject:
    """Return `value` if it is an object; `where` names it in the error."""
    if not is_object(value):
        raise WrongShape(f"{where} must be an object, got {_kind(value)}")
    return value


def as_text(value: JsonValue, where: str) -> str:
    """Return `value` if it is a string; `where` names it in the error."""
    if not isinstance(value, str):
        raise WrongShape(f"{where} must be a string, got {_kind(value)}")
    return value


def items(source: JsonObject, key: str, where: str) -> Sequence[JsonValue]:
    """Return the array under `key`; an absent or null one is empty."""
    value = source.get(key)
    if value is None:
        return ()
    if not is_array(value):
        raise WrongShape(f"{where} must be an array, got {_kind(value)}")
    return value


def inner(source: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`, or an empty one where there is none."""
    value = source.get(key)
    return value if is_object(value) else {}


def kept(source: JsonObject, where: str) -> JsonObject:
    """Return an object that is kept as it came, and perhaps sent back; `where` names it in the error."""
    if not_json(source, where):
        raise WrongShape(f"{where} must hold numbers in the range of a float, at most {DEEPEST} levels deep")
    return source


def text(source: JsonObject, key: str) -> str:
    """Return the string under `key`, or an empty one where there is none."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def count(source: JsonObject, key: str) -> int | None:
    """Return the whole number under `key`, or None where there is none that counts something: it must not be negative."""
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def total(*numbers: int | None) -> int | None:
    """Add the numbers that are known; None when none is."""
    known = [n for n in numbers if n is not None]
    return sum(known) if known else None


def arguments(value: JsonValue) -> tuple[JsonObject, str | None]:
    """Read a tool call's arguments: the object, and the model's own text where it is none.

    OpenAI API, Chat completions: they are JSON in a string that the model wrote, so it may be empty or broken.
    """
    if is_object(value):
        return ({}, _as_text(value)) if not_json(value, "arguments") else (value, None)
    if value is None:
        return {}, None
    if not isinstance(value, str):
        return {}, _as_text(value)
    if not value.strip():
        return {}, None
    try:
        parsed = parse(value)
    except ValueError:
        return {}, value
    return (parsed, None) if is_object(parsed) and not not_json(parsed, "arguments") else ({}, value)


def _as_text(value: JsonValue) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "(nested too deeply)"


def sendable(call: ToolCall) -> JsonObject:
    """Return a call's arguments as an object that every API takes back, with the model's own text where it wrote none.

    The model must see what it wrote to write it better, and some servers answer arguments that do not parse with an error
    for the whole request (vLLM, OpenAI-compatible server, reads them to fill its chat template).
    """
    return call.arguments if call.bad_arguments is None else {UNREADABLE: call.bad_arguments}


def _kind(value: JsonValue) -> str:
    if is_object(value):
        return f"an object with {', '.join(sorted(value)[:8]) or 'nothing'}"
    if is_array(value):
        return f"an array of {len(value)}"
    return "nothing" if value is None else repr(value)[:80]
