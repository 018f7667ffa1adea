"""Messages that no actor handled: how many, why, the last of them, and a few lines in the log."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from logging import WARNING

import pykka

from understudy.diagnostics import emit
from understudy.errors import AgentDown
from understudy.vocabulary.actors.system_events import DeadLetter, LostBecause


class ActorDead(AgentDown, pykka.ActorDeadError):
    """An actor takes no messages: it has stopped, is given up, or has no thread."""


ActorDead.__name__ = "AgentDown"  # error texts name the class that users catch


KEPT = 100  # Enough to see a pattern.
LOGGED = 10  # Enough lines to say what is wrong; a thousand would hide everything else.
QUIET = 300.0  # Seconds until the next lines.
LONGEST_NAME = 100  # A class may have any name.


class DeadLetters:
    """The dead letters of one system; any thread may bring one. Of each message only the name of its class is kept.

    Args:
        system: names the system in the log.
        clock: a monotonic clock in seconds, for the periods of the log.
    """

    def __init__(self, system: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._system = system
        self._clock = clock
        self._lock = threading.Lock()
        """Guards everything below; nothing is logged under it."""
        self._counts: dict[LostBecause, int] = {}
        self._last: deque[tuple[str, LostBecause, str, float]] = deque(maxlen=KEPT)
        self._quiet_until = 0.0
        self._logged = 0
        """Lines since the period began."""
        self._unlogged = 0
        """Letters of the period without a line."""

    def note(self, address: str, reason: LostBecause, message_type: str, at: float, *, answered: bool) -> None:
        """Count and keep a letter; log it, unless an error answers its sender, or there were many."""
        with self._lock:
            self._counts[reason] = self._counts.get(reason, 0) + 1
            self._last.append((address, reason, message_type, at))
            if answered:
                return
            missed = self._begin_period()
            number = self._logged = self._logged + 1
            if number > LOGGED:
                self._unlogged += 1
        self._log_missed(missed)
        if number <= LOGGED:
            more = f"; more are summed up after {QUIET:g} s" if number == LOGGED else ""
            values = {"actor": address, "message_type": message_type, "reason": reason}
            text = "%s: a message of type %s was lost (%s)%s"
            emit(WARNING, "dead_letter", values, text, address, message_type, reason, more)

    def _begin_period(self) -> int:
        """Begin another period if the last one is over; return how many letters of that one had no line."""
        now = self._clock()
        if now < self._quiet_until:
            return 0
        missed, self._unlogged, self._logged = self._unlogged, 0, 0
        self._quiet_until = now + QUIET
        return missed

    def sum_up(self) -> None:
        """Log how many letters had no line."""
        with self._lock:
            missed, self._unlogged = self._unlogged, 0
        self._log_missed(missed)

    def _log_missed(self, missed: int) -> None:
        if missed:
            text = "%s: %d more messages were lost; dead_letters() has the last ones"
            emit(WARNING, "dead_letters", {"count": missed}, text, self._system, missed)

    def last(self) -> tuple[DeadLetter, ...]:
        """Return the last `KEPT` letters, the oldest first."""
        with self._lock:
            kept = list(self._last)
        return tuple([DeadLetter(address=a, reason=r, message_type=m, at=at) for a, r, m, at in kept])

    def counts(self) -> dict[LostBecause, int]:
        """Return how many there were of each reason, since the beginning."""
        with self._lock:
            return dict(self._counts)


def type_name(message: object) -> str:
    """Return the name of an object's class, bounded; never raises."""
    try:
        return type(message).__qualname__[:LONGEST_NAME]
    except Exception:  # a metaclass may do anything
        return "?"
