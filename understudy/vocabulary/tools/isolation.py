"""Isolation of tools: where their calls run, and the requirements on functions that run in another process."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from understudy.vocabulary.context.session import ToolContext

Isolation: TypeAlias = Literal["thread", "process", "caller"]
"""A lent thread of the runtime; a worker process; the thread that called `run`."""

ISOLATIONS: tuple[str, ...] = get_args(Isolation)
SCRIPTS = ("__main__", "__mp_main__")  # The second is what multiprocessing calls the first in its children.
NO_DEPS = re.compile(r"ToolContext\[\s*(object|None|Any|typing\.Any)\s*\]")


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a function or tool for another process.

    Attributes:
        module: what to import.
        file: what to run under that name if it cannot be imported; None for a module that has no file.
        qualname: the way from the module to the function.
    """

    module: str
    file: str | None
    qualname: str

    def find(self) -> object:
        """Return the object at this address in this process; imports the module if necessary.

        Raises:
            ImportError: there is no such module.
            AttributeError: it has nothing of that name.
        """
        found: object = importlib.import_module(self.module)
        for part in self.qualname.split("."):
            found = getattr(found, part)
        return found


def place_of(function: Callable[..., object], where: str) -> Place:
    """Return where another process finds `function`; `where` begins the messages.

    Raises:
        TypeError: its module is none that can be loaded again.
    """
    module = function.__module__
    try:
        spec = importlib.import_module(module).__spec__  # it is there already, but for modules that never were any
    except ImportError:
        spec = None
    if spec is None:
        raise TypeError(
            f"{where}: no other process can import its module {module!r}; define the tool in a file of its own"
        )
    return Place(module, spec.origin if spec.has_location else None, function.__qualname__)


def check_isolation(isolation: object, memory_limit: object, where: str) -> None:
    """Check the two options by themselves.

    Raises:
        ValueError: there is no such isolation, or the limit does not go with it.
        TypeError: the limit is no number.
    """
    if isolation not in ISOLATIONS:
        raise ValueError(f"{where}: isolation must be one of {', '.join(map(repr, ISOLATIONS))}, got {isolation!r}")
    if memory_limit is None:
        return
    if not isinstance(memory_limit, int) or isinstance(memory_limit, bool):
        raise TypeError(f"{where}: memory_limit must be a whole number of bytes or None, got {memory_limit!r}")
    if memory_limit <= 0:
        raise ValueError(f"{where}: memory_limit must be above 0 bytes, got {memory_limit}")
    if isolation != "process":
        raise ValueError(f"{where}: memory_limit needs isolation='process'; a thread's memory cannot be limited")


def check_can_travel(function: Callable[..., object], where: str) -> None:
    """Raise for a function that no other process can find by module and name; an agent checks the rest when it is made.

    Raises:
        TypeError: it is a lambda, nested, no function, or part of the script that runs.
    """
    what = f"{where}: isolation='process' needs a function at the top level of a module"
    if isinstance(function, functools.partial):  # its repr holds what it has bound
        raise TypeError(f"{what}; a worker process cannot find a functools.partial by its name")
    qualname = getattr(function, "__qualname__", None)
    if not isinstance(qualname, str):
        raise TypeError(f"{what}, got {function!r}")
    if "<" in qualname:  # <lambda>, or f.<locals>.g
        raise TypeError(f"{what}; a worker process cannot find {qualname!r} by its name")
    if function.__module__ in SCRIPTS:
        raise TypeError(
            f"{what}; {qualname!r} is part of the script or session that runs, which a worker process would have to "
            "run again: move it to a module of its own and import it"
        )


def asks_for_deps(annotation: object, names: Mapping[str, object]) -> bool:
    """Whether a context parameter is annotated with a type of `deps`, as in `ToolContext[Shop]`."""
    if isinstance(annotation, str):
        if "ToolContext[" in annotation:
            return "ToolContext[" in NO_DEPS.sub("", annotation)
        found = names.get(annotation)  # the name of an alias, or nothing we know
        return found is not None and not isinstance(found, str) and asks_for_deps(found, names)
    if get_origin(annotation) is ToolContext:
        (deps,) = get_args(annotation)
        return deps not in (object, None, type(None), Any)
    return get_origin(annotation) in (Union, UnionType) and any(asks_for_deps(a, names) for a in get_args(annotation))
