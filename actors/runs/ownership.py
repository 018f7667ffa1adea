"""Who owns a run in flight: its lock and epoch, its phase, and the work in hand.

A work holds the run at an epoch. A higher epoch takes the run away from that work: its later results are refused with
`Stale`, and its thread goes back to the pool whenever it returns. `AbandonedWork` counts it until then.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.pool import Work
from understudy.vocabulary.actors.system_events import WorkAbandoned, WorkOverdue
from understudy.vocabulary.runs.handles import RunPhase

if TYPE_CHECKING:
    from understudy.actors.run_view.view import RunView


class Stale(BaseException):
    """The run is over, or was taken away from this work, which unwinds. Not an error: nobody outside the work sees it."""


class InHand(Protocol):
    """The last work that a run began."""

    returned: bool
    """Whether it holds no thread; one that hangs may never let go of its own."""


class Ownership:
    """The part of a record that decides who may go on with the run. Nobody's code runs under the lock."""

    __slots__ = ("doing", "epoch", "in_hand", "lock", "phase", "step_deadline", "step_since")

    epoch: int
    phase: RunPhase
    doing: str
    in_hand: InHand | None
    """The last work that the run began in this stay; None before the first, and when the run is over."""
    step_since: float
    """When the step in hand began, on the monotonic clock."""
    step_deadline: float
    """When the step in hand must be over, for the watchdog; infinite if the watchdog does not look after it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0
        self.phase = "running"
        self.doing = "starting"
        self.in_hand = None
        self.step_since = time.monotonic()
        self.step_deadline = inf

    # --- for the work that holds `epoch`

    def begin_step(self, epoch: int, doing: str, deadline: float = inf) -> None:
        """Say what the work is about to do, and until when; raises `Stale` to any other work."""
        with self.lock:
            self._check(epoch)
            self.doing = doing
            self.step_since = time.monotonic()
            self.step_deadline = deadline

    def hold(self, epoch: int) -> bool:
        """Keep the run from being taken over while its work ends it; False if it is over or in other hands already."""
        with self.lock:
            held = self.is_held_at(epoch)
            if held:
                self.step_deadline = inf
            return held

    def _check(self, epoch: int) -> None:
        """Raise `Stale` to any other work; call it under the lock."""
        # What `is_held_at` asks, without a call: a work comes here several times a step, and may be too late each time.
        if epoch != self.epoch or self.phase != "running":
            raise Stale

    # --- for anyone

    def is_held_at(self, epoch: int) -> bool:
        """Whether the run goes on and nobody has taken it over since `epoch`; call it under the lock."""
        return epoch == self.epoch and self.phase == "running"

    def take_over(self, epoch: int) -> int | None:
        """Take the run away from the stay of `epoch`; call it under the lock.

        Returns:
            The new epoch, or None if someone else was faster.
        """
        if not self.is_held_at(epoch):
            return None
        self.epoch += 1
        self.in_hand = None
        self.step_deadline = inf
        return self.epoch


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
