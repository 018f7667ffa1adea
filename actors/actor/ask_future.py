"""`AskFuture`: the reply to an ask, and how a thread waits for it.

Late asks are answered at their deadline, whatever the actor does. There is one alarm for each actor, not for each ask.
"""

from __future__ import annotations

import time
import weakref
from concurrent.futures import CancelledError
from functools import partial
from logging import WARNING
from math import inf
from typing import Any, TypeVar, cast

from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.promise import Late, Promise
from understudy.actors.waiting.awaited import Asked
from understudy.actors.waiting.base_future import PromisedFuture
from understudy.actors.waiting.graph import graph
from understudy.diagnostics import emit
from understudy.errors import CircularAgentCall
from understudy.vocabulary.checks import checked_wait
from understudy.vocabulary.context.ancestry import current_ancestry

from .endpoint import Endpoint

V_co = TypeVar("V_co", covariant=True)


class AskFuture(PromisedFuture[V_co]):
    """The reply to an ask."""

    __slots__ = ("_cell",)

    def __init__(self, reply: Promise[object], cell: Endpoint) -> None:
        self._promise = cast("Promise[V_co]", reply)
        self._cell = cell

    def result(self, timeout: float | None = None) -> V_co:
        if timeout is not None or not self._promise.done:
            self._wait(timeout)
        return self._promise.get()

    def _wait(self, timeout: float | None) -> Promise[V_co]:
        checked_wait("result", timeout)
        if not wait_for_reply(self._promise, timeout, self._cell):
            raise self._late(f"within {timeout:g} s")
        return self._promise

    def _late(self, within: str) -> Late:
        return Late(f"{self._cell.address} has not replied {within}; the message stands")

    def cancel(self) -> bool:
        return self._promise.fail(CancelledError(f"the ask of {self._cell.address} was cancelled"))

    def awaited(self) -> Asked:
        return Asked(self._cell.link, self._promise)

    @property
    def origin(self) -> str:
        return self._cell.address

    def __repr__(self) -> str:
        return f"<ask of {self._cell.address}: {self.state}>"


class StopFuture(AskFuture[V_co]):
    """The end of an actor; to cancel it does nothing, for the actor stops all the same."""

    __slots__ = ()

    def _late(self, within: str) -> Late:
        return Late(f"{self._cell.address} has not stopped {within}; it stops after the messages it has")

    def cancel(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<end of {self._cell.address}: {self.state}>"


def wait_for_reply(reply: Promise[Any], timeout: float | None, cell: Endpoint) -> bool:
    """Wait for an actor's reply; inside of runs and actors, refuse to close a cycle of waits."""
    callers = current_ancestry()
    if not callers or reply.done or timeout == 0:
        return reply.wait(timeout)
    try:
        with graph.waiting(callers, Asked(cell.link, reply)):
            return reply.wait(timeout)
    except CircularAgentCall as error:
        cell.events.refused(cell.address, error)
        raise


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
