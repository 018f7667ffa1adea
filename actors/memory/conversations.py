"""The conversations of a system, and how a run uses the memory of its agent.

Each conversation is granted to one root run at a time, and others wait for it without a thread. The runs that a root run
begins share its grant, for it may wait for them. The last of them to leave gives the conversation to the first in line. A
conversation is a node of the wait graph, so that a cycle is refused.

If a memory of the run is in a store, the first in line asks there too, by a `Claim`: other processes may have the
conversation. The others in line have not asked yet, so a process has one ticket for each conversation.

A run loads its conversation before its first step, and appends to it before its end is told.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from logging import ERROR
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from understudy.actors.memory.claims import Claim
from understudy.actors.memory.conversation_queue import (
    ConversationGroup,
    ConversationQueue,
    ConversationUser,
    Lease,
    Start,
    await_holder,
    let_in,
    stand_in_line,
)
from understudy.actors.memory.memories import Memories
from understudy.actors.memory.memory_actor import Append, Load, MemoryActor, MemoryMessage, MemoryRaised, MemoryUser
from understudy.actors.memory.persistent import PersistentMemory, StoredMemory
from understudy.actors.run_view.errors import LOADING, STORING, memory_failure, safely
from understudy.actors.run_view.log import Diverged
from understudy.actors.stores.database import Outage
from understudy.actors.stores.store import Store
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.threads.slots import Taken
from understudy.actors.waiting.graph import graph
from understudy.diagnostics import emit
from understudy.errors import AgentCrashed, RunError, had_its_retries
from understudy.orchestration import Agent
from understudy.orchestration.agent.compaction.decisions import lasting_summary
from understudy.orchestration.agent.feed_checks import checked_history
from understudy.orchestration.agent.state import check_answered, count_new
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.compacted_memory import CompactedMemory, SummaryMemory
from understudy.vocabulary.runs.conversations import NO_USER
from understudy.vocabulary.runs.memory import ConversationKey, Memory

if TYPE_CHECKING:
    from understudy.orchestration import AgentRun
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.memory import Memory


class Conversations:
    """The conversations of one system. Safe to use from any thread.

    Args:
        app: the name of the system.
        memories: those that know them.
        store: the system's, for memories without one of their own.
        outage: the runs of the system that wait for a store.
    """

    def __init__(self, app: str, memories: Memories, store: Store, outage: Outage) -> None:
        self._app = app
        self._memories = memories
        self._store = store
        self._outage = outage
        self._lock = threading.Lock()
        """Guards the table, and all lines, groups and leases. Nobody's code runs under it."""
        self._lines: weakref.WeakValueDictionary[ConversationKey, ConversationQueue] = weakref.WeakValueDictionary()

    def lease(self, record: ConversationUser, *, was_saved: bool = False) -> Lease | None:
        """Return a run's claim to its conversation; None for a run that is in none, or is not to remember it.

        Args:
            record: the run.
            was_saved: whether it was loaded from text.
        """
        runner, options = record.runner, record.options
        if options.conversation_id is None or not remembers(runner, options.history is not None):
            return None
        user = NO_USER if options.user_id is None else options.user_id
        key = ConversationKey(self._app, user, options.conversation_id)
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = ConversationQueue(key, self._lock)
        if isinstance(runner, Agent):
            memory = self._memories.of(runner)
            assert memory is not None, "an agent that remembers has a memory"
            return Lease(line, memory, was_saved, () if memory.persistent is None else (memory.persistent,))
        return Lease(line, None, was_saved, tuple(self._persistent_inside(runner)))

    def take_over(self, record: ConversationUser) -> None:
        """Take the conversation of a run from the process before, which cannot give it back. Blocks for the stores.

        Raises:
            StoreError: a store failed.
        """
        lease = record.lease
        for each in () if lease is None else lease.persistent:
            grants = each.store_in(self._store).grants
            if grants is not None and lease is not None:
                grants.drop_of_run(lease.line.key, record.root)

    def _persistent_inside(self, runner: Runner[object]) -> Iterator[PersistentMemory]:
        memory = self._memories.of(runner) if isinstance(runner, Agent) else None
        if memory is not None and memory.persistent is not None:
            yield memory.persistent
        for inner in () if isinstance(runner, Agent) else runner.inner_runners:
            yield from self._persistent_inside(inner)

    # --- taking, and standing in line

    def enter(self, record: ConversationUser, start: Start) -> None:
        """Call `start` as soon as the run has its conversation; at once if it needs none."""
        lease = record.lease
        if lease is None:
            start()
            return
        refused: RunError | None = None
        with self._lock:
            group, claim = self._group_of(record, lease)
            granted = group.granted
            if granted:
                let_in(record, group)
                if lease.line.wait is not None:
                    await_holder(lease.line)
            else:
                record.doing = f"waiting for {lease.line.name}"
                refused = stand_in_line(record, lease.line, group, start)
        if granted:
            start()
        elif refused is not None:
            record.must_not_wait(refused)
        elif claim is not None:
            claim.begin()
        if record.phase != "running":  # it may have ended before it stood here, and then nobody would take it out
            self.leave(record)

    def _group_of(self, record: ConversationUser, lease: Lease) -> tuple[ConversationGroup, Claim | None]:
        """Return the group of a root run, which has the conversation, takes it or stands in line, and the claim to begin."""
        root, line = record.root, lease.line
        group = line.groups.get(root)
        if group is not None:
            return group, None
        group = line.groups[root] = ConversationGroup()
        group.claim = self._claim(root, lease, group)
        if line.slots.take(group, partial(self._grant, line, root, group)) is Taken.LATER:
            return group, None
        line.holder = group
        group.granted = group.claim is None
        return group, group.claim

    def _claim(self, root: str, lease: Lease, group: ConversationGroup) -> Claim | None:
        """Return the claim of a root run in the stores of its memories; None if no memory is in a store."""
        if not lease.persistent:
            return None
        line = lease.line

        def stores() -> list[Store]:
            return [each.store_in(self._store) for each in lease.persistent]

        return Claim(
            line.key,
            root,
            stores,
            partial(self._let_in_all, line, root, group),
            partial(self._refuse_all, line, root, group),
            self._outage,
        )

    def _grant(self, line: ConversationQueue, root: str, group: ConversationGroup) -> None:
        """Go on with the runs that stood in line together. On the thread that gave the conversation back."""
        if group.claim is None:
            self._let_in_all(line, root, group)
            return
        with self._lock:
            is_there = line.groups.get(root) is group
            if is_there:
                line.holder = group
        if is_there:
            group.claim.begin()

    def _let_in_all(self, line: ConversationQueue, root: str, group: ConversationGroup) -> None:
        """Start the runs of a root run, which stood in line together."""
        with self._lock:
            if line.groups.get(root) is not group:  # all have left meanwhile, and another root run may have it
                return
            group.granted, line.holder = True, group
            waiting, group.waiting = group.waiting, {}
            for record, (_, wait) in waiting.items():
                if wait is not None:
                    graph.end(wait)
                let_in(record, group)
            await_holder(line)
        for start, _ in waiting.values():
            try:
                start()
            except BaseException:  # the others are started all the same
                text = "a run that waited for %s could not be started"
                emit(ERROR, "run_not_started", {}, text, line.name, exc_info=True)

    def _refuse_all(self, line: ConversationQueue, root: str, group: ConversationGroup, error: BaseException) -> None:
        """End the runs of a root run, because a store could not be asked for their conversation."""
        with self._lock:
            waiting = tuple(group.waiting) if line.groups.get(root) is group else ()
        for record in waiting:
            safely(record, record.must_not_wait, error)

    # --- leaving

    def leave(self, record: ConversationUser) -> None:
        """Take a run that is over out of its conversation, or out of the line; the last of its root's gives it on."""
        lease = record.lease
        if lease is None:
            return
        line = lease.line
        with self._lock:
            group = line.groups.get(record.root)
            if group is None:
                return
            if record in group.inside:
                group.inside.discard(record)
                safely(record, lease.end)
            elif record in group.waiting:
                _, wait = group.waiting.pop(record)
                if wait is not None:
                    graph.end(wait)
            if group.inside or group.waiting:
                return
            del line.groups[record.root]
            if line.holder is group:
                line.holder = None
            if not line.groups:
                await_holder(line)
        if group.claim is None:
            line.slots.release(group)
        elif record.phase in ("cancelled", "failed"):  # the thread that ends a run early must not wait for a store
            run_elsewhere(partial(_give_back, line, group, group.claim))
        else:
            _give_back(line, group, group.claim)


