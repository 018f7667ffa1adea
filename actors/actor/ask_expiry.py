"""Late asks are answered at their deadline, whatever the actor does. There is one alarm for each actor, not for each ask."""

from __future__ import annotations

import time
import weakref
from functools import partial
from logging import WARNING
from math import inf

from understudy.actors.threads.alarms import ring_at
from understudy.diagnostics import emit

from .endpoint import Endpoint


def answer_by(cell: Endpoint, deadline: float) -> None:
    """Have an ask of an actor answered at its deadline.

    Most asks have a later deadline than the one before them, and find an alarm set.
    """
    if deadline >= cell.look_at or deadline == inf:
        return
    cell.look_at = deadline
    try:
        ring_at(deadline, partial(_look, weakref.ref(cell)))
    except RuntimeError as error:  # the actor answers them when it comes to them
        cell.look_at = inf
        text = "%s: no thread can be had to answer asks that are too late: %s"
        emit(WARNING, "asks_not_watched", {"actor": cell.address}, text, cell.address, error)


def expire(cell: Endpoint) -> None:
    """Answer the late asks of an actor."""
    cell.look_at = inf  # before the search: a later ask sets its own alarm
    answer_by(cell, cell.expire(time.monotonic()))


def _look(ref: weakref.ref[Endpoint]) -> None:
    cell = ref()
    if cell is not None:
        expire(cell)
