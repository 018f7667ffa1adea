"""The forms of an answer: `JsonSchema`, a schema that users give as data, and the protocol of all forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from understudy.vocabulary.messages import JsonObject, OutputSpec


class AnswerForm(Protocol):
    """A type that an answer is parsed into."""

    spec: OutputSpec
    """The schema and name that the model gets."""

    def read(self, text: str) -> object:
        """Return the answer in the type. Raises `Unfit`."""
        ...

    def partial(self, text: str) -> object:
        """Return what the beginning of an answer shows of it already. Raises `Unfit`."""
        ...

    def dump(self, value: object) -> str:
        """Return a value of the type as JSON; one that is text as it is."""
        ...


class Unfit(ValueError):
    """An answer does not fit; the text says why. A class of our own, so that validators of users cannot raise it."""


class JsonSchema:
    """An output type that is a JSON Schema: the answer is JSON that fits it, and the outcome's `output` is that JSON.

    Args:
        schema: of the draft that its `$schema` names, else the newest; its `title` names the answer for the model. Nothing
            is fetched for a `$ref`. What is no object at its root is asked for as the property `answer` of one.

    Raises:
        TypeError: the schema is no mapping.
        ValueError: the schema is no valid JSON Schema, or a reference leads outside of it.
    """

    __slots__ = ("misfits", "schema")

    def __init__(self, schema: JsonObject) -> None:
        if not isinstance(schema, Mapping):
            raise TypeError(f"JsonSchema takes a JSON Schema as a mapping, got {schema!r}")
        from .json_schema import misfits  # loads the library that reads schemas

        self.schema = schema
        self.misfits = misfits(schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchema) and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment]  # a mapping has none

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.schema,))  # a validator holds functions of its class

    def __repr__(self) -> str:
        return f"JsonSchema({dict(self.schema)!r})"
