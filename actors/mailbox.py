"""A mailbox: two lanes, one of them bounded, closed under the lock that puts."""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum, auto
from typing import Generic, TypeVar

E = TypeVar("E")

DEFAULT_CAPACITY = 1000  # Room for a burst; more waiting messages mean that someone must hear of it.


class Put(Enum):
    """What became of an attempt to put."""

    WAKE = auto()
    """Accepted, and nobody runs the cell: the one who put it must see to that."""
    QUEUED = auto()
    """Accepted; whoever runs the cell will come to it."""
    FULL = auto()
    CLOSED = auto()


class Mailbox(Generic[E]):
    """Messages in order, system lane first. Whether someone runs the cell is decided under the same lock."""

    __slots__ = ("_capacity", "_closed", "_lock", "_running", "_system", "_user")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._lock = threading.Lock()
        """Guards everything: a put and a close, or a put and the last take, never miss each other."""
        self._system: deque[E] = deque()
        self._user: deque[E] = deque()
        self._capacity = capacity
        self._closed = False
        self._running = False

    def put(self, item: E, *, system: bool = False) -> Put:
        """Add `item`; the system lane is never full."""
        with self._lock:
            if self._closed:
                return Put.CLOSED
            if system:
                self._system.append(item)
            elif len(self._user) >= self._capacity:
                return Put.FULL
            else:
                self._user.append(item)
            if self._running:
                return Put.QUEUED
            self._running = True
            return Put.WAKE

    def take(self) -> E | None:
        """Return the next item; None means that there is none and the caller no longer runs the cell."""
        with self._lock:
            if self._system:
                return self._system.popleft()
            if self._user:
                return self._user.popleft()
            self._running = False
            return None

    def drain(self, *, close: bool) -> list[E]:
        """Return what was waiting; nobody runs the cell now. With `close`, nothing more is accepted."""
        with self._lock:
            self._closed = self._closed or close
            self._running = False
            left = [*self._system, *self._user]
            self._system.clear()
            self._user.clear()
            return left

    def __len__(self) -> int:
        return len(self._system) + len(self._user)
