"""The conversations of a system: each is granted to one root run at a time, and others wait for it without a thread.

The runs that a root run begins share its grant, for it may wait for them. The last of them to leave gives the
conversation to the first in line. A conversation is a node of the wait graph, so that a cycle is refused.

If a memory of the run is in a store, the first in line asks there too, by a `Claim`: other processes may have the
conversation. The others in line have not asked yet, so a process has one ticket for each conversation.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from functools import partial
from logging import ERROR
from typing import TYPE_CHECKING

from understudy.actors.run_view.failsafe import safely
from understudy.actors.stores.database import Outage
from understudy.actors.stores.store import Store
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.threads.slots import Taken
from understudy.actors.waiting.graph import graph
from understudy.diagnostics import emit
from understudy.errors import RunError
from understudy.orchestration import Agent
from understudy.vocabulary.runs.conversations import NO_USER
from understudy.vocabulary.runs.memory import ConversationKey

from .claims import Claim
from .conversation_queue import (
    ConversationGroup,
    ConversationQueue,
    ConversationUser,
    Lease,
    Start,
    await_holder,
    let_in,
    stand_in_line,
)
from .memories import Memories
from .persistent import PersistentMemory

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner


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
