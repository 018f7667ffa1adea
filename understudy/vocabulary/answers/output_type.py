"""Output types: what an agent's answer must be, and whether an answer is that. Loads pydantic at the first use only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, cast, get_origin

from understudy.errors import InvalidOutput
from understudy.vocabulary.messages import JsonObject, OutputSpec, ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .output_schemas import Form, SchemaForm

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

OutputMode: TypeAlias = Literal["auto", "native", "tool"]
"""How the model is held to an output type: by what its provider offers, by calling a tool, or by the better of both."""


@dataclass(frozen=True, slots=True)
class CheckedOutput(Generic[T_co]):
    """An answer, read as an agent's output type."""

    text: str
    """The answer."""
    problem: str
    """What is wrong with it, in words that the model can use; empty if it fits."""
    _value: T_co | None

    @property
    def value(self) -> T_co:
        """The answer in the output type.

        Raises:
            InvalidOutput: it does not fit.
        """
        if self.problem:
            raise InvalidOutput(self.problem, text=self.text, problems=(self.problem,))
        return cast(T_co, self._value)  # None may be the value


def text_of(call: ToolCall) -> str:
    """Return the answer that a call gives, as JSON."""
    if call.bad_arguments is not None:
        return call.bad_arguments
    return json.dumps(call.arguments, ensure_ascii=False, default=dict)


class JsonSchema:
    """An output type that is a JSON Schema: the answer is JSON that fits it, and the outcome's `output` is that JSON.

    Args:
        schema: of the draft that its `$schema` names, else the newest; its `title` names the answer for the model. Nothing
            is fetched for a `$ref`. What is no object at its root is asked for as the property `answer` of one.

    Raises:
        TypeError: it is no mapping.
        ValueError: it is no valid JSON Schema, or refers to what is not in it.
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


class OutputType:
    """A type that answers must fit: a class, any other form that pydantic knows, or a `JsonSchema`.

    Args:
        form: the type, as it stands in an annotation.
        where: whose it is, for errors.

    Raises:
        TypeError: it is no type.
    """

    __slots__ = ("_form", "_made", "_where")

    def __init__(self, form: object, where: str) -> None:
        if not _is_type(form):
            raise TypeError(f"{where}: output_type must be a type, such as a class or list[int], got {form!r}")
        self._form = form
        self._where = where
        self._made: Form | SchemaForm | None = None

    @property
    def spec(self) -> OutputSpec:
        """What a model is told of the type; built on first use.

        Raises:
            TypeError: the type has no JSON Schema.
        """
        return self._ready().spec

    def check(self, text: str) -> CheckedOutput[object]:
        """Read an answer. Validators of the type run on the calling thread; what they raise is raised.

        A `ValueError` or `AssertionError` of theirs is what is wrong with the answer.
        """
        try:
            return CheckedOutput(text, "", self._ready().read(text))
        except Unfit as error:
            return CheckedOutput(text, str(error), None)

    def dump(self, value: object) -> str:
        """Return a value of the type as JSON; one that is text in JSON as it is. Serializers of the type run here."""
        return self._ready().dump(value)

    def _ready(self) -> Form | SchemaForm:
        if self._made is None:
            from .output_schemas import Form, SchemaForm

            form = self._form
            self._made = SchemaForm(form) if isinstance(form, JsonSchema) else Form(form, self._where)
        return self._made


class Unfit(ValueError):
    """An answer does not fit; the text says why. Not raised by anybody's validators."""


def _is_type(form: object) -> bool:
    # `type X = …` (Python 3.12) and NewType are neither classes nor have an origin.
    named = type(form).__name__ in ("TypeAliasType", "NewType")
    return isinstance(form, (type, JsonSchema)) or get_origin(form) is not None or named