def _give_back(line: ConversationQueue, group: ConversationGroup, claim: Claim) -> None:
    """Give a conversation back to other processes, then to the next in line here, which asks for it after them."""
    try:
        claim.give_back()
    finally:
        line.slots.release(group)


def remembers(runner: Runner[object], has_history: bool) -> bool:
    """Whether a run of `runner` takes part in its conversation, or hands it to a run inside that does."""
    if isinstance(runner, Agent):
        return runner.memory is not None and not has_history
    return any(remembers(inner, has_history=False) for inner in runner.inner_runners)


T = TypeVar("T")
ATTEMPTS = 3  # The memory's failures in one step after which the run ends, as many as crashes of a run.
PAUSE = 0.1  # Seconds before the second attempt; doubled for the third.


class MemoryFailed(Exception):
    """A memory went on failing: the run is to end, and its agent has not failed.

    Attributes:
        error: what the run ends with.
    """

    def __init__(self, error: AgentCrashed) -> None:
        super().__init__(error)
        self.error = error


def use_memory(record: MemoryUser, epoch: int, doing: str, actor: MemoryActor, message: MemoryMessage[T]) -> T:
    """Have a memory handle a message, again if it fails in its own code. On the thread of a work of the run.

    Raises:
        MemoryFailed: it failed too often, or another attempt cannot help or is not left.
        Stale: the run is over or in other hands; also between two attempts.
        UnderstudyError: as `MemoryActor.call`.
    """
    causes: tuple[BaseException, ...] = ()
    while True:
        try:
            return record.through_outage(epoch, partial(actor.call, record, epoch, doing, message))
        except MemoryRaised as raised:
            causes = (*causes, raised.cause)
        if actor.is_down or not _may_try_again(record, causes):
            raise MemoryFailed(memory_failure(record, causes))
        record.begin_step(epoch, doing)  # the time of a use begins anew with it
        record.scope.sleep(_pause(causes))


