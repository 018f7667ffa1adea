"""How pydantic writes messages as JSON, for users who keep them. Loads pydantic, so it is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any, cast

from pydantic import SerializationInfo, SerializerFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

AS_IT_IS = "halves as they are"
"""The serialization context in which half a surrogate pair is not replaced: pydantic then refuses it in a text."""


def with_json_of_messages(schema: CoreSchema) -> CoreSchema:
    """Return the schema of `Message` so that its JSON has U+FFFD for each half of a surrogate pair."""
    changed: Any = {
        **schema,
        "serialization": core_schema.wrap_serializer_function_ser_schema(_json_of, info_arg=True, when_used="json"),
    }
    return cast(CoreSchema, changed)


def _json_of(message: object, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> object:
    return write(message if info.context is AS_IT_IS else without_halves(message))


def without_halves(value: Any) -> Any:
    """Return a value of texts, lists, mappings and dataclasses with U+FFFD for each half of a surrogate pair in it.

    Without such a half it is the value itself. No class is asked to make an object: users may have subclasses.
    """
    if isinstance(value, str):
        whole = value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value if whole == value else whole
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[object]", value)
        parts = [without_halves(each) for each in given]
        if all(map(is_, parts, given)):
            return given
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        items = list(cast("dict[str, object]", value).items())
        found = [(without_halves(key), without_halves(each)) for key, each in items]
        same = all(key is old[0] and each is old[1] for (key, each), old in zip(found, items, strict=True))
        return cast("object", value) if same else dict(found)
    if is_dataclass(value) and not isinstance(value, type):
        return _replaced(value)
    return value


def _replaced(value: Any) -> Any:
    """Return a dataclass without halves in its fields: itself, or a copy."""
    told = {each.name: getattr(value, each.name) for each in fields(value)}
    changed = {name: new for name, old in told.items() if (new := without_halves(old)) is not old}
    if not changed:
        return value
    other = copy(value)
    for name, new in changed.items():
        object.__setattr__(other, name, new)
    return other
