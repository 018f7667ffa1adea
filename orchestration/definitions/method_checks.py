"""Checks the methods of a user's callback, memory or actor: their names and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from types import FunctionType
from typing import cast

from understudy.vocabulary.checks import is_async
from understudy.vocabulary.runs.callbacks import ACCEPTED, AgentCallback

NEAR = 0.75
"""How similar a method's name must be to a hook's to count as a typing error: `before_tool` is, `note` is not."""
TAKEN_BY_MEMORIES = {"load": "(key)", "append": "(key, messages, run_id)", "clear": "(key)"}
"""Method of a memory -> its arguments."""


def fault_of_callback(callback: AgentCallback) -> str:
    """Return the fault in the methods of a callback, in words; empty if there is none."""
    return _fault_of_callbacks(cast(Hashable, type(callback)))


@lru_cache(maxsize=256)
def _fault_of_callbacks(kind: type[AgentCallback]) -> str:
    for name in _own_methods(kind):
        near = get_close_matches(name, ACCEPTED, 1, NEAR)
        if name not in ACCEPTED and near:
            return f"has a method {name}(), which is never called; did you mean {near[0]}()?"
    for moment in ACCEPTED:
        method = getattr(kind, moment)
        if is_async(method):
            return f"has {moment}() as async def; callbacks are plain functions"
        usual = list(inspect.signature(getattr(AgentCallback, moment)).parameters)
        if not _takes(method, len(usual)):
            return f"has {moment}{_signature(method)}, expected {moment}({', '.join(usual)})"
    return ""


def _own_methods(kind: type) -> Iterator[str]:
    """Yield the public methods of a class that none of our base classes has."""
    for base in kind.__mro__:
        if base is object or base.__module__.partition(".")[0] == "understudy":
            continue
        yield from [name for name, value in vars(base).items() if isinstance(value, FunctionType) and name[0] != "_"]


def fault_of_memory(memory: object) -> str:
    """Return the fault in a memory, or in a class or function that makes one, in words; empty if there is none."""
    if isinstance(memory, type):
        return _fault_of_methods(memory, of_class=True) or _fault_of_maker(memory)
    if callable(memory) and not any(hasattr(memory, name) for name in TAKEN_BY_MEMORIES):
        return _fault_of_maker(memory)
    return _fault_of_methods(memory)


def _fault_of_maker(make: object) -> str:
    if is_async(make):
        return "is async def; a function that makes a memory must be a plain one"
    return "" if _takes(make, 0) else f"takes {_signature(make)}; a memory is made without arguments"


def _fault_of_methods(memory: object, *, of_class: bool = False) -> str:
    """Say which method is missing or takes other arguments; of a class, only which one is missing."""
    for name, arguments in TAKEN_BY_MEMORIES.items():
        method = getattr(memory, name, None)
        if not callable(method):
            near = get_close_matches(name, [each for each in dir(memory) if each[0] != "_" and each != name], 1)
            return f"has no {name}{arguments}" + (f"; did you mean {near[0]}() to be it?" if near else "")
        if is_async(method):
            return f"has {name}() as async def; a memory's methods are plain functions"
        if not of_class and not _takes(method, arguments.count(",") + 1):
            return f"has {name}{_signature(method)}, expected {name}{arguments}"
    return ""


@lru_cache(maxsize=256)
def fault_of_actor(kind: type) -> str:
    """Name an `async def` method of an actor's class, because calling it would run nothing; empty if there is none."""
    for name in ("on_start", "on_receive", "before_restart", "on_stop"):
        if is_async(getattr(kind, name, None)):
            return f"{kind.__name__} has {name}() as async def; an actor's methods are plain functions"
    return ""


def _takes(method: object, arguments: int) -> bool:
    """Whether a method can be called with so many positional arguments; True if its signature is unknown."""
    try:
        inspect.signature(method).bind(*[None] * arguments)  # type: ignore[arg-type]  # it is callable
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def _signature(method: object) -> str:
    return str(inspect.signature(method))  # type: ignore[arg-type]  # it is callable
