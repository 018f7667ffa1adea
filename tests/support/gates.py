"""What holds a thread until the test lets it go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tests.support.scripts import WAIT

V = TypeVar("V")


class Gate:
    """Blocks its callers until it is opened."""

    def __init__(self) -> None:
        self.entered, self._opened = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self.entered.set()
        assert self._opened.wait(WAIT)

    def open(self) -> None:
        """Release all callers, and block no later one."""
        self._opened.set()

    def then(self, value: V) -> Callable[[object], V]:
        """Return a function that returns a value once the gate is open: a model's answer, a message to an actor."""

        def wait(_: object = None) -> V:
            self()
            return value

        return wait
