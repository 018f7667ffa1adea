"""The seats of an actor that handles several messages at once, and the line before them: who is in hand, and who is next.

Nothing here counts, tells or calls: each method says what became of messages, and `SeatedCell` acts on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import Generic, Protocol, TypeAlias, TypeVar

from understudy.vocabulary.actors.system_events import LostBecause

Lose: TypeAlias = Callable[[LostBecause], object]


class Seated(Protocol):
    """A message for a seat; compared by identity."""

    def __hash__(self) -> int: ...

    @property
    def begun(self) -> float:
        """When its turn began, on the monotonic clock."""
        ...


E = TypeVar("E", bound=Seated)


class Waiting:
    """A message in line: what begins its turn, what tells its sender that it has none, and until when it may wait."""

    __slots__ = ("due", "lose", "sent", "start")

    def __init__(self, start: Callable[[], object], lose: Lose, due: float | None) -> None:
        self.start = start
        self.lose = lose
        self.due = inf if due is None else due
        self.sent = time.monotonic()


class Seats(Generic[E]):
    """Seats and line of one actor. Safe to use from any thread.

    Args:
        seats: how many messages may be in hand at once; None for any number.
    """

    __slots__ = ("_closed", "_hung", "_line", "_lock", "_open", "high_water", "seats")

    def __init__(self, seats: int | None) -> None:
        self.seats = seats
        self._lock = threading.Lock()
        """Guards line and seats: a free seat goes to the first in line, or to the next message that comes."""
        self._open: dict[E, bool] = {}
        """The messages in hand that have not ended. Each change is one step of the interpreter, so it is safe without the lock."""
        self._hung: dict[E, bool] = {}
        """Those that were given up and hold their seats still."""
        self._line: dict[E, Waiting] = {}
        self._closed = False
        self.high_water = 0
        """The most messages that ever waited at once."""

    # --- coming

    def take_turn(self, message: E) -> bool:
        """Give a message a seat if the actor is idle, for a turn on this thread; else it is not accepted."""
        if self.seats is None:
            if self._closed:
                return False
            self._open[message] = True
            return True
        with self._lock:
            return self._seat(message)

    def _seat(self, message: E) -> bool:
        if self._closed or self._line or not self._is_free():
            return False
        self._open[message] = True
        return True

    def _is_free(self) -> bool:
        return self.seats is None or len(self._open) + len(self._hung) < self.seats

    def _all_hung(self) -> bool:
        """Whether turns that were given up hold all seats."""
        return self.seats is not None and len(self._hung) >= self.seats

    def _seat_or_queue(self, message: E, waiting: Waiting) -> tuple[bool, LostBecause | None]:
        """Return whether the message has a seat; if it has none and does not wait in line either, why."""
        with self._lock:
            if self._seat(message):
                return True, None
            if self._closed:
                return False, "stopped"
            if self._all_hung():
                return False, "given_up"
            self._line[message] = waiting
            self.high_water = max(self.high_water, len(self._line))
            return False, None

    # --- going

    def _stand_up(self, message: E) -> tuple[bool, bool]:
        """Free the seat of a message; return whether it had not ended before, and whether others wait for the seat."""
        with self._lock:
            in_time = self._open.pop(message, False)
            if not in_time:
                self._hung.pop(message, None)
            return in_time, bool(self._line)

    def _hang(self, message: E) -> dict[E, Waiting] | None:
        """Have a message keep its seat although it has ended; return who waits in vain now, None if it has no seat or hangs already."""
        with self._lock:
            if message not in self._open:
                return None
            self._hung[message] = (
                True  # first: its own thread may free the seat in this moment, and one of both must see the other
            )
            if not self._open.pop(message, False):
                self._hung.pop(message, None)
                return None
            if not self._all_hung():
                return {}
            lost, self._line = self._line, {}
            return lost

    def _leave_line(self, message: E) -> bool:
        with self._lock:
            return self._line.pop(message, None) is not None

    def _next(self) -> tuple[E, Waiting] | None:
        """Give a free seat to the first in line; None if there is no seat or nobody waits. Call it under the lock."""
        message = next(iter(self._line), None)
        if message is None or not self._is_free():
            return None
        self._open[message] = True
        return message, self._line.pop(message)

    def _take_out(self, due: float) -> dict[E, Waiting]:
        """Take those out of the line that may wait until `due` and no longer."""
        with self._lock:
            lost = {message: waiting for message, waiting in self._line.items() if waiting.due <= due}
            for message in lost:
                del self._line[message]
            return lost

    def _close(self) -> dict[E, Waiting]:
        """Accept nothing more; return who waited."""
        with self._lock:
            self._closed = True
            lost, self._line = self._line, {}
            return lost

    # --- looking

    @property
    def closed(self) -> bool:
        """Whether nothing more is accepted."""
        return self._closed

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._line)

    @property
    def hung(self) -> int:
        """How many turns were given up and have not come back."""
        return len(self._hung)

    @property
    def oldest_age(self) -> float:
        """Seconds since the message that has waited longest was sent; 0 if none waits."""
        oldest = min([waiting.sent for waiting in list(self._line.values())], default=inf)
        return 0.0 if oldest == inf else time.monotonic() - oldest

    @property
    def busy_since(self) -> float | None:
        """When the oldest turn in hand began, given up or not; None if there is none."""
        return min([message.begun for message in (*list(self._open), *list(self._hung))], default=None)

    def keep_waiting(self, message: E) -> list[E]:
        """Return the messages in hand that one in line waits for; none if it is not there, or a seat is free.

        Each of them can end the wait alone: those before it in line have not begun, and give back their seats.
        """
        with self._lock:
            return [*self._open, *self._hung] if message in self._line and not self._is_free() else []

    def has_in_line(self, message: E) -> bool:
        """Whether a message waits."""
        return message in self._line