def _pause(causes: tuple[BaseException, ...]) -> float:
    return backoff_wait(PAUSE, inf, len(causes) - 1)


def _may_try_again(record: MemoryUser, causes: tuple[BaseException, ...]) -> bool:
    """Whether there is another attempt; if so, take one of the run's retries."""
    cause, left = causes[-1], record.scope.remaining()
    if len(causes) >= ATTEMPTS or isinstance(cause, WrongReturn) or had_its_retries(cause):
        return False
    return (left is None or left > _pause(causes)) and record.scope.take_retry(cause)


class RememberedRun(ConversationUser, MemoryUser, Protocol):
    """A run of an agent that may have a memory."""

    @property
    def machine(self) -> AgentRun | None:
        """What decides the run's steps; None before it has begun."""
        ...


def recall(record: RememberedRun, epoch: int) -> Sequence[Message]:
    """Return the history with which a run begins: `history=`, or the turns that its agent's memory loads."""
    lease = record.lease
    if lease is None or lease.memory is None:
        return record.options.history or ()
    actor, key = lease.memory, lease.line.key
    if actor.is_quick:
        return actor.call_quickly(Load(key, lambda memory: memory.load(key)))
    load = Load(key, lambda memory: _messages(record, _with_rule(record, memory).load(key)))
    known = use_memory(record, epoch, LOADING, actor, load)
    record.begin_step(epoch, "starting")
    return known


def _with_rule(record: RememberedRun, memory: Memory) -> Memory:
    """Refuse a memory whose rule for long conversations came too late: the agent was made before the memory."""
    if isinstance(memory, CompactedMemory) and record.agent.run_spec.compaction is None:
        raise WrongReturn(
            f"the memory of agent {record.agent.id!r} is a CompactedMemory that a function made after the agent, so the agent "
            "does not have its rule: give the rule to the agent too, Agent(compaction=…), or give the memory itself"
        )
    return memory


