"""Hints for unknown arguments: the name here of an option that other libraries call differently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from understudy.vocabulary.messages import Settings

F = TypeVar("F", bound=Callable[..., None])

_ELSEWHERE = {
    "instructions": "system_prompt=",
    "prompt": "system_prompt=",
    "system": "system_prompt=",
    "system_message": "system_prompt=",
    "agents": "sub_agents=",
    "handoffs": "sub_agents=",
    "output": "output_type=",
    "response_format": "output_type=",
    "result_type": "output_type=",
}
"""Argument of other libraries -> ours."""


def explained(init: F) -> F:
    """Make a constructor name the right argument when it gets one of another library.

    Raises:
        TypeError: from the constructor, as Python raises it for any function.
    """
    code = init.__code__
    known = frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

    @wraps(init)
    def checked(self: object, *arguments: Any, **named: Any) -> None:
        if not named.keys() <= known:
            raise TypeError(_explanation(sorted(named.keys() - known), known))
        init(self, *arguments, **named)

    return cast(F, checked)


def _explanation(unknown: Iterable[str], known: Collection[str]) -> str:
    return "; ".join([f"an agent has no argument {name}=: {_instead(name, known)}" for name in unknown])


def _instead(name: str, known: Collection[str]) -> str:
    if name == "name":
        return "its first argument is the id, which names it"
    if name in {field.name for field in fields(Settings)}:
        return f"use settings=us.Settings({name}=…)"
    if name in _ELSEWHERE:
        return f"use {_ELSEWHERE[name]}"
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}=?" if near else f"it takes {', '.join(sorted(known))}"
