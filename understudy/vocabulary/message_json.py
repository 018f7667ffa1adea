"""How pydantic writes messages as JSON, for users who keep them. Loads pydantic, so it is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
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
    """Return a value of texts, lists, mappings and dataclasses with U+FFFD for each half of a surrogate pair in it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, (list, tuple)):
        changed = [without_halves(each) for each in cast("Sequence[object]", value)]
        return changed if isinstance(value, list) else tuple(changed)
    if isinstance(value, dict):
        return {without_halves(key): without_halves(each) for key, each in cast("dict[str, object]", value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{each.name: without_halves(getattr(value, each.name)) for each in fields(value)})
    return value
