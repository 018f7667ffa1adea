"""One conversation: the run that has it, the runs in line for it, and the lease of each of these runs.

The functions below the classes are called under the lock of the conversation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from understudy.actors.run_view.view import RunView
from understudy.actors.stores.conversations import Fence
from understudy.actors.stores.store import Store
from understudy.actors.threads.slots import Slots
from understudy.actors.waiting.awaited import Merged, link_of_thing
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import Wait
from understudy.errors import RunError
from understudy.vocabulary.runs.memory import ConversationKey

from .claims import Claim
from .memory_actor import MemoryActor
from .persistent import PersistentMemory

Start: TypeAlias = Callable[[], object]


class ConversationUser(RunView, Protocol):
    """A run that may be in a conversation."""

    @property
    def root(self) -> str:
        """Id of the outermost run that it was begun in, or its own."""
        ...

    @property
    def lease(self) -> Lease | None:
        """Its claim to the conversation; None if it has none."""
        ...

    def must_not_wait(self, error: BaseException) -> None:
        """End the run with the error that says why it may not wait for its conversation."""
        ...


class ConversationGroup:
    """The runs of one root run that have a conversation together, or stand in line for it."""

    __slots__ = ("claim", "granted", "inside", "waiting")

    def __init__(self) -> None:
        self.claim: Claim | None = None
        """Asks the stores for the conversation after it is granted here; None if there is no store to ask."""
        self.granted = False
        self.inside: set[ConversationUser] = set()
        self.waiting: dict[ConversationUser, tuple[Start, Wait | None]] = {}
        """Run -> the function that starts it, and its wait in the graph; without a wait if the graph refused it, and it leaves."""


class ConversationQueue:
    """One conversation: who has it, who stands in line, and how much was stored. It lives while a run refers to it."""

    __slots__ = ("__weakref__", "groups", "holder", "key", "link", "lock", "slots", "stored", "wait")

    def __init__(self, key: ConversationKey, lock: threading.Lock) -> None:
        self.key = key
        self.lock = lock
        """Guards the line; the one of all conversations of the system."""
        self.slots: Slots[ConversationGroup] = Slots(1)
        self.groups: dict[str, ConversationGroup] = {}
        """Root's id -> its runs; of the one that has it, and of all in line."""
        self.holder: ConversationGroup | None = None
        self.link = link_of_thing(f"conversation {key.conversation}")
        """The conversation in the graph: runs in line wait for it, and it waits for the runs that have it."""
        self.wait: Wait | None = None
        """None while nobody stands in line."""
        self.stored = 0
        """Messages that were stored since the line was made."""

    @property
    def name(self) -> str:
        """Its name in statuses and errors."""
        return self.link.runner.id


class Lease:
    """A run's claim to its conversation, from its beginning to its end or pause.

    Attributes:
        line: the conversation.
        memory: the actor of the agent's memory; None for a group, which has the conversation for the runs inside.
        persistent: the memories in stores of the run, or of the runs inside of a group.
        was_saved: whether the run was loaded from text, and nobody counted what others stored meanwhile.
        came_between: how many messages others stored while the run was paused, if they were counted.
    """

    __slots__ = ("_left_at", "came_between", "line", "memory", "persistent", "was_saved")

    def __init__(
        self,
        line: ConversationQueue,
        memory: MemoryActor | None,
        was_saved: bool = False,
        persistent: Sequence[PersistentMemory] = (),
    ) -> None:
        self.line = line
        self.memory = memory
        self.persistent = persistent
        self.was_saved = was_saved
        self.came_between = 0
        self._left_at: int | None = None

    def begin(self) -> None:
        """Note that the conversation was granted."""
        if self._left_at is not None:
            self.came_between += self.line.stored - self._left_at

    def end(self) -> None:
        """Note that the conversation was given back."""
        self._left_at = self.line.stored

    def note_stored(self, messages: int) -> None:
        """Count what the run stored in its conversation."""
        with self.line.lock:
            self.line.stored += messages

    def fence(self, root: str, store: Store) -> Fence | None:
        """Return a check for appends, which raises if the root run has lost its conversation; None without a claim in the store."""
        group = self.line.groups.get(root)
        return None if group is None or group.claim is None else group.claim.fence(store)

    def renewed(self) -> Lease:
        """Return the lease with which the run goes on after a pause."""
        lease = Lease(self.line, self.memory, self.was_saved, self.persistent)
        lease.came_between, lease._left_at = self.came_between, self._left_at
        return lease


def let_in(record: ConversationUser, group: ConversationGroup) -> None:
    """Have a run take part in a conversation that its root has."""
    group.inside.add(record)
    if record.lease is not None:
        record.lease.begin()


def stand_in_line(
    record: ConversationUser, line: ConversationQueue, group: ConversationGroup, start: Start
) -> RunError | None:
    """Have a run wait for the conversation; returns why it must not."""
    group.waiting[record] = (start, None)
    if line.wait is None:
        await_holder(line)
    try:
        wait = graph.begin(record.link, line.link, record.scope)
    except RunError as error:
        return error
    group.waiting[record] = (start, wait)
    return None


def await_holder(line: ConversationQueue) -> None:
    """Tell the graph which runs the conversation waits for, if a run stands in line.

    That closes no cycle: no run stood in line before, or the runs that get the conversation have not begun.
    """
    before, line.wait = line.wait, None
    if any(group.waiting for group in line.groups.values()):
        inside = () if line.holder is None else line.holder.inside
        line.wait = graph.begin(line.link, Merged(_All(), [each.link for each in inside], any_will_do=False), None)
    if before is not None:
        graph.end(before)


class _All:
    """Stands for the runs that have a conversation, in the graph: it expects each of them."""

    def expects(self, place: int) -> bool:
        return True
