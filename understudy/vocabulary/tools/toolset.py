"""Toolsets: classes whose methods are tools, and whose state belongs to one call at a time."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TypeAlias, cast

from .definition import Tool, ToolLike, as_tool
from .origin import Origin


class Toolset:
    """Tools that share state: the methods of a subclass that `@tool` decorates.

    `tools=[Shelf]` and `tools=[functools.partial(Shelf, path)]` give an agent the tools of an object that is made for it, at
    the first call in a system, and made afresh when the agent is restarted there; `tools=[shelf]` those of the object at
    hand, for all agents that list it. The calls of one object run one at a time in a system, so that its state needs no lock:
    others wait without a thread, and their time begins with their turn. A call that was given up holds the object until it
    comes back; until then, or until the agent is restarted, others are answered with an error.

    Attributes:
        prefix: what the names of its tools begin with for a model.
    """

    prefix: str = ""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name, value in vars(cls).items():
            if isinstance(getattr(value, "__func__", None), Tool):  # a class method, or a static one
                raise TypeError(f"toolset {cls.__name__}: tool {name!r} is one of the class, and not of its objects")
        for name, made in _tools_in(cls).items():
            where = f"toolset {cls.__name__}: tool {name!r}"
            if made.signature.receiver is None:
                raise TypeError(f"{where} takes no self; a function without it stands outside of the class")
            if made.max_parallel not in (None, 1):
                raise ValueError(f"{where}: max_parallel={made.max_parallel}, but calls of a toolset run one at a time")


ToolSource: TypeAlias = "ToolLike | Toolset"
"""An entry of an agent's `tools`: a tool, a function, or a toolset (its object, class or partial)."""


def is_toolset(given: object) -> bool:
    """Whether something is a toolset, or a class of them."""
    return isinstance(given, Toolset) or (isinstance(given, type) and issubclass(given, Toolset))


def tools_in(given: ToolSource) -> tuple[Tool[..., object], ...]:
    """Return the tools that an entry of an agent's list stands for.

    Raises:
        TypeError: it is no tool and no toolset.
        ValueError: a toolset has no tools, or a prefix makes names that no provider takes.
    """
    if isinstance(given, Tool):
        return (_alone(as_tool(cast(ToolLike, given))),)
    origin = _origin(given)
    if origin is None:
        return (_alone(as_tool(cast(ToolLike, given))),)
    cls = cast("type[Toolset]", origin.cls)
    prefix = _prefix_of(cls if origin.given is None else cast(Toolset, origin.given))
    found = _tools_in(cls)
    if not found:
        raise ValueError(f"toolset {cls.__name__} has no tools; decorate those of its methods with @tool")
    return tuple([made.of_toolset(origin, prefix + made.name) for made in found.values()])


def _alone(made: Tool[..., object]) -> Tool[..., object]:
    """Return a tool that is listed by itself; that of a toolset's object takes its turn all the same."""
    owner = None if made.signature.receiver is None else made.instance
    if not isinstance(owner, Toolset):
        return made
    if made.max_parallel not in (None, 1):
        raise ValueError(
            f"tool {made.name!r}: max_parallel={made.max_parallel}, but calls of a toolset run one at a time"
        )
    return made.of_toolset(Origin(type(owner), given=owner), _prefix_of(owner) + made.name)


def _prefix_of(toolset: Toolset | type[Toolset]) -> str:
    prefix: object = toolset.prefix
    if not isinstance(prefix, str):
        name = toolset.__name__ if isinstance(toolset, type) else type(toolset).__name__
        raise TypeError(f"toolset {name}: prefix must be a string, got {prefix!r}")
    return prefix


def _origin(given: object) -> Origin | None:
    if isinstance(given, Toolset):
        return Origin(type(given), given=given)
    if isinstance(given, type) and issubclass(given, Toolset):
        _check_call(given)
        return Origin(given, given)
    if isinstance(given, partial):
        made = cast("partial[Toolset]", given)
        if isinstance(made.func, type) and issubclass(made.func, Toolset):
            _check_call(made.func, *made.args, **made.keywords)
            return Origin(made.func, made)
    return None


def _check_call(cls: type[Toolset], *args: object, **options: object) -> None:
    """Raise for arguments that the class does not take."""
    try:
        inspect.signature(cls).bind(*args, **options)
    except TypeError as error:
        raise TypeError(
            f"toolset {cls.__name__} cannot be made so: {error}; list an object of it, or functools.partial with what "
            "it takes"
        ) from None
    except ValueError:
        pass  # a class written in C may tell no signature: a wrong argument is raised when the toolset is made


def _tools_in(cls: type[Toolset]) -> dict[str, Tool[..., object]]:
    """Return the tools of a class by attribute: those of its bases first, unless it has something else under the name."""
    found: dict[str, Tool[..., object]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Tool):
                found[name] = cast("Tool[..., object]", value)
            else:
                found.pop(name, None)
    return found
