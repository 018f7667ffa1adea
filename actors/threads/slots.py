"""Slots, such as the places of `max_runs`: as many holders are there at once, and the others are queued without a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum, auto
from logging import ERROR
from typing import Generic, Protocol, TypeVar

from understudy.diagnostics import emit


class Holder(Protocol):
    """What may hold a slot, such as a run; compared by identity."""

    def __hash__(self) -> int: ...


H = TypeVar("H", bound=Holder)


class Taken(Enum):
    """The result of an attempt to take a slot."""

    NOW = auto()
    LATER = auto()


class Slots(Generic[H]):
    """A number of slots and their queue. Safe to use from any thread; no callback runs under the lock.

    Args:
        limit: how many may hold a slot at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        """Guards everything below: a slot that becomes free goes to the first in the queue, or to the next that comes."""
        self._holders: set[H] = set()
        self._handing_over: set[int] = set()
        """Threads that start those in the queue, in a loop, for each start may give its slot back at once."""
        self._queue: dict[H, Callable[[], object]] = {}
        """Who waits -> the function that starts it; first come, first served."""

    def take(self, holder: H, start: Callable[[], object]) -> Taken:
        """Take a slot for `holder`; `release` gives it back.

        Args:
            holder: what is to have it.
            start: called once, if the result is `LATER`, when a slot is free; on the thread that gave it back.
        """
        with self._lock:
            if len(self._holders) < self._limit:
                self._holders.add(holder)
                return Taken.NOW
            self._queue[holder] = start
            return Taken.LATER

    def release(self, holder: H) -> None:
        """Give back the slot of a holder, or take it out of the queue."""
        me = threading.get_ident()
        with self._lock:
            self._queue.pop(holder, None)
            self._holders.discard(holder)
            if me in self._handing_over:  # called inside of a `start` below, whose loop goes on
                return
            self._handing_over.add(me)
        while (start := self._next(me)) is not None:
            try:
                start()
            except BaseException:  # the next one is started all the same
                emit(ERROR, "slot_not_used", {}, "what waited for a slot could not be started", exc_info=True)

    def _next(self, me: int) -> Callable[[], object] | None:
        """Give a free slot to the first in the queue and return its `start`; None if nobody waits, or no slot is free."""
        with self._lock:
            following = next(iter(self._queue), None)
            if following is None or len(self._holders) >= self._limit:
                self._handing_over.discard(me)
                return None
            self._holders.add(following)
            return self._queue.pop(following)

    def keep_waiting(self, member: H) -> list[H]:
        """Return the holders of the slots that one in the queue waits for; none if it is not queued, or a slot is free.

        Each of them can end the wait alone: those before it in the queue have not begun, and give back their slots.
        """
        with self._lock:
            return list(self._holders) if member in self._queue and len(self._holders) >= self._limit else []

    def has_in_line(self, member: H) -> bool:
        """Whether one is queued."""
        return member in self._queue
