"""Alarms for points in time: one clock thread for all of them, started at the first and ended some time after the last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from logging import ERROR

from understudy.diagnostics import emit

from .forked import Stage, at_fork
from .pool import submit

LINGER = 10.0  # Seconds; the next alarm usually comes sooner.
SWEEP_FROM = 64  # Fewer alarms, called off or not, are not worth a sweep.


class Alarm:
    """A function to call once, unless it is called off before."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring: Callable[[], object] | None = ring

    @property
    def is_set(self) -> bool:
        """Whether it was neither called off nor rung."""
        return self._ring is not None

    def call_off(self) -> None:
        """Forget the function; takes no lock, so it is safe in a forked child too."""
        self._ring = None

    def refused(self, cause: RuntimeError) -> None:
        """Ring, on this thread: no other one can be had."""
        self.run_turns()

    def run_turns(self) -> None:
        """Ring, on the thread that is lent for it."""
        ring, self._ring = self._ring, None
        if ring is not None:
            try:
                ring()
            except BaseException:  # also SystemExit: the thread belongs to the pool
                emit(ERROR, "alarm_failed", {}, "an alarm failed", exc_info=True)


class AlarmClock:
    """Rings alarms at their time, each on a thread of its own, so that none delays another.

    Args:
        clock: the monotonic clock, in seconds, that the moments of alarms refer to.
        linger: seconds the thread is kept after the last alarm.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, linger: float = LINGER) -> None:
        self._clock = clock
        self._linger = linger
        self._changed = threading.Condition(threading.Lock())
        """Guards everything below."""
        self._heap: list[tuple[float, int, Alarm]] = []
        self._numbers = count()
        """Gives alarms of the same moment an order, for alarms cannot be compared."""
        self._sweep_at = SWEEP_FROM
        self._ticking = False

    def ring_at(self, moment: float, ring: Callable[[], object]) -> Alarm:
        """Have `ring()` called at `moment`; what it raises is logged.

        Raises:
            RuntimeError: no thread can be started.
        """
        alarm = Alarm(ring)
        with self._changed:
            if not self._ticking:
                threading.Thread(target=self._tick, name="understudy-clockwork", daemon=True).start()
                self._ticking = True
            if len(self._heap) >= self._sweep_at:
                self._sweep()
            heappush(self._heap, (moment, next(self._numbers), alarm))
            if self._heap[0][2] is alarm:
                self._changed.notify()
        return alarm

    def _sweep(self) -> None:
        """Drop alarms that were called off: most work is done long before its deadline, and they would stay until then."""
        self._heap = [entry for entry in self._heap if entry[2].is_set]
        heapify(self._heap)
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._heap))

    def _tick(self) -> None:
        while (due := self._next_due()) is not None:
            for alarm in due:
                _ring(alarm)

    def _next_due(self) -> list[Alarm] | None:
        """Wait for the next alarms that are due; None when there was no alarm for `linger` seconds."""
        with self._changed:
            while True:
                now, due = self._clock(), list[Alarm]()
                while self._heap and self._heap[0][0] <= now:
                    due.append(heappop(self._heap)[2])
                if due:
                    return due
                left = self._heap[0][0] - now if self._heap else self._linger
                if not self._changed.wait(min(left, threading.TIMEOUT_MAX)) and not self._heap:
                    self._ticking = False
                    return None

    @property
    def ticking(self) -> bool:
        """Whether there is a thread."""
        return self._ticking

    def __len__(self) -> int:
        return len(self._heap)


def _ring(alarm: Alarm) -> None:
    if alarm.is_set:
        submit(alarm)


_clockwork = AlarmClock()


def ring_at(moment: float, ring: Callable[[], object]) -> Alarm:
    """Have `ring()` called at `moment` of the monotonic clock. Raises `RuntimeError` when there is no thread for it."""
    return _clockwork.ring_at(moment, ring)


def _begin_anew_in_child() -> None:
    """Forget the parent's alarms: its work goes on there, and its clock thread does not exist here."""
    global _clockwork
    _clockwork = AlarmClock()


at_fork(Stage.THREADS, _begin_anew_in_child)
