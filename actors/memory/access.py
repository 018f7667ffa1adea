"""How a run's driver uses the memory of its agent: the load before the first step, the append before the end is reported.

A memory is one at a time, like an actor, and has no thread: who uses it brings its own. The conversation is granted to the
run by then, so mostly nobody else is there; if somebody is, the driver waits in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from understudy.actors.actor.commands import nothing
from understudy.actors.run_view.errors import DEFAULT_MEMORY_TIMEOUT, LOADING, STORING, cancelled, step_timeout
from understudy.actors.run_view.log import Diverged
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.slots import Slots, Taken
from understudy.actors.tools.tool_call import GRACE
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import link_of_thing
from understudy.errors import RunError, RunTimedOut, UnderstudyError, in_words
from understudy.orchestration.agent.window import count_new
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.memory import InMemoryMemory, Memory, WindowedMemory

if TYPE_CHECKING:
    from understudy.actors.runs.agent_record import AgentRunRecord

T = TypeVar("T")


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

    def call(self, record: AgentRunRecord, epoch: int, doing: str, use: Callable[[], T]) -> T:
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
            if self._slots.take(turn, partial(turn.set, None), nothing) is Taken.LATER:
                self._await(turn, record)
                record.begin_step(epoch, doing, until + GRACE)
            wait = graph.begin(self._link, record.link, None)
            try:
                return _use(record, until, use)
            finally:
                graph.end(wait)
        finally:
            self._slots.release(turn)

    def _await(self, turn: Promise[None], record: AgentRunRecord) -> None:
        forget = record.scope.on_cancel_at_once(lambda: turn.fail(cancelled(record)))
        try:
            with graph.waiting(current_ancestry(), self._link):
                turn.wait()
        finally:
            forget()
        turn.get()


def _use(record: AgentRunRecord, until: float, use: Callable[[], T]) -> T:
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


def recall(record: AgentRunRecord, epoch: int) -> Sequence[Message]:
    """Return the history that a run begins with: what it was given, or what its agent's memory knows."""
    lease = record.lease
    if lease is None or lease.keeper is None:
        return record.options.history or ()
    keeper, key = lease.keeper, lease.line.key
    if keeper.is_quick:
        return keeper.memory.load(key)
    known = keeper.call(record, epoch, LOADING, lambda: _messages(record, keeper.memory.load(key)))
    record.begin_step(epoch, "starting")
    return known


def _messages(record: AgentRunRecord, loaded: object) -> list[Message]:
    """Return what a memory loaded as a list, which may run code of the user's."""
    whose = f"the memory of agent {record.agent.id!r}: load"
    if not isinstance(loaded, Iterable):
        raise WrongReturn(f"{whose} must return a sequence of Message objects, got {found_instead(loaded)}")
    known = list(cast("Iterable[object]", loaded))
    for message in known:
        if not isinstance(message, Message):
            raise WrongReturn(f"{whose} must return Message objects, got {found_instead(message)} among them")
    return cast("list[Message]", known)


def _came_between(record: AgentRunRecord, epoch: int) -> int:
    """Return how many messages stand in the conversation that the run did not begin with; of a run that was saved."""
    machine = record.machine
    assert machine is not None
    return count_new(machine.messages[: machine.state.start], recall(record, epoch))


def remember(record: AgentRunRecord, messages: Sequence[Message], epoch: int) -> Callable[[], object] | None:
    """Store the turn of a run that is done.

    Returns:
        What is still to be done, in the moment in which the run ends and under its lock; quick. With a memory that never
        blocks this is all of it, so that nothing is stored of a run that somebody else ends first.
    """
    lease = record.lease
    if lease is None or lease.keeper is None:
        return None
    keeper, key = lease.keeper, lease.line.key
    if lease.was_saved:
        lease.came_between = _came_between(record, epoch)
    append = partial(keeper.memory.append, key, messages, record.run_id)
    if not keeper.is_quick:
        keeper.call(record, epoch, STORING, append)

    def at_the_end() -> None:
        if keeper.is_quick:
            append()
        record.host.conversations.note_stored(lease, len(messages))
        if lease.came_between:
            record.story.note(Diverged(lease.came_between))

    return at_the_end
