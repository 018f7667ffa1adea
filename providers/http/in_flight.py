"""Limits the calls in flight: a fixed number of slots, granted first come, first served."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf

from understudy.errors import ProviderTimeout, RunTimedOut
from understudy.vocabulary.context.scope import Scope, current_scope

from .forks import renew_after_fork

DEFAULT_IN_FLIGHT = 256  # More than the rate limits of most keys allow; more calls only pile up threads and sockets.


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
        self.slots = Slots(self.most)

    def resize(self, most: int) -> None:
        """Change how many calls may be in flight; the caller holds the lock of the slots.

        Calls beyond a smaller number go on; the next ones wait for them.
        """
        more, self.most = most - self.most, most
        self.slots.add(more)

    @contextmanager
    def slot(self) -> Generator[bool]:
        """Wait in the queue for a slot, and hold it until the block ends. Yields whether the call had to wait.

        Raises:
            RunCancelled: the current scope was cancelled while waiting; raised at once.
            RunTimedOut: its deadline passed while waiting.
        """
        slots = self.slots  # kept for `finally`: a forked child has new slots
        waited = slots.take()
        try:
            yield waited
        finally:
            slots.give_back()

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self.slots.most - self.slots.free

    @property
    def waiting(self) -> int:
        """The number of calls waiting for a slot."""
        return len(self.slots.queue)


class _Waiter:
    """A call in the queue."""

    __slots__ = ("has_slot", "woken")

    def __init__(self) -> None:
        self.has_slot = False
        self.woken = threading.Event()
        """Set when a slot is there, or the scope was cancelled."""


class Slots:
    """The slots of one process. A freed slot goes directly to the first waiter, so a later call cannot overtake it.

    Attributes:
        lock: guards the number, the queue and what each waiter has. A thread may take it again: a garbage collection
            inside of it may close the generator of a stream, whose call ends then.
    """

    def __init__(self, free: int) -> None:
        self.free = free
        """Free slots; above 0 only while the queue is empty, and below 0 after their number was made smaller."""
        self.queue: deque[_Waiter] = deque()
        self.most = free
        self.lock = threading.RLock()

    def take(self, until: float = inf, clock: Callable[[], float] = time.monotonic) -> bool:
        """Take a slot; return whether the call had to wait, within the current scope.

        `until` is when the call must end, on the clock.
        """
        with self.lock:
            if self.free > 0:
                self.free -= 1
                return False
            waiter = _Waiter()
            self.queue.append(waiter)
        try:
            self._wait(waiter, current_scope(), until, clock)
        except BaseException:
            self._leave(waiter)
            raise
        return True

    def give_back(self) -> None:
        with self.lock:
            self.put_back()

    def put_back(self) -> None:
        """Give a slot back; the caller holds the lock."""
        self.free += 1
        if self.queue:
            self.hand_out()

    def add(self, more: int) -> None:
        """Add slots; a negative number takes some away, in use or not. The caller holds the lock."""
        self.most += more
        self.free += more
        self.hand_out()

    def hand_out(self) -> None:
        """Give the free slots to those who wait. The caller holds the lock."""
        while self.free > 0 and self.queue:
            waiter = self.queue.popleft()
            waiter.has_slot = True
            self.free -= 1
            waiter.woken.set()

    def _wait(self, waiter: _Waiter, scope: Scope | None, until: float, clock: Callable[[], float]) -> None:
        remove = None if scope is None else scope.on_cancel_at_once(waiter.woken.set)
        waited = -inf
        try:
            while not waiter.has_slot:
                now = max(clock(), waited)
                left = self._left(scope, until - now)
                if not waiter.woken.wait(left):
                    waited = now + left  # a clock of a test may stand still
        finally:
            if remove is not None:
                remove()

    def _left(self, scope: Scope | None, left: float) -> float:
        """Return the seconds a call may still wait, of the `left` that it has itself; raises if there are none."""
        if scope is not None:
            remaining = scope.remaining()
            if remaining == 0.0 and not scope.cancelled:
                raise RunTimedOut(f"the deadline passed while all {self.most} calls that may be in flight were")
            scope.check()
            left = left if remaining is None else min(left, remaining)
        if left <= 0.0:
            raise ProviderTimeout(f"the call had no time left while all {self.most} calls that may be in flight were")
        return min(left, threading.TIMEOUT_MAX)

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the queue; if a slot was granted at the same moment, pass it on."""
        with self.lock:
            if not waiter.has_slot:
                self.queue.remove(waiter)
                return
        self.give_back()
