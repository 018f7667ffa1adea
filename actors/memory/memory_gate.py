"""A memory in one system, which one run at a time uses, on the thread of its driver.

A memory is one at a time, like an actor, and has no thread: who uses it brings its own. The conversation is granted to the
run by then, so mostly nobody else is there; if somebody is, the driver waits in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Protocol, TypeVar

from understudy.actors.run_view.errors import DEFAULT_MEMORY_TIMEOUT, cancelled, step_timeout
from understudy.actors.run_view.view import AgentRunView
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.slots import Slots, Taken
from understudy.actors.waiting.awaited import link_of_thing
from understudy.actors.waiting.graph import graph
from understudy.errors import RunError, RunTimedOut, UnderstudyError, in_words
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.runs.memory import InMemoryMemory, Memory, WindowedMemory

T = TypeVar("T")


class MemoryUser(AgentRunView, Protocol):
    """A run whose driver uses a memory."""

    def begin_step(self, epoch: int, doing: str, deadline: float = inf) -> None:
        """Say what the driver that holds `epoch` is about to do, and until when; raises `Stale` to any other."""
        ...


class MemoryGate:
    """One memory in one system. Safe to use from any thread.

    Args:
        memory: what it keeps.
        name: what people call it.

    Attributes:
        is_quick: whether the memory is one of ours that never blocks: it has a lock of its own, and needs no turns.
    """

    __slots__ = ("__weakref__", "_link", "_slots", "is_quick", "memory")

    def __init__(self, memory: Memory, name: str) -> None:
        self.memory = memory
        self._link = link_of_thing(name)
        self.is_quick = type(memory) in (InMemoryMemory, WindowedMemory)  # and no class of a user's made from them
        self._slots: Slots[Promise[None]] = Slots(1)

    def call(self, record: MemoryUser, epoch: int, doing: str, use: Callable[[], T]) -> T:
        """Use the memory on this thread, the driver's, when nobody else does.

        Raises:
            Stale: the run is over or in other hands; if that is so before the turn comes, nothing was done.
            CircularAgentCall: whoever uses the memory waits for this run.
            RunError: the run is to end, or a run that the memory began for itself has ended so.
            AgentCrashed: the time is over.
            RuntimeError: it failed with another error of ours, which says nothing about this run.
        """
        until = time.monotonic() + DEFAULT_MEMORY_TIMEOUT
        record.begin_step(epoch, doing, until + GRACE)
        turn: Promise[None] = Promise()
        try:
            if self._slots.take(turn, partial(turn.set, None)) is Taken.LATER:
                self._await(turn, record)
                record.begin_step(epoch, doing, until + GRACE)
            wait = graph.begin(self._link, record.link, None)
            try:
                return _use(record, until, use)
            finally:
                graph.end(wait)
        finally:
            self._slots.release(turn)

    def _await(self, turn: Promise[None], record: MemoryUser) -> None:
        forget = record.scope.on_cancel_at_once(lambda: turn.fail(cancelled(record)))
        try:
            with graph.waiting(current_ancestry(), self._link):
                turn.wait()
        finally:
            forget()
        turn.get()


def _use(record: MemoryUser, until: float, use: Callable[[], T]) -> T:
    token = enter_scope(Scope(until, time.monotonic, parent=record.scope))
    try:
        return use()
    except RunTimedOut as error:
        if record.scope.remaining() == 0.0:
            raise
        raise step_timeout(record) from error
    except RunError:
        raise
    except UnderstudyError as error:  # it is the memory's, so the agent's, and would else be taken for the run's own
        raise RuntimeError(f"the memory of agent {record.agent.id!r} failed: {in_words(error)}") from error
    finally:
        leave_scope(token)
