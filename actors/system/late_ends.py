"""Ends of runs that were ended from outside: a lent thread notes them, and a system that stops waits for that, as does the process."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.run_elsewhere import run_elsewhere

AT_EXIT = 5.0  # Seconds for which the end of the process waits: a run whose end is not noted goes on in the next one.


class LateEnds:
    """Notes the ends of runs that are over. Safe to use from any thread."""

    __slots__ = ("_is_left", "_under_way")

    def __init__(self) -> None:
        self._under_way: set[threading.Event] = set()
        self._is_left = threading.Event()
        """Set when nobody waits for them any more."""

    def begin(self, note: Callable[[], object]) -> None:
        """Have the end of a run noted by `note`, which does not raise; returns at once."""
        noted = threading.Event()
        self._under_way.add(noted)
        _all.add(noted)
        # Again: the last one registered is called first, while the store is still open.
        atexit.unregister(_wait_for_all)
        atexit.register(_wait_for_all)
        run_elsewhere(partial(self._note, note, noted))

    def _note(self, note: Callable[[], object], noted: threading.Event) -> None:
        note()
        self._under_way.discard(noted)
        _all.discard(noted)
        noted.set()

    def wait(self, deadline: float) -> None:
        """Wait for all that are under way, until a moment on the monotonic clock."""
        _wait(self._under_way, deadline)

    def leave(self) -> None:
        """Have no end that a store did not take tried again: the system has stopped."""
        self._is_left.set()

    def pause(self, seconds: float) -> bool:
        """Wait before an end is tried again; False if it is not to be."""
        return not self._is_left.wait(seconds)


def _wait(given: Iterable[threading.Event], deadline: float) -> None:
    for noted in list(given):
        noted.wait(max(0.0, deadline - time.monotonic()))


_all: set[threading.Event] = set()
"""Those of all systems of this process."""


def _wait_for_all() -> None:
    _wait(_all, time.monotonic() + AT_EXIT)


at_fork(Stage.SYSTEMS, _all.clear)
