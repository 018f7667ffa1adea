"""Messages of the runtime to an actor: commands, and the messages of its timers."""

from __future__ import annotations

import time
from collections.abc import Callable

from understudy.actors.threads.alarms import Alarm, ring_at


class Timer:
    """Sends a message once, or again and again; safe to cancel from any thread.

    Args:
        send: sends the message of this timer; its second argument is called when the actor takes the message.
        first: seconds until the first message.
        period: seconds from taking one message to sending the next; None sends one.
    """

    __slots__ = ("_alarm", "_cancelled", "_period", "_send")

    def __init__(self, send: Callable[[Timer, Callable[[], None]], object], first: float, period: float | None) -> None:
        self._send = send
        self._period = period
        self._cancelled = False
        self._alarm: Alarm = ring_at(time.monotonic() + first, self._ring)

    def cancel(self) -> None:
        """Send no more; a message that was sent already may still come."""
        self._cancelled = True
        self._alarm.call_off()

    @property
    def is_active(self) -> bool:
        """Whether it will send a message."""
        return not self._cancelled

    def _ring(self) -> None:
        if self._cancelled:
            return
        if self._period is None:
            self._cancelled = True
        self._send(self, self._taken)

    def _taken(self) -> None:
        if self._period is not None and not self._cancelled:
            self._alarm = ring_at(time.monotonic() + self._period, self._ring)


class Command:
    """Something to do on the actor's own thread, and a callback."""

    __slots__ = ("do", "on_done")

    def __init__(self, do: Callable[[], object], on_done: Callable[[], object]) -> None:
        self.do = do
        self.on_done = on_done


class Timed:
    """A message of a timer; it is not handled once the timer was cancelled."""

    __slots__ = ("message", "taken", "timer")

    def __init__(self, message: object, taken: Callable[[], None], timer: Timer) -> None:
        self.message = message
        self.taken = taken
        self.timer = timer


def nothing() -> None:
    """Do nothing: a callback for those who need none."""
