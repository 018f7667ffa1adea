"""Admission: how many runs may be under way at once that nobody inside of a run began. The others wait without a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from understudy.actors.threads.slots import Slots, Taken
from understudy.actors.waiting.awaited import Place
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import Wait

from .record import RunRecord

IN_LINE = "waiting to be admitted"


class Admission:
    """A number of places and a line before them. Safe to use from any thread.

    Only runs that are begun outside of runs and actors stand in line. What is begun inside of another run is always
    admitted: that one may wait for it, and would keep its place for ever.

    Args:
        places: how many runs may be under way; None for any number.
        start: starts a run, quickly; called on the thread that brings the run, or on the one that ends another.
    """

    def __init__(self, places: int | None, start: Callable[[RunRecord], object]) -> None:
        self._places: Slots[RunRecord] | None = None if places is None else Slots(places)
        self._start = start
        self._waits: dict[RunRecord, Wait] = {}
        """Of those in line, in the graph of who waits for whom: what is under way may wait for one that has no place."""

    def enter(self, record: RunRecord) -> None:
        """Start a run as soon as there is a place for it."""
        places = self._places
        if places is None or record.link.begun_in:
            self._start(record)
            return
        record.doing = IN_LINE
        if places.take(record, partial(self._admit, record)) is Taken.NOW:
            self._start(record)
        else:
            self._waits[record] = graph.begin_unawaited(record.link, Place(places, record), record.scope)
            if not places.has_in_line(record):  # its turn has come meanwhile
                self._out_of_line(record)
        if record.phase != "running":  # its end may have come before it stood here, and nobody would take it out
            self.leave(record)

    def leave(self, record: RunRecord) -> None:
        """Give the place of a run that is over to the first in line; one that stands in line goes out of it."""
        if self._places is not None:
            self._places.release(record)
            self._out_of_line(record)

    def _admit(self, record: RunRecord) -> None:
        self._out_of_line(record)
        self._start(record)

    def _out_of_line(self, record: RunRecord) -> None:
        wait = self._waits.pop(record, None)
        if wait is not None:
            graph.end(wait)
