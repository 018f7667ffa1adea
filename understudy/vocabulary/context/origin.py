"""`Origin`: the runs and the tool call that code is part of, for functions that are called later, on other threads."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .ancestry import Ancestry

if TYPE_CHECKING:
    from understudy.vocabulary.messages import ToolCall

R = TypeVar("R")


class Origin(NamedTuple):
    """What code is part of, for names in log lines."""

    chain: Ancestry
    call: ToolCall | None
    """The tool call; None outside of tool calls."""


_origin: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("understudy_origin", default=None)


def stated_origin() -> Origin | None:
    """Return the origin that the present function was called with by `named_after`; None if there is none."""
    return _origin.get()


def named_after(origin: Origin, function: Callable[[], R]) -> Callable[[], R]:
    """Return `function` so that log lines in it have the names of `origin`. It does not become part of the run."""
    return partial(_call, origin, function) if origin.chain else function


def _call(origin: Origin, function: Callable[[], R]) -> R:
    token = _origin.set(origin)
    try:
        return function()
    finally:
        _origin.reset(token)
