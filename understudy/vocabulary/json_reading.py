"""Reads JSON: any text, and the arguments that a model wrote for a tool call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import NoReturn

from .checks import not_json
from .json_types import JsonObject, JsonValue

SPACES = " \t\n\r"
"""RFC 8259, 2: what may stand around a value."""


def parse(text: str | bytes, *, in_range: bool = True) -> JsonValue:
    """Read JSON as defined by RFC 8259.

    Args:
        text: the JSON.
        in_range: refuse a number too large for a float, such as 1e999; otherwise it becomes infinite.

    Raises:
        ValueError: the text is not JSON; NaN and Infinity, which Python accepts, are not JSON.
    """
    try:
        if isinstance(text, bytes):
            # An object is nearly always UTF-8: then its second byte is no NUL, and there is no mark before it.
            is_usual = text.startswith(b"{") and text[1:2] != b"\0"
            text = text.decode("utf-8" if is_usual else json.detect_encoding(text), "surrogatepass")
        value = _decoded(text, _IN_RANGE if in_range else _ANY_NUMBER)
    except RecursionError:
        problem = "nested too deeply"
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    else:
        return value
    # Outside the except block: the decoder's error holds the whole text, which may quote a key.
    raise ValueError(problem)


def _decoded(text: str, decoder: json.JSONDecoder) -> JsonValue:
    if text.startswith("{"):  # `decode` looks for space on both sides, which takes as long as to read a short object
        found: tuple[JsonValue, int] = decoder.raw_decode(text)
        value, end = found
        if end == len(text) or not text[end:].strip(SPACES):
            return value
    whole: JsonValue = decoder.decode(text)
    return whole


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(word: str) -> float:
    number = float(word)
    if not isfinite(number):
        raise ValueError(f"{word[:20]} is a number out of range")
    return number


# Made once: json.loads makes a decoder for each call with options, which takes longer than to read a short text.
_IN_RANGE = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
_ANY_NUMBER = json.JSONDecoder(parse_constant=_no_constant, parse_float=float)


def arguments(value: JsonValue) -> tuple[JsonObject, str | None]:
    """Read a tool call's arguments: the object, and the model's own text if that is not an object.

    OpenAI API, Chat completions: arguments are JSON in a string that the model wrote; it may be empty or broken.
    """
    if isinstance(value, Mapping):
        return ({}, _as_text(value)) if not_json(value, "arguments") else (value, None)
    if value is None:
        return {}, None
    if not isinstance(value, str):
        return {}, _as_text(value)
    if not value.strip():
        return {}, None
    try:
        parsed = parse(value)
        if isinstance(parsed, str) and parsed.lstrip(SPACES).startswith("{"):  # some models write JSON of the JSON
            parsed = parse(parsed)
    except ValueError:
        return {}, value
    if parsed is None:  # Groq, of a tool without parameters
        return {}, None
    return (parsed, None) if isinstance(parsed, Mapping) and not not_json(parsed, "arguments") else ({}, value)


def arguments_text(value: JsonValue) -> str:
    """Return the text from which `arguments` reads the same as from `value`."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _as_text(value)


def _as_text(value: JsonValue) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "(nested too deeply)"
