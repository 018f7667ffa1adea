"""What comes to an actor besides its messages: commands of the runtime's, and messages of its own timers."""

from __future__ import annotations

from collections.abc import Callable

from .timers import Timer


class Command:
    """Something to do on the actor's own thread, and what follows."""

    __slots__ = ("do", "then")

    def __init__(self, do: Callable[[], object], then: Callable[[], object]) -> None:
        self.do = do
        self.then = then


class Timed:
    """A message of a timer's, which is not handled any more once the timer was cancelled."""

    __slots__ = ("message", "taken", "timer")

    def __init__(self, message: object, taken: Callable[[], None], timer: Timer) -> None:
        self.message = message
        self.taken = taken
        self.timer = timer


def nothing() -> None:
    """What follows where nothing does."""
