"""The slots of a tool that says `max_parallel`: so many of its calls run at once, and the others wait without a thread.

A call that was given up keeps its slot for as long as it runs: what the limit protects is still in use. When such calls
hold all slots, nobody can say when one will be free, so whoever wants one is refused at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar


class Holder(Protocol):
    """A call that may hold a slot; told apart by object."""

    def __hash__(self) -> int: ...


H = TypeVar("H", bound=Holder)
log = logging.getLogger("understudy")


class Taken(Enum):
    """What became of an attempt to take a slot."""

    NOW = auto()
    LATER = auto()
    NEVER = auto()
    """Calls that were given up hold all slots."""


class Slots(Generic[H]):
    """The slots of one tool in one system. Safe to use from any thread; nothing of the caller's runs under the lock.

    Args:
        limit: how many calls may run at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        """Guards everything below: a slot that becomes free goes to the first in line, or to who comes next."""
        self._holders: set[H] = set()
        self._hung: set[H] = set()
        """Of the holders, those that were given up."""
        self._handing_over: set[int] = set()
        """Threads that are at starting others: a loop, for each start may give its slot back at once."""
        self._line: dict[H, tuple[Callable[[], object], Callable[[], object]]] = {}
        """In order: first come, first served. Call -> what starts it, and what refuses it."""

    def take(self, call: H, start: Callable[[], object], refuse: Callable[[], object]) -> Taken:
        """Take a slot for `call`.

        Args:
            call: who takes it; `release` gives it back.
            start: called once, if the answer is `LATER`, when there is a slot; on the thread that gave it back.
            refuse: called instead if calls that were given up come to hold all slots.
        """
        with self._lock:
            if len(self._holders) < self._limit:
                self._holders.add(call)
                return Taken.NOW
            if len(self._hung) >= self._limit:
                return Taken.NEVER
            self._line[call] = (start, refuse)
            return Taken.LATER

    def take_now(self, call: H) -> bool:
        """Take a slot for `call` if there is one; does not stand in line."""
        with self._lock:
            if len(self._holders) >= self._limit:
                return False
            self._holders.add(call)
            return True

    def leave(self, call: H) -> bool:
        """Take a call out of the line; False if it does not stand there, because it holds a slot or never wanted one."""
        with self._lock:
            return self._line.pop(call, None) is not None

    def release(self, call: H) -> None:
        """Give back the slot of a call that runs no more, or take it out of the line."""
        me = threading.get_ident()
        with self._lock:
            self._line.pop(call, None)
            self._holders.discard(call)
            self._hung.discard(call)
            if me in self._handing_over:  # inside of a start that failed at once; this thread goes on below
                return
            self._handing_over.add(me)
        while (start := self._next(me)) is not None:
            try:
                start()
            except BaseException:  # one that cannot be started keeps nobody else from it
                log.exception("what waited for a slot could not be started")

    def _next(self, me: int) -> Callable[[], object] | None:
        """Give a free slot to the first in line, and return what starts it; None if there is nobody, or no slot."""
        with self._lock:
            following = next(iter(self._line), None)
            if following is None or len(self._holders) >= self._limit:
                self._handing_over.discard(me)
                return None
            self._holders.add(following)
            start, _ = self._line.pop(following)
            return start

    def give_up(self, call: H) -> None:
        """Note that nobody waits for a call any more, which runs and keeps its slot."""
        with self._lock:
            if call not in self._holders:
                return
            self._hung.add(call)
            if len(self._hung) < self._limit:
                return
            refused, self._line = self._line, {}
        for _, refuse in refused.values():
            refuse()

    def keep_waiting(self, call: H) -> list[H]:
        """Return who holds the slots that a call in line waits for, as of now; nobody if it stands in no line or one is free.

        Each of them can end the wait alone: those before it in line have not begun, and give back what they get.
        """
        with self._lock:
            return list(self._holders) if call in self._line and len(self._holders) >= self._limit else []

    def has_in_line(self, call: H) -> bool:
        """Whether a call stands in line."""
        return call in self._line

    @property
    def hung(self) -> int:
        """How many slots are held by calls that were given up."""
        return len(self._hung)
