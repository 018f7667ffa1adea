"""The watchdog: one thread that looks at the deadlines of the runs in flight, so that no run needs a timer of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf

from understudy.errors import AgentDown

from .record import Record
from .reply import log

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
        """Look after `record` from now on. Raises `AgentDown` when no thread can be started."""
        self._records[record.run_id] = record
        if not self._ticking:
            try:
                self._start()
            except RuntimeError as cause:  # a run without a watchdog may hang for ever, so it does not begin
                self.unwatch(record)
                raise AgentDown(f"no thread can be started to watch run {record.run_id}: {cause}") from cause

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
            threading.Thread(target=self._tick, name="understudy-watchdog", daemon=True).start()
            self._ticking = True  # not before there is a thread

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
            # Said first and looked second: `watch` enters its record first and then looks whether we tick.
            self._ticking = False
            self._ticking = bool(self._records)
            return not self._ticking

    def _look(self, record: Record, now: float) -> None:
        deadline = record.scope.deadline
        try:
            if (inf if deadline is None else deadline) <= now:
                self._on_deadline(record)
            elif record.step_deadline <= now:
                self._on_step(record)
        except BaseException:  # also a callback's sys.exit(): all other runs still need their watchdog
            log.exception("the watchdog failed at run %s", record.run_id)
