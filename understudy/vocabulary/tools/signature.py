"""Signatures of tools' functions: read and checked at once; pydantic builds the validator at the first use."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import MethodType, UnionType
from typing import TYPE_CHECKING, Union, cast, get_args, get_origin

from understudy.vocabulary.context.session import ToolContext
from understudy.vocabulary.messages import JsonObject, ToolSpec

from .isolation import asks_for_deps
from .parameters import Documentation, module_names

if TYPE_CHECKING:
    from pydantic import BaseModel


class Signature:
    """The signature of a tool's function, and the validator that pydantic builds at the first use."""

    __slots__ = (
        "_documentation",
        "_made",
        "_spec",
        "context_parameter",
        "function",
        "is_plain",
        "parameters",
        "receiver",
        "wants_deps",
    )

    def __init__(self, function: Callable[..., object], name: str, bound: bool = False) -> None:
        self.function = function
        self.receiver: str | None = None
        """The parameter of a method that stands for its instance; None for a function."""
        self.context_parameter: str | None = None
        self.wants_deps = False
        """Whether the context is annotated with a type of deps."""
        self.parameters: list[inspect.Parameter] = []
        self.is_plain = False
        """Whether no code of users checks the arguments, which could hang; known once the model is built."""
        self._made: tuple[type[BaseModel], JsonObject] | None = None
        self._documentation: Documentation | None = None
        self._spec: ToolSpec | None = None
        parameters = _parameters_of(function, name)
        names = module_names(function)
        if parameters and (bound or _is_receiver(parameters[0])):
            self.receiver = parameters.pop(0).name
        for parameter in parameters:
            self._take(parameter, name, names)

    def _take(self, parameter: inspect.Parameter, name: str, names: Mapping[str, object]) -> None:
        where = f"tool {name!r}: parameter {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{where} is {parameter.kind.description}; a model passes arguments by name only")
        if _is_context(parameter.annotation, names):
            if self.context_parameter is not None:
                raise TypeError(f"{where} is a second ToolContext; one is enough")
            self.context_parameter = parameter.name
            self.wants_deps = asks_for_deps(parameter.annotation, names)
        elif parameter.annotation is parameter.empty:
            raise TypeError(f"{where} has no type annotation, which tells the model what to pass")
        else:
            self.parameters.append(parameter)

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """Not copied or pickled with its function: the copy makes its own signature."""
        return (_nothing, ())

    def spec(self, name: str, description: str | None) -> ToolSpec:
        """Return the function as a tool for a model; the docstring is the default description.

        Raises:
            TypeError: a parameter's type has no JSON Schema.
        """
        if description is not None:
            return ToolSpec(name, description, self.schema(name))
        if self._spec is None or self._spec.name != name:
            self._spec = ToolSpec(name, self.documentation.description, self.schema(name))
        return self._spec

    @property
    def documentation(self) -> Documentation:
        """The content of the docstring; parsed at the first use, once for all tools made of the function."""
        if self._documentation is None:
            from .schemas import documentation_of

            self._documentation = documentation_of(self.function)
        return self._documentation

    def arguments_model(self, name: str) -> type[BaseModel]:
        """Return the pydantic model that checks the arguments; built on first use.

        Raises:
            TypeError: a parameter's type has no JSON Schema.
        """
        return (self._made or self._build(name))[0]

    def schema(self, name: str) -> JsonObject:
        """Return the JSON Schema of the arguments; built on first use, with the model."""
        return self._build(name)[1]

    def _build(self, name: str) -> tuple[type[BaseModel], JsonObject]:
        # No lock, because a fork could leave it held for ever. Two threads that build at once build the same.
        if self._made is None:
            from .schemas import arguments_model

            model, schema, self.is_plain = arguments_model(self, name)
            self._made = model, schema
        return self._made


def _nothing() -> None:
    """Return the replacement for a signature in a pickle."""


def _parameters_of(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    """Return what a caller may pass; what a partial has bound by name is not the model's to say."""
    if not isinstance(function, functools.partial):
        return list(inspect.signature(function).parameters.values())
    given = cast("functools.partial[object]", function)
    try:
        found = inspect.signature(given).parameters
    except ValueError:
        raise TypeError(
            f"tool {name!r}: functools.partial has bound arguments that its function does not take"
        ) from None
    return [parameter for parameter in found.values() if parameter.name not in given.keywords]


def _is_receiver(parameter: inspect.Parameter) -> bool:
    # A decorator inside a class sees a plain function; only the name tells that it is a method.
    return parameter.name in ("self", "cls") and parameter.annotation is parameter.empty


def _is_context(annotation: object, names: Mapping[str, object]) -> bool:
    if isinstance(annotation, str):  # from __future__ import annotations
        return any(_names_context(word, names) for word in re.findall(r"[^\W\d][\w.]*", annotation))
    if annotation is ToolContext or get_origin(annotation) is ToolContext:
        return True
    return get_origin(annotation) in (Union, UnionType) and any(_is_context(a, names) for a in get_args(annotation))


def _names_context(word: str, names: Mapping[str, object]) -> bool:
    first, *rest = word.split(".")
    if (rest or [first])[-1] == "ToolContext":
        return True  # also if it is imported for type checkers only
    found = names.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return not isinstance(found, str) and _is_context(found, names)


def takes_context_first(function: Callable[..., object]) -> bool:
    """Whether the first parameter of a function is annotated with the context of tools."""
    try:
        parameters = _parameters_of(function, "")
    except (TypeError, ValueError):
        return False
    names: Mapping[str, object] = getattr(inspect.unwrap(function), "__globals__", {})
    return bool(parameters) and _is_context(parameters[0].annotation, names)


def signature_of(function: Callable[..., object], name: str) -> Signature:
    """Return the function's one `Signature`, whichever tools and agents share it."""
    bound = isinstance(function, MethodType)
    inner: Callable[..., object] = function.__func__ if isinstance(function, MethodType) else function
    known = getattr(inner, _KEPT, None)
    if isinstance(known, Signature) and known.function is inner and (known.receiver is not None or not bound):
        return known
    made = Signature(inner, name, bound)
    with contextlib.suppress(AttributeError):  # builtins and some callable objects take no attributes
        setattr(inner, _KEPT, made)
    return made


_KEPT = "__understudy_signature__"
