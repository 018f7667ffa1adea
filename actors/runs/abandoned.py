"""Work that is not waited for any more: it holds a thread, and is counted, until it comes back."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.pool import Work
from understudy.vocabulary.actors.system_events import WorkAbandoned, WorkOverdue

if TYPE_CHECKING:
    from understudy.actors.run_view.view import RunView


class AbandonedWork:
    """The work of one system that was given up. Safe to use from any thread.

    Args:
        events: where abandoned and overdue work is told.
    """

    def __init__(self, events: EventStream) -> None:
        self._events = events
        self._lock = threading.Lock()
        """Guards both."""
        self._work: list[Work] = []
        self._of_runs: weakref.WeakSet[Work] = weakref.WeakSet()
        """The frame that is at it keeps it, and nobody else, for it keeps its whole run."""
        self.told_at = 0.0
        """When the work of a run was told last that nobody wants it any more, on the monotonic clock."""
        _all.add(self)

    def give_up(self, work: Work) -> None:
        """Count work until it comes back."""
        with self._lock:
            try:
                self._of_runs.add(work)
            except TypeError:  # of another kind, which has no weak references
                self._work.append(work)

    def abandon(self, work: Work, record: RunView, what: str, since: float) -> None:
        """Give up work of a run, and tell of it.

        Args:
            work: the call, or the work of the run that is at it.
            record: the run it belongs to.
            what: what it is at, in words.
            since: when that began, on the monotonic clock.
        """
        self.give_up(work)
        if self._events.wants(WorkAbandoned):
            seconds = time.monotonic() - since
            event = WorkAbandoned(address=record.cell.address, run_id=record.run_id, what=what, seconds=seconds)
            self._events.publish(event)

    def tell_overdue(self, record: RunView, what: str, since: float, stack: Callable[[], str]) -> None:
        """Tell of work of a run whose time is over.

        Args:
            record: the run it belongs to.
            what: what it is at, in words.
            since: when that began, on the monotonic clock.
            stack: returns where it is at this moment; called only if somebody subscribed to it.
        """
        if self._events.wants(WorkOverdue):
            address, run_id, seconds = record.cell.address, record.run_id, time.monotonic() - since
            shown = stack() if self._events.is_heard(WorkOverdue) else ""  # its line has no stack
            event = WorkOverdue(address=address, run_id=run_id, what=what, seconds=seconds, stack=shown)
            self._events.publish(event)

    def count(self) -> int:
        """Return how much work has not come back."""
        with self._lock:
            self._work = [work for work in self._work if not work.returned]
            return len(self._work) + sum([not work.returned for work in self._of_runs])


_all: weakref.WeakSet[AbandonedWork] = weakref.WeakSet()
"""That of all systems of this process."""


@atexit.register
def _let_come_back() -> None:
    """Give work that was told just now a moment to come back: the end of the process would cut off its `finally`."""
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C: leave at once
        for each in list(_all):
            while each.count() and time.monotonic() < each.told_at + cancel_hooks.AT_HAND:
                time.sleep(0.005)


at_fork(Stage.SYSTEMS, _all.clear)
