"""Decisions about the time of tool calls: their deadlines, and the next action when one passes. Time is an argument.

A call that may happen twice is made again at its deadline, as often as its tool allows. Any other is told that its time
is over, and given up `GRACE` later.
"""

from __future__ import annotations

from math import inf
from typing import Literal, TypeAlias

from understudy.vocabulary.tools.definition import Tool

GRACE = 0.25  # Seconds between the warning and giving up: enough for a tool that reacts to the warning.

CallAction: TypeAlias = Literal["wait", "retry", "warn", "give_up"]


def action_due(
    now: float, deadline: float | None, gives_up_at: float | None, timed_out: int, repeats: int
) -> CallAction:
    """Return what is due for a call that is not done.

    Args:
        now: the moment at which somebody looks.
        deadline: until when the attempt in hand may take; None for no limit.
        gives_up_at: until when it is waited for since it was warned; None before that.
        timed_out: how many attempts before this one took too long.
        repeats: how many attempts may be made again.
    """
    if deadline is None or now < deadline:
        return "wait"
    if gives_up_at is None:
        return "retry" if timed_out < repeats else "warn"
    return "wait" if now < gives_up_at else "give_up"


def next_look(deadline: float | None, gives_up_at: float | None) -> float:
    """Return when the next action may be due; infinite for a call without a limit."""
    if gives_up_at is not None:
        return gives_up_at
    return inf if deadline is None else deadline


def repeats_of(tool: Tool[..., object]) -> int:
    """Return how many attempts of a call that took too long may be made again."""
    return tool.retries if tool.idempotent else 0


class CallDeadlines:
    """Sets the deadline of each call of a round, in the order in which they begin.

    Calls for the caller's thread run one after another, so the deadline of each includes the time of the calls before it.
    """

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: float | None = 0.0
        """The latest time at which the caller's thread is free; None if a call before has no limit."""

    def of(self, tool: Tool[..., object], now: float) -> float | None:
        """Return the deadline of a call that begins `now`; None for no limit."""
        if tool.isolation != "caller":
            return None if tool.timeout is None else now + tool.timeout
        begins = None if self._free is None else max(now, self._free)
        self._free = None if begins is None or tool.timeout is None else begins + tool.timeout
        return self._free
