"""Session values of runs that were ended from outside: a lent thread stores them, and a system that stops waits for that."""

from __future__ import annotations

import threading
import time
from functools import partial

from understudy.actors.run_view.errors import safely
from understudy.actors.runs.record import RunRecord
from understudy.actors.threads.run_elsewhere import run_elsewhere


class LateSaves:
    """Stores the session values of runs that are over. Safe to use from any thread."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: set[threading.Event] = set()

    def begin(self, record: RunRecord) -> None:
        """Have the values of a run stored, except those that other runs changed meanwhile; returns at once."""
        stored = threading.Event()
        self._under_way.add(stored)
        run_elsewhere(partial(self._save, record, stored))

    def _save(self, record: RunRecord, stored: threading.Event) -> None:
        safely(record, partial(record.save_session, yields=True))
        self._under_way.discard(stored)
        stored.set()

    def wait(self, deadline: float) -> None:
        """Wait for all that are under way, until a moment on the monotonic clock."""
        for stored in list(self._under_way):
            stored.wait(max(0.0, deadline - time.monotonic()))
