"""Admission: how many runs may be under way at once that nobody inside of a run began. The others wait without a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .record import Record

IN_LINE = "waiting to be admitted"


class Admission:
    """A number of places and a line before them. Safe to use from any thread.

    Only runs that are begun outside of runs and actors stand in line. What is begun inside of another run is always
    admitted: that one may wait for it, and would keep its place for ever.

    Args:
        places: how many runs may be under way; None for any number.
        start: starts a run, quickly; called on the thread that brings the run, or on the one that ends another.
    """

    def __init__(self, places: int | None, start: Callable[[Record], object]) -> None:
        self._places = places
        self._start = start
        self._lock = threading.Lock()
        """Guards both tables: a place that becomes free goes to the first in line, or to who comes next."""
        self._inside: set[Record] = set()
        self._line: dict[Record, None] = {}
        """In order: first come, first served."""

    def enter(self, record: Record) -> None:
        """Start a run as soon as there is a place for it."""
        if self._places is None or record.link.begun_in or self._is_placed(record, self._places):
            self._start(record)
        if record.phase != "running":  # its end may have come before it stood here, and nobody would take it out
            self.leave(record)

    def _is_placed(self, record: Record, places: int) -> bool:
        with self._lock:
            if len(self._inside) < places:
                self._inside.add(record)
                return True
            record.doing = IN_LINE
            self._line[record] = None
            return False

    def leave(self, record: Record) -> None:
        """Give the place of a run that is over to the first in line; one that stands in line goes out of it."""
        if self._places is None:
            return
        with self._lock:
            self._line.pop(record, None)
            if record not in self._inside:
                return
            self._inside.remove(record)
            following = next(iter(self._line), None)
            if following is None:
                return
            del self._line[following]
            self._inside.add(following)
        self._start(following)
