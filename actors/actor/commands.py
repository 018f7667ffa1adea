"""Messages of the runtime to an actor: commands, and the messages of its timers."""

from __future__ import annotations

from collections.abc import Callable

from .timers import Timer


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
