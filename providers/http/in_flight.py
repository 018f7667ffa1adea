"""Limits the calls in flight: a fixed number of slots, granted first come, first served."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

from understudy.errors import RunTimedOut
from understudy.vocabulary.context.scope import Scope, current_scope

from .forks import renew_after_fork


class InFlight:
    """A limit of calls in flight, for one client or for several that share a key; safe to share between threads.

    Args:
        most: how many calls may be in flight at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._slots = _Slots(self.most)

    @contextmanager
    def slot(self) -> Generator[bool]:
        """Wait in the queue for a slot, and hold it until the block ends. Yields whether the call had to wait.

        Raises:
            RunCancelled: the current scope was cancelled while waiting; raised at once.
            RunTimedOut: its deadline passed while waiting.
        """
        slots = self._slots  # kept for `finally`: a forked child has new slots
        waited = slots.take(current_scope())
        try:
            yield waited
        finally:
            slots.give_back()

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self.most - self._slots.free

    @property
    def waiting(self) -> int:
        """The number of calls waiting for a slot."""
        return len(self._slots.queue)


class _Waiter:
    """A call in the queue."""

    __slots__ = ("has_slot", "woken")

    def __init__(self) -> None:
        self.has_slot = False
        self.woken = threading.Event()
        """Set when a slot is there, or the scope was cancelled."""


class _Slots:
    """The slots of one process. A freed slot goes directly to the first waiter, so a later call cannot overtake it."""

    def __init__(self, free: int) -> None:
        self.free = free
        """Free slots; above 0 only while the queue is empty."""
        self.queue: deque[_Waiter] = deque()
        self._most = free
        self._lock = threading.Lock()
        """Guards the number, the queue and what each waiter has."""

    def take(self, scope: Scope | None) -> bool:
        """Take a slot; return whether the call had to wait."""
        with self._lock:
            if self.free:
                self.free -= 1
                return False
            waiter = _Waiter()
            self.queue.append(waiter)
        try:
            self._wait(waiter, scope)
        except BaseException:
            self._leave(waiter)
            raise
        return True

    def give_back(self) -> None:
        with self._lock:
            if not self.queue:
                self.free += 1
                return
            waiter = self.queue.popleft()
            waiter.has_slot = True
        waiter.woken.set()

    def _wait(self, waiter: _Waiter, scope: Scope | None) -> None:
        if scope is None:
            waiter.woken.wait()
            return
        remove = scope.on_cancel_at_once(waiter.woken.set)
        try:
            while not waiter.has_slot:
                left = scope.remaining()
                if left == 0.0 and not scope.cancelled:
                    raise RunTimedOut(f"the deadline passed while all {self._most} calls that may be in flight were")
                scope.check()
                waiter.woken.wait(threading.TIMEOUT_MAX if left is None else min(left, threading.TIMEOUT_MAX))
        finally:
            remove()

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the queue; if a slot was granted at the same moment, pass it on."""
        with self._lock:
            if not waiter.has_slot:
                self.queue.remove(waiter)
                return
        self.give_back()
