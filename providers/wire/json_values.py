"""Writes JSON, and narrows JSON values to the types of a wire format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from understudy.orchestration.agent.feed_checks import MOST
from understudy.vocabulary.checks import DEEPEST, not_json
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, JsonValue, Part, ToolCall

UNREADABLE = "INVALID_JSON"
"""The name under which a model sees its own invalid arguments."""
UNFIT_FOR_NAME = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64  # OpenAI API, Chat completions; no API allows fewer characters.


class WrongShape(ValueError):
    """JSON that breaks the API's format; the message has the place, the expected and the actual value."""


def written(value: JsonValue) -> str:
    """Write JSON, without spaces.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: something is not JSON.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # any mapping is accepted
    raise TypeError(f"a request holds a {type(value).__name__}, which is not JSON")


def is_object(value: object) -> TypeGuard[Mapping[str, JsonValue]]:
    """Tell whether decoded JSON is an object."""
    # The type is compared first, because it is nearly always a dict, and the check of an abstract class is slow.
    return type(value) is dict or (value is not None and isinstance(value, Mapping))


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


def type_in(source: JsonObject, where: str) -> str:
    """Return the type of something that a model said; `where` names it in the error.

    One of a type that we do not know is kept or left out. One without a type would be too, and nobody would know.
    """
    value = source.get("type")
    if type(value) is str and value:  # nearly always
        return value
    if value == "":
        raise WrongShape(f"{where} must not be empty")
    return as_text(value, where)


def place_of(source: JsonObject, key: str, where: str) -> int | None:
    """Return the whole number under `key` that tells a place in a list; None if it is absent or null.

    What has a place of another type belongs nowhere, so `where` names it in an error.
    """
    value = source.get(key)
    if value is None or (type(value) is int and 0 <= value < MOST):
        return value
    raise WrongShape(f"{where} must be a whole number from 0, got {_kind(value)}")


def items(source: JsonObject, key: str, where: str) -> Sequence[JsonValue]:
    """Return the array under `key`; an absent or null one is empty."""
    value = source.get(key)
    if value is None:
        return ()
    if not is_array(value):
        raise WrongShape(f"{where} must be an array, got {_kind(value)}")
    return value


def inner(source: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`, or an empty one if there is none."""
    value = source.get(key)
    return value if is_object(value) else {}


def object_in(source: JsonObject, key: str, where: str) -> JsonObject:
    """Return the object under `key`, empty if it is absent or null; `where` names it in the error for any other value."""
    value = source.get(key)
    if is_object(value):  # nearly always
        return value
    return {} if value is None else as_object(value, where)


def kept(source: JsonObject, where: str) -> JsonObject:
    """Return an object to be kept unchanged, and perhaps sent back; `where` names it in the error."""
    if not_json(source, where):
        raise WrongShape(f"{where} must hold numbers in the range of a float, at most {DEEPEST} levels deep")
    return source


def beside(source: JsonObject) -> JsonObject:
    """Return what stands beside an answer, to be kept and not sent; empty if it cannot be kept, so that the answer is not lost."""
    return {} if not_json(source, "") else source


def objects(source: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects of the array under `key`, and nothing of any other value: for what stands beside an answer."""
    value = source.get(key)
    return [each for each in value if is_object(each)] if is_array(value) else []


def text(source: JsonObject, key: str) -> str:
    """Return the string under `key`, or an empty one if there is none."""
    value = source.get(key)
    return value if isinstance(value, str) else ""


def text_in(source: JsonObject, key: str, where: str) -> str:
    """Return the string under `key`, empty if it is absent or null; `where` names it in the error for any other value.

    For what a model said: to leave out a part of it would change it, and nobody would know.
    """
    value = source.get(key)
    if type(value) is str:  # nearly always
        return value
    return "" if value is None else as_text(value, where)


def count(source: JsonObject, key: str) -> int | None:
    """Return the whole number under `key`, or None if it is missing, negative, beyond all counts or not a whole number."""
    value = source.get(key)
    return value if type(value) is int and 0 <= value < MOST else None


def grown(counts: JsonObject, more: JsonObject) -> dict[str, JsonValue]:
    """Return counts with later ones laid over them; null, 0 and an object of these take no count back."""
    return {**counts, **{key: value for key, value in more.items() if key not in counts or _counts(value)}}


def _counts(value: JsonValue) -> bool:
    return any(value.values()) if is_object(value) else bool(value)


def total(*numbers: int | None) -> int | None:
    """Add the known numbers; None if none is known."""
    known = [n for n in numbers if n is not None]
    return sum(known) if known else None


def sendable(call: ToolCall) -> JsonObject:
    """Return a call's arguments as an object that every API accepts; invalid arguments become a text in an object.

    The model must see its mistake to correct it, and some servers refuse a whole request for arguments that do not parse
    (vLLM's OpenAI-compatible server parses them to fill its chat template).
    """
    return call.arguments if call.bad_arguments is None else {UNREADABLE: call.bad_arguments}


def sendable_name(name: str) -> str:
    """Return the name of a called tool as every API accepts it; names of tools stay as they are.

    A model may call a name that no tool can have. Sent back as it was, it would make the API refuse the whole conversation.
    """
    fit = UNFIT_FOR_NAME.sub("_", name)
    return (fit if fit[:1].isalpha() or fit[:1] == "_" else f"_{fit}")[:LONGEST_NAME]


def own_fields_of(call: ToolCall) -> JsonObject:
    """Return the fields of a call that only its server knows, as its signature keeps them."""
    try:
        own = parse(call.signature or "{}")
    except ValueError:  # a signature that a program made
        return {}
    return own if is_object(own) else {}


def is_repeated(part: Part, earlier: list[ToolCall]) -> bool:
    """Whether a part is a call that came before, with the same id and content; any other call is added to `earlier`.

    Some servers send one call twice. Calls without an id may well be two.
    """
    if type(part) is not ToolCall:
        return False
    unsigned = replace(part, signature=None)
    if part.id and unsigned in earlier:
        return True
    earlier.append(unsigned)
    return False


def _kind(value: JsonValue) -> str:
    if is_object(value):
        return f"an object with {', '.join(sorted(value)[:8]) or 'nothing'}"
    if is_array(value):
        return f"an array of {len(value)}"
    return "nothing" if value is None else repr(value)[:80]
