"""Reads the parameters of a tool's function: from its docstring, and from the module of its annotations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel


class BadArguments(ValueError):
    """Arguments do not fit a tool's parameters; the text names each, for the model to read."""


@dataclass(frozen=True, slots=True)
class Documentation:
    """The content of a function's docstring."""

    description: str
    """The paragraphs before its sections."""
    parameters: Mapping[str, str]
    """Name of a parameter -> its description; parameters without one are left out."""


class Described(Protocol):
    """The data about a function from which the schema of its arguments is built."""

    @property
    def function(self) -> Callable[..., object]:
        """The function itself."""
        ...

    @property
    def parameters(self) -> Sequence[inspect.Parameter]:
        """The parameters that a model fills in."""
        ...

    @property
    def documentation(self) -> Documentation:
        """The content of its docstring."""
        ...

    def arguments_model(self, name: str) -> type[BaseModel]:
        """Return the pydantic model that checks the arguments."""
        ...


def without_partial(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function behind a `functools.partial`, or the function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def module_names(function: Callable[..., object]) -> dict[str, object]:
    """Return the names of the module where the function's annotations were written."""
    inner = inspect.unwrap(function)
    if isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    if not inspect.isroutine(inner):  # an object that can be called
        inner = inspect.unwrap(inner.__call__)
    return getattr(inner, "__globals__", {})
