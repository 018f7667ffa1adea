"""Slots, such as those of a tool with `max_parallel`: as many calls run at once, and the others are queued without a thread.

A call that was given up keeps its slot for as long as it runs, for it still uses the resource that the limit protects. When
such calls hold all slots, no slot may ever be free again, so other calls are refused at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar


class Holder(Protocol):
    """A call that may hold a slot; compared by identity."""

    def __hash__(self) -> int: ...


H = TypeVar("H", bound=Holder)
log = logging.getLogger("understudy")


class Taken(Enum):
    """The result of an attempt to take a slot."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()
    """Calls that were given up hold all slots."""


class Slots(Generic[H]):
    """The slots of one tool in one system. Safe to use from any thread; no callback runs under the lock.

    Args:
        limit: how many calls may run at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        """Guards everything below: a slot that becomes free goes to the first call in the queue, or to the next that comes."""
        self._holders: set[H] = set()
        self._hung: set[H] = set()
        """The holders that were given up."""
        self._handing_over: set[int] = set()
        """Threads that start queued calls, in a loop, for each start may give its slot back at once."""
        self._queue: dict[H, tuple[Callable[[], object], Callable[[], object]]] = {}
        """Call -> the function that starts it, and the one that refuses it; first come, first served."""

    def take(self, call: H, start: Callable[[], object], refuse: Callable[[], object]) -> Taken:
        """Take a slot for `call`.

        Args:
            call: the call that takes it; `release` gives it back.
            start: called once, if the result is `LATER`, when a slot is free; on the thread that gave it back.
            refuse: called instead of `start` if calls that were given up come to hold all slots.
        """
        with self._lock:
            if len(self._holders) < self._limit:
                self._holders.add(call)
                return Taken.NOW
            if len(self._hung) >= self._limit:
                return Taken.NEVER
            self._queue[call] = (start, refuse)
            return Taken.LATER

    def take_now(self, call: H) -> bool:
        """Take a slot for `call` if one is free; return whether it did. The call is not queued."""
        with self._lock:
            if len(self._holders) >= self._limit:
                return False
            self._holders.add(call)
            return True

    def leave(self, call: H) -> bool:
        """Take a call out of the queue; False if it is not queued."""
        with self._lock:
            return self._queue.pop(call, None) is not None

    def release(self, call: H) -> None:
        """Give back the slot of a call that has ended, or take the call out of the queue."""
        me = threading.get_ident()
        with self._lock:
            self._queue.pop(call, None)
            self._holders.discard(call)
            self._hung.discard(call)
            if me in self._handing_over:  # called inside of a `start` below, whose loop goes on
                return
            self._handing_over.add(me)
        while (start := self._next(me)) is not None:
            try:
                start()
            except BaseException:  # the next call is started all the same
                log.exception("a call that waited for a slot could not be started")

    def _next(self, me: int) -> Callable[[], object] | None:
        """Give a free slot to the first queued call and return its `start`; None if no call is queued, or no slot is free."""
        with self._lock:
            following = next(iter(self._queue), None)
            if following is None or len(self._holders) >= self._limit:
                self._handing_over.discard(me)
                return None
            self._holders.add(following)
            start, _ = self._queue.pop(following)
            return start

    def give_up(self, call: H) -> None:
        """Note that a call was given up: it runs on, and keeps its slot."""
        with self._lock:
            if call not in self._holders:
                return
            self._hung.add(call)
            if len(self._hung) < self._limit:
                return
            refused, self._queue = self._queue, {}
        for _, refuse in refused.values():
            refuse()

    def keep_waiting(self, call: H) -> list[H]:
        """Return the holders of the slots that a queued call waits for; none if it is not queued, or a slot is free.

        Each of them can end the wait alone: the calls before it in the queue have not begun, and give back their slots.
        """
        with self._lock:
            return list(self._holders) if call in self._queue and len(self._holders) >= self._limit else []

    def has_in_line(self, call: H) -> bool:
        """Whether a call is queued."""
        return call in self._queue

    @property
    def hung(self) -> int:
        """How many slots calls hold that were given up."""
        return len(self._hung)