def _messages(record: RememberedRun, loaded: object) -> list[Message]:
    """Return the loaded messages as a list, which may run the user's code. The rule is that of `history=`."""
    whose = f"the memory of agent {record.agent.id!r}: load"
    returned = loaded  # of no narrower type below
    if not isinstance(loaded, Iterable) or isinstance(loaded, (Mapping, str, bytes, bytearray)):
        raise WrongReturn(f"{whose} must return a sequence of Message objects, got {found_instead(returned)}")
    known = list(cast("Iterable[object]", loaded))
    for message in known:
        if not isinstance(message, Message):
            raise WrongReturn(f"{whose} must return Message objects, got {found_instead(message)} among them")
    messages = cast("list[Message]", known)
    try:
        checked_history(messages)
        check_answered(messages)
    except (TypeError, ValueError) as fault:
        raise WrongReturn(f"{whose} returned messages that are no history: {fault}") from None
    return messages


def _check_stored(record: RememberedRun, method: str, returned: object) -> None:
    """Refuse the result of an `async def` method: nobody awaits it, so nothing is stored."""
    if isinstance(returned, Awaitable):
        what = found_instead(cast(object, returned))
        raise WrongReturn(f"the memory of agent {record.agent.id!r}: {method} must store before it returns, got {what}")


def _append(record: RememberedRun, lease: Lease, memory: Memory, messages: Sequence[Message]) -> None:
    """Add the turn of a run to a memory that may block, and first the summary that the run has made, if the memory keeps one."""
    key = lease.line.key
    summary = None if record.machine is None else lasting_summary(record.machine.state)
    if isinstance(memory, StoredMemory):
        fence = lease.fence(record.root, memory.store)
        if summary is not None:
            memory.summarize(key, summary, record.run_id, fence=fence)
        memory.append(key, messages, record.run_id, fence=fence)
        return
    if summary is not None and isinstance(memory, SummaryMemory):
        summarize = cast("Callable[..., object]", memory.summarize)
        _check_stored(record, "summarize", summarize(key, summary, record.run_id))
    append: Callable[..., object] = memory.append
    _check_stored(record, "append", append(key, messages, record.run_id))


def _came_between(record: RememberedRun, lease: Lease, epoch: int) -> int:
    """Return how many messages others have added since a saved run began.

    A run that was recovered may have added its own turn before its process died. Then others come after that turn.
    """
    machine, actor, key = record.machine, lease.memory, lease.line.key
    assert machine is not None and actor is not None
    if not actor.is_quick and use_memory(record, epoch, LOADING, actor, Load(key, partial(_has_added, record, key))):
        return 0
    return count_new(machine.messages[: machine.state.start], recall(record, epoch))


def _has_added(record: RememberedRun, key: ConversationKey, memory: Memory) -> bool:
    return isinstance(memory, StoredMemory) and memory.has_added(key, record.run_id)


def is_stored(lease: Lease) -> bool:
    """Whether the turn of a run is added to a memory that may outlive the process."""
    return lease.memory is not None and not lease.memory.is_quick


def remember(record: RememberedRun, messages: Sequence[Message], epoch: int) -> Callable[[], object] | None:
    """Store the turn of a run that is done.

    Returns:
        A quick function for the moment in which the run ends, under its lock. With a memory that never blocks it does the whole
        append, so that nothing is stored of a run that another thread ends first.
    """
    lease = record.lease
    if lease is None or lease.memory is None:
        return None
    actor, key = lease.memory, lease.line.key
    if lease.was_saved:
        lease.came_between = _came_between(record, lease, epoch)
    if not actor.is_quick:
        message = Append(key, lambda memory: _append(record, lease, memory, messages))
        use_memory(record, epoch, STORING, actor, message)

    def at_the_end() -> None:
        if actor.is_quick:
            actor.call_quickly(Append(key, lambda memory: memory.append(key, messages, record.run_id)))
        lease.note_stored(len(messages))
        if lease.came_between:
            record.log.note(Diverged(lease.came_between))

    return at_the_end
