"""A message on its way, the ways in which it can end, and a mailbox: a system queue and a bounded user queue, under one lock."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, IntEnum, auto
from math import inf
from typing import Generic, Protocol, TypeVar

from understudy.actors.threads.promise import Promise
from understudy.vocabulary.actors.messages import DEFAULT_CAPACITY
from understudy.vocabulary.context.ancestry import ChainAndHops


class Behaviour(Protocol):
    """An object of the user or of the runtime that handles messages, one at a time."""

    def on_receive(self, message: object) -> object:
        """Handle one message; what it returns is the reply, what it raises is a failure."""
        ...


class Fate(IntEnum):
    """How a message ended."""

    HANDLED = 0
    FAILED = auto()
    EXPIRED = auto()
    CANCELLED = auto()
    DEAD = auto()


# Names of their own: to look up a member of an enum takes as long as to lock a mailbox.
HANDLED, FAILED, CANCELLED = Fate.HANDLED, Fate.FAILED, Fate.CANCELLED


class Envelope:
    """A message on its way: the promise of its reply, its deadline, and the context in which it is handled.

    `new_envelope` makes it: to call a class whose constructor is written in Python takes twice as long.
    """

    __slots__ = ("ancestry", "context", "deadline", "message", "on_lost", "promise", "sent")

    message: object
    promise: Promise[object] | None
    deadline: float | None
    context: contextvars.Context | None
    on_lost: Callable[[BaseException], object] | None
    sent: float
    ancestry: ChainAndHops | None
    """Entered in `context` when the message is handled; None if the context has its own."""


def new_envelope(
    message: object,
    promise: Promise[object] | None = None,
    deadline: float | None = None,
    context: contextvars.Context | None = None,
    on_lost: Callable[[BaseException], object] | None = None,
    sent: float | None = None,
    ancestry: ChainAndHops | None = None,
) -> Envelope:
    """Return a message that is sent now."""
    made = Envelope()
    made.message = message
    made.promise = promise
    made.deadline = deadline
    made.context = context
    made.on_lost = on_lost
    made.ancestry = ancestry
    made.sent = time.monotonic() if sent is None else sent
    return made


E = TypeVar("E")


class Put(Enum):
    """What became of an attempt to put."""

    WAKE = auto()
    """Accepted, and no thread runs the cell: the caller must have one run it."""
    QUEUED = auto()
    """Accepted; a thread runs the cell and comes to it."""
    FULL = auto()
    CLOSED = auto()


# Names of their own: to look up a member of an enum takes as long as to lock a mailbox.
WAKE, QUEUED, FULL, CLOSED = Put


class MailboxQueue(Generic[E]):
    """Messages in order, those of the system queue first. Whether a thread runs the cell is decided under the same lock."""

    __slots__ = (
        "_capacity",
        "_closed",
        "_lock",
        "_over",
        "_running",
        "_space",
        "_suspended",
        "_system",
        "_user",
        "_waiting",
        "high_water",
    )

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._lock = threading.Lock()
        """Guards everything: a put and a close, or a put and the last take, never miss each other."""
        self._system: deque[E] = deque()
        self._user: deque[E] = deque()
        self._capacity = capacity
        self._closed = False
        """Whether the user queue takes no more."""
        self._over = False
        """Whether the system queue takes no more either."""
        self._running = False
        self._suspended = False
        """Whether nothing is taken from the user queue, however full it is."""
        self._space: threading.Condition | None = None
        self._waiting = 0
        """How many threads wait for room in the user queue."""
        self.high_water = 0
        """The most messages that ever waited in the user queue."""

    def put(self, item: E, *, system: bool = False) -> Put:
        """Add `item`; the system queue is never full."""
        with self._lock:
            if self._closed and (self._over or not system):
                return CLOSED
            if system:
                self._system.append(item)
            elif len(self._user) >= self._capacity:
                return FULL
            else:
                self._user.append(item)
                if len(self._user) > self.high_water:  # noqa: PLR1730 (max is a call more for every message)
                    self.high_water = len(self._user)
                if self._suspended:
                    return QUEUED
            if self._running:
                return QUEUED
            self._running = True
            return WAKE

    def _accepted(self) -> Put:
        if self._running:
            return QUEUED
        self._running = True
        return WAKE

    def put_waiting(self, item: E, timeout: float) -> Put:
        """Add `item` to the user queue, waiting up to `timeout` seconds for room."""
        with self._lock:
            if self._space is None:
                self._space = threading.Condition(self._lock)
            self._waiting += 1
            try:
                room = self._space.wait_for(lambda: self._closed or len(self._user) < self._capacity, timeout)
            finally:
                self._waiting -= 1
            if self._closed:
                return CLOSED
            if not room:
                return FULL
            self._user.append(item)
            self.high_water = max(self.high_water, len(self._user))
            return QUEUED if self._suspended else self._accepted()

    def suspend(self) -> None:
        """Take nothing more from the user queue, unless the mailbox is closed; the system queue goes on."""
        with self._lock:
            self._suspended = not self._closed

    def resume(self) -> Put:
        """Take from the user queue again; `WAKE` if a thread must be had to run the cell."""
        with self._lock:
            self._suspended = False
            return self._accepted() if self._user or self._system else QUEUED

    def take(self) -> E | None:
        """Return the next item; after None, for which there is none, the caller does not run the cell any more.

        Only for threads of the pool: `with`, which takes twice as long, is needed where a Ctrl-C is raised, in the main thread,
        and where another lock is taken meanwhile: the check of the order of locks sees nothing else.
        """
        lock = self._lock
        lock.acquire()
        try:
            if self._system:
                return self._system.popleft()
            if self._user and not self._suspended:
                if self._waiting and self._space is not None:
                    self._space.notify()
                return self._user.popleft()
            self._running = False
            return None
        finally:
            lock.release()

    def take_out(self, which: Callable[[E], bool]) -> tuple[list[E], bool]:
        """Take items out of the user queue, wherever they stand in it.

        Returns:
            The items, and whether a thread runs the cell, which may have taken another one in this moment.
        """
        with self._lock:
            found = [item for item in self._user if which(item)]
            if found:
                self._user = deque([item for item in self._user if not which(item)])
                if self._space is not None:
                    self._space.notify_all()
            return found, self._running

    def close(self, last: E) -> Put:
        """Accept no more from users. Items that wait are still taken, and `last` after them. A second call returns `CLOSED`."""
        with self._lock:
            if self._closed:
                return CLOSED
            self._closed = True
            self._user.append(last)
            self._suspended = False  # the end is taken also while the actor has no object
            if self._space is not None:
                self._space.notify_all()
            return self._accepted()

    @property
    def closed(self) -> bool:
        """Whether nothing more is accepted from users."""
        return self._closed

    def oldest(self) -> E | None:
        """Return the message that has waited longest in the user queue."""
        with self._lock:
            return self._user[0] if self._user else None

    def least(self, key: Callable[[E], float]) -> float:
        """Return the least `key` of the items in the user queue; infinite if there are none."""
        with self._lock:
            return min(map(key, self._user), default=inf)

    def drain(self, *, close: bool) -> list[E]:
        """Take out all items and return them; no thread runs the cell then. With `close`, nothing more is accepted."""
        with self._lock:
            self._closed = self._closed or close
            self._over = self._over or close
            self._running = False
            left = [*self._system, *self._user]
            self._system.clear()
            self._user.clear()
            if self._space is not None:
                self._space.notify_all()
            return left

    def __len__(self) -> int:
        return len(self._system) + len(self._user)
