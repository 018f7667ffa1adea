"""Output types: the type of an agent's answer, its schema, the check of answers. Loads pydantic at the first use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, cast, get_origin

from understudy.errors import InvalidOutput
from understudy.vocabulary.messages import OutputSpec, ToolCall

from .forms import AnswerForm, JsonSchema, Unfit

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

OutputMode: TypeAlias = Literal["auto", "native", "tool"]
"""How an output type is enforced: by the provider, by a tool that the model calls, or by the better of both."""


@dataclass(frozen=True, slots=True)
class CheckedOutput(Generic[T_co]):
    """An answer parsed as an agent's output type."""

    text: str
    """The answer."""
    problem: str
    """The problem, in words that the model can use; empty if the answer fits."""
    _value: T_co | None

    @property
    def value(self) -> T_co:
        """The answer in the output type.

        Raises:
            InvalidOutput: it does not fit.
        """
        if self.problem:
            raise InvalidOutput(self.problem, text=self.text, problems=(self.problem,))
        return cast(T_co, self._value)  # None can be a value


def text_of(call: ToolCall) -> str:
    """Return the answer that a call gives, as JSON."""
    if call.bad_arguments is not None:
        return call.bad_arguments
    return json.dumps(call.arguments, ensure_ascii=False, default=dict)


class OutputType:
    """A type that answers must fit: a class, any other form that pydantic knows, or a `JsonSchema`.

    Args:
        form: the type, as in an annotation.
        where: the agent and argument, for errors.

    Raises:
        TypeError: it is no type.
    """

    __slots__ = ("_form", "_made", "_where")

    def __init__(self, form: object, where: str) -> None:
        if not _is_type(form):
            raise TypeError(f"{where}: output_type must be a type, such as a class or list[int], got {form!r}")
        self._form = form
        self._where = where
        self._made: AnswerForm | None = None

    @property
    def spec(self) -> OutputSpec:
        """The schema and name that the model gets; built on first use.

        Raises:
            TypeError: the type has no JSON Schema.
        """
        return self._ready().spec

    def check(self, text: str) -> CheckedOutput[object]:
        """Parse an answer. Validators of the type run on the calling thread, and their errors are raised.

        A `ValueError` or `AssertionError` of theirs is the problem of the answer.
        """
        try:
            return CheckedOutput(text, "", self._ready().read(text))
        except Unfit as error:
            return CheckedOutput(text, str(error), None)

    def partial(self, text: str) -> object:
        """Parse the beginning of an answer that is still written; validators of the type run on the calling thread.

        Raises:
            Unfit: what there is shows no value of the type yet.
        """
        return self._ready().partial(text)

    def dump(self, value: object) -> str:
        """Return a value of the type as JSON; one that is text in JSON as it is. Serializers of the type run here."""
        return self._ready().dump(value)

    def _ready(self) -> AnswerForm:
        if self._made is None:
            from .output_schemas import Form, SchemaForm

            form = self._form
            self._made = SchemaForm(form) if isinstance(form, JsonSchema) else Form(form, self._where)
        return self._made


def _is_type(form: object) -> bool:
    # `type X = …` (Python 3.12) and NewType are neither classes nor have an origin.
    named = type(form).__name__ in ("TypeAliasType", "NewType")
    return isinstance(form, (type, JsonSchema)) or get_origin(form) is not None or named
