"""The watchdog: one thread that looks at the deadlines of the runs in flight, so that no run needs a timer of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf

from .record import Record

TICK = 0.02  # Seconds between looks; how late a deadline may be noticed.
LINGER = 5.0  # Seconds it goes on ticking after the last run, for the next run is usually near.


class Watchdog:
    """Looks after records from `watch` to `unwatch`.

    Args:
        on_deadline: called when a run's own deadline has passed.
        on_step: called when a step has taken too long.
    """

    def __init__(self, on_deadline: Callable[[Record], object], on_step: Callable[[Record], object]) -> None:
        self._on_deadline = on_deadline
        self._on_step = on_step
        self._lock = threading.Lock()
        """Guards the decision whether the thread ends or goes on."""
        self._ticking = False
        self._records: dict[str, Record] = {}

    def watch(self, record: Record) -> None:
        """Look after `record` from now on."""
        self._records[record.run_id] = record
        if not self._ticking:
            self._start()

    def unwatch(self, record: Record) -> None:
        """Forget `record`."""
        self._records.pop(record.run_id, None)

    def records(self) -> list[Record]:
        """Return the records looked after."""
        return list(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def _start(self) -> None:
        with self._lock:
            if self._ticking:
                return
            self._ticking = True
        threading.Thread(target=self._tick, name="understudy-watchdog", daemon=True).start()

    def _tick(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            if self._records:
                idle_since = now
                for record in self.records():
                    self._look(record, now)
            elif now - idle_since > LINGER and self._retire():
                return

    def _retire(self) -> bool:
        with self._lock:
            if self._records:  # came in this very moment, and saw us ticking
                return False
            self._ticking = False
            return True

    def _look(self, record: Record, now: float) -> None:
        deadline = record.scope.deadline
        if (inf if deadline is None else deadline) <= now:
            self._on_deadline(record)
        elif record.step_deadline <= now:
            self._on_step(record)
