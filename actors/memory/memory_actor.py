"""The actor of a memory: its messages are loads and appends, and it handles one at a time.

A message that finds the memory idle has its turn at once, on the thread of its sender: the driver of a run, which can only
wait for it. Mostly that is so, for the conversation is granted to the run by then. A message that finds another one in hand
waits in line, and its driver with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from understudy.actors.cells.envelope import CANCELLED, FAILED, HANDLED, Fate
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.seated_cell import Entered, SeatedCell
from understudy.actors.run_view.errors import DEFAULT_MEMORY_TIMEOUT, cancelled, step_timeout
from understudy.actors.run_view.view import AgentRunView
from understudy.actors.threads.promise import Promise
from understudy.actors.waiting.awaited import link_of_thing
from understudy.actors.waiting.graph import graph
from understudy.errors import AgentDown, RunError, RunTimedOut, UnderstudyError, in_words
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.actors.system_events import LostBecause
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.runs.memory import InMemoryMemory, Memory, WindowedMemory

T = TypeVar("T")


class MemoryMessage(Generic[T]):
    """What a run wants of a memory.

    Attributes:
        begun: when its turn began, or the message was made, on the monotonic clock.
        use: does it, and returns what the run gets.
    """

    __slots__ = ("begun", "use")

    def __init__(self, use: Callable[[], T]) -> None:
        self.begun = time.monotonic()
        self.use = use


class Load(MemoryMessage[T]):
    """Load what is known of a conversation."""

    __slots__ = ()


class Append(MemoryMessage[T]):
    """Add a turn to a conversation."""

    __slots__ = ()


AnyMessage: TypeAlias = MemoryMessage[Any]


class MemoryUser(AgentRunView, Protocol):
    """A run whose driver uses a memory."""

    def begin_step(self, epoch: int, doing: str, deadline: float = inf) -> None:
        """Say what the driver that holds `epoch` is about to do, and until when; raises `Stale` to any other."""
        ...


class MemoryActor(SeatedCell[AnyMessage]):
    """The actor of one memory in one system. The memory was given, so a failure replaces nothing: the same object goes on.

    Args:
        address: its name.
        memory: what it keeps.
        id: its name in the path of a cycle.
        events: where its dead letters go.

    Attributes:
        is_quick: whether the memory is one of this package that never blocks: it has a lock of its own, so any number of
            messages may be in hand, and none waits.
    """

    __slots__ = ("_link", "is_quick", "memory")

    def __init__(self, address: str, memory: Memory, id: str, events: EventStream) -> None:
        self.is_quick = type(memory) in (InMemoryMemory, WindowedMemory)  # and no class of a user's made from them
        super().__init__(address, None if self.is_quick else 1, events)
        self.memory = memory
        self._link = link_of_thing(id)

    def call_quickly(self, message: MemoryMessage[T]) -> T:
        """Have a memory that never blocks handle a message, on this thread and without a lock.

        Raises:
            AgentDown: the system has stopped.
        """
        if not self.take_turn(message):
            refused: list[LostBecause] = []
            self.enter(message, _nothing, refused.append)
            raise AgentDown(f"{self.address} has stopped", actor=self.address)
        fate = FAILED
        try:
            value = message.use()
            fate = HANDLED
            return value
        finally:
            self._leave(message, fate)

    def call(self, record: MemoryUser, epoch: int, doing: str, message: MemoryMessage[T]) -> T:
        """Have the memory handle a message on this thread, the driver's, when its turn comes.

        Raises:
            Stale: the run is over or in other hands; if that is so before the turn comes, nothing was done.
            CircularAgentCall: whoever uses the memory waits for this run.
            RunError: the run is to end, or a run that the memory began for itself has ended so.
            AgentCrashed: the time is over.
            AgentDown: the system has stopped.
            RuntimeError: it failed with another error of ours, which says nothing about this run.
        """
        until = time.monotonic() + DEFAULT_MEMORY_TIMEOUT
        record.begin_step(epoch, doing, until + GRACE)
        at_once, fate = self.take_turn(message), CANCELLED
        if not at_once:
            self._await_turn(message, record, until)
        try:
            if not at_once:
                record.begin_step(epoch, doing, until + GRACE)
                message.begun = time.monotonic()
            fate = FAILED
            wait = graph.begin(self._link, record.link, None)
            try:
                value = _use(record, until, message.use)
            finally:
                graph.end(wait)
            fate = HANDLED
            return value
        finally:
            self._leave(message, fate)

    def _leave(self, message: AnyMessage, fate: Fate) -> None:
        if fate is FAILED:
            self.restarts += 1
        self.leave(message, fate)

    def _await_turn(self, message: AnyMessage, record: MemoryUser, until: float) -> None:
        turn: Promise[None] = Promise()

        def lose(reason: LostBecause) -> None:
            turn.fail(self._lost(record, reason))

        entered = self.enter(message, partial(turn.set, None), lose, until)
        if entered is Entered.NOW:
            return
        forget = record.scope.on_cancel_at_once(lambda: turn.fail(cancelled(record)))
        try:
            with graph.waiting(current_ancestry(), self._link):
                turn.wait()
            turn.get()
        except BaseException:
            if not self.withdraw(message):
                self.leave(message, CANCELLED)  # its turn has come in this moment
            raise
        finally:
            forget()

    def _lost(self, record: MemoryUser, reason: LostBecause) -> UnderstudyError:
        if reason == "expired":
            return step_timeout(record)
        what = "has stopped" if reason == "stopped" else "has no thread to look after a message that waits"
        return AgentDown(f"{self.address} {what}", actor=self.address)


def _nothing() -> None:
    """Begin no turn: the message is refused."""


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
