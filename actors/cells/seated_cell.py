"""A cell with seats: an actor that handles several messages at once, as many as it has seats.

A message takes a seat for its turn, on the thread of its sender or on a lent one. While all seats are taken, messages
wait in line, without a thread, and each free seat goes to the first of them. A cell without a number of seats has no
line, and a message enters it and leaves it without a lock.

The law is the one of `Cell`: every message ends in exactly one `Fate`. A turn that is given up ends as failed at that
moment, and keeps its seat until its thread comes back. While such turns hold all seats, no message is accepted.

First the seats and the line as data: nothing there counts, tells or calls. Each method says what became of messages, and
the cell acts on it.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from enum import Enum, auto
from itertools import count
from logging import ERROR
from math import inf
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

from understudy.actors.cells.dead_letters import ActorDead, type_name
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import HANDLED, Envelope, Fate
from understudy.actors.cells.pykka_cell import PykkaCell
from understudy.actors.threads.alarms import ring_at
from understudy.diagnostics import emit
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


FATES: dict[LostBecause, Fate] = {"expired": Fate.EXPIRED, "cancelled": Fate.CANCELLED}
"""How a message ends that has no turn; as dead for every other reason."""


class Entered(Enum):
    """What became of a message that came to a cell."""

    NOW = auto()
    """It has a seat: its turn may begin, on any thread."""
    LATER = auto()
    """It waits in line."""
    LOST = auto()
    """It was refused, and its sender was told."""


class SeatedCell(Seats[E], PykkaCell, Generic[E]):
    """One actor with seats. Safe to use from any thread; no callback runs under its lock.

    Args:
        address: its name, for errors, logs and `tree()`.
        seats: how many messages may be in hand at once; None for any number.
        events: where its dead letters go.
    """

    __slots__ = (
        "_counting",
        "_counts",
        "_events",
        "_handing_on",
        "_handled",
        "_look_at",
        "actor_urn",
        "restarts",
    )

    def __init__(self, address: str, seats: int | None, events: EventStream) -> None:
        super().__init__(seats)
        self.actor_urn = address
        self.restarts: int = 0
        """How often it was restarted after a failure."""
        self._events = events
        self._handing_on: dict[int, bool] = {}
        """Threads that begin turns of messages in line, in a loop, for each turn may be over at once."""
        self._look_at = inf
        """When an alarm rings for messages in line that are late by then; infinite if none is set."""
        self._counting = self._lock  # one for both: a count is never raised under it
        self._counts = [0] * len(Fate)
        self._handled = count()
        """Counts the handled messages: `next` is one step, also for several threads at once.

        A read of the counter counts too; their number stands in the place of `HANDLED` in `_counts`.
        """

    def count_on(self, before: SeatedCell[E]) -> None:
        """Count where another cell counts: the one before it at the same address, whose turns may go on."""
        self._counting, self._counts = before._counting, before._counts
        self._handled = before._handled
        self.restarts = before.restarts + 1

    def enter(self, message: E, start: Callable[[], object], lose: Lose, due: float | None = None) -> Entered:
        """Give a message a seat, now or when its turn comes.

        Args:
            message: compared by identity; `leave` ends its turn.
            start: called once, if the result is `LATER`, when it has a seat; on the thread that gave the seat back.
            lose: called instead, with the reason, if it never has a turn. Never for a message that `withdraw` takes out.
            due: until when it may wait in line, on the monotonic clock; None for any time.
        """
        has_seat, refused = self._seat_or_queue(message, Waiting(start, lose, due))
        if has_seat:
            return Entered.NOW
        if refused is not None:
            self._lose(message, lose, refused)
            return Entered.LOST
        if due is not None:
            self._look_before(due)
        return Entered.LATER

    def leave(self, message: E, fate: Fate = HANDLED) -> None:
        """End the turn of a message, and give its seat to the first in line. One that was given up has ended before."""
        if self.seats is None:  # most tools, in as few steps as there are
            if not self._open.pop(message, False):
                self._hung.pop(message, None)
            elif fate is HANDLED:
                next(self._handled)
            else:
                self._end(message, fate)
            return
        in_time, others_wait = self._stand_up(message)
        if in_time:
            self._end(message, fate)
        if others_wait:
            self._start_actor_loop()

    def withdraw(self, message: E) -> bool:
        """Take a message out of the line, because its sender has given it up; False if it is not there."""
        found = self._leave_line(message)
        if found:
            self._end(message, Fate.CANCELLED)
        return found

    def give_up(self, message: E) -> None:
        """Wait for the turn of a message no longer: it has failed, and keeps its seat until its thread comes back."""
        lost = self._hang(message)
        if lost is not None:
            self._end(message, Fate.FAILED)
            self._lose_all(lost, "given_up")

    def stop(self) -> None:
        """Accept nothing more, and lose the messages in line; turns go on. A second call does nothing."""
        self._lose_all(self._close(), "stopped")

    # --- for Pykka's own code, which can stop the actor, and has no message for it

    accepts: ClassVar[str] = "nothing"
    """Which messages it takes, in words."""

    def has_stopped(self, within: float | None) -> bool:
        """Whether it has stopped. It stops at once, whatever turns go on."""
        return self.closed

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self.depth

    def _admit(self, envelope: Envelope) -> None:
        """Refuse a message: one for a seat comes by `take_turn` or `enter`, which say where its turn is taken."""
        promise, name = envelope.promise, type_name(envelope.message)
        if self.closed:
            reason: LostBecause = "stopped"
            error: Exception = ActorDead(f"{self.address} has stopped", actor=self.address)
        else:
            reason, error = "not_accepted", TypeError(f"{self.address} takes {self.accepts}, got {name}")
        self._count(Fate.DEAD)
        try:
            self._events.note_dead_letter(self.address, reason, envelope.message, answered=promise is not None)
        finally:
            if promise is not None:
                promise.fail(error)

    def give_up_hung(self) -> None:
        """Give up the turns that have taken too long by now, if the actor looks after that itself."""

    @property
    def state(self) -> str:
        """Whether it takes messages, in a word."""
        return "stopped" if self.closed else "running"

    # --- handing seats on

    def _start_actor_loop(self) -> None:
        """Begin the turns of messages in line for as long as there are seats, unless this thread is at it further out."""
        me = threading.get_ident()
        with self._lock:
            if me in self._handing_on:
                return
            self._handing_on[me] = True
        while (following := self._next_for(me)) is not None:
            message, waiting = following
            try:
                waiting.start()
            except BaseException:  # the next one begins all the same
                text = "%s: a message that waited could not begin"
                emit(ERROR, "message_not_begun", {"actor": self.address}, text, self.address, exc_info=True)
                if self._stand_up(message)[0]:
                    self._lose(message, waiting.lose, "no_thread")

    def _next_for(self, me: int) -> tuple[E, Waiting] | None:
        with self._lock:
            following = self._next()
            if following is None:
                self._handing_on.pop(me, None)
            return following

    # --- messages whose time is over in line

    def _look_before(self, due: float) -> None:
        """Have an alarm ring no later than `due`; without a thread for it, no message waits that has an end to its time."""
        with self._lock:
            if due >= self._look_at:
                return
            self._look_at = due
        try:
            ring_at(due, self.expire)
        except RuntimeError:
            self._look_at = inf
            self._lose_all(self._take_out(sys.float_info.max), "no_thread")

    def expire(self) -> None:
        """Lose the messages in line whose time is over, and look again when the next one is due."""
        self._look_at = inf
        self._lose_all(self._take_out(time.monotonic()), "expired")
        with self._lock:
            following = min([waiting.due for waiting in self._line.values()], default=inf)
        if following < inf:
            self._look_before(following)

    # --- how a message ends

    def _lose_all(self, lost: dict[E, Waiting], reason: LostBecause) -> None:
        for message, waiting in lost.items():
            self._lose(message, waiting.lose, reason)

    def _lose(self, message: E, lose: Lose, reason: LostBecause) -> None:
        self._end(message, FATES.get(reason, Fate.DEAD), reason)
        try:
            lose(reason)
        except BaseException:  # others are told all the same
            text = "%s: what was to be done about a lost message failed"
            emit(ERROR, "lost_message_hook_failed", {"actor": self.address}, text, self.address, exc_info=True)

    def _end(self, message: E, fate: Fate, reason: LostBecause | None = None) -> None:
        """Count the end of a message. The caller has taken it out of line or seats, so nobody else ends it."""
        if fate is HANDLED:
            next(self._handled)
            return
        self._count(fate)
        if fate is not Fate.FAILED:
            because = reason or ("cancelled" if fate is Fate.CANCELLED else "no_thread")
            self._events.note_dead_letter(self.address, because, self._content(message), answered=True)

    def _content(self, message: E) -> object:
        """Return the message of a user that a dead letter is named after."""
        return message

    @property
    def counts(self) -> dict[Fate, int]:
        """How many messages ended in which way."""
        counts = super().counts
        with self._counting:
            counts[HANDLED] = next(self._handled) - self._counts[HANDLED]
            self._counts[HANDLED] += 1
        return counts


M = TypeVar("M", bound=Seated)


class Addresses(Generic[M]):
    """Cells by address. An address is free again when its cell is gone. Its owner guards it with a lock.

    Args:
        prefix: what the addresses begin with, such as "shop/tools".
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._cells: weakref.WeakValueDictionary[str, SeatedCell[M]] = weakref.WeakValueDictionary()
        self._numbers: dict[str, count[int]] = {}
        """Name -> what to try next behind it."""
        self._closed = False

    def free(self, name: str) -> str:
        """Return an address for a name, with a number behind it if another cell has the name."""
        address = f"{self._prefix}/{name}"
        if address not in self._cells:
            return address
        numbers = self._numbers.setdefault(name, count(2))
        tries = (f"{address}-{number}" for number in numbers)
        return next(each for each in tries if each not in self._cells)

    def add(self, cell: SeatedCell[M]) -> None:
        """Note a new cell, which takes the place of one before it at its address; it is stopped if the system is."""
        self._cells[cell.address] = cell
        if self._closed:
            cell.stop()

    def close(self) -> list[SeatedCell[M]]:
        """Return all cells, for their owner to stop them; those that come later are stopped at once."""
        self._closed = True
        return list(self._cells.values())
