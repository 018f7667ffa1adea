"""Who owns a run in flight: its lock and epoch, its phase, and who drives it.

A driver holds the run at an epoch. A higher epoch takes the run away from that driver: its later results are refused with
`Stale`, and its thread goes back to the pool whenever it returns.
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import Protocol

from understudy.vocabulary.runs.handles import RunPhase


class Stale(BaseException):
    """The run was taken away from this driver; it unwinds. Not an error: nobody outside the driver sees it."""


class RunDriver(Protocol):
    """Who drives a run, from one epoch to the next."""

    returned: bool
    """Whether it holds no thread; one that was taken over may never let go of its own."""

    def begin(self, *, last: bool) -> None:
        """Begin, on another thread; with `last` the calling one has nothing more to do and may be used."""
        ...


class Ownership:
    """The part of a record that decides who may go on with the run. Nobody's code runs under the lock."""

    __slots__ = ("doing", "driver", "epoch", "lock", "phase", "step_deadline", "step_since")

    epoch: int
    phase: RunPhase
    doing: str
    driver: RunDriver | None
    """Who drives the run now."""
    step_since: float
    """When the step in hand began, on the monotonic clock."""
    step_deadline: float
    """When the step in hand must be over, for the watchdog; infinite when the driver sees to it itself."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0
        self.phase = "running"
        self.doing = "starting"
        self.driver = None
        self.step_since = time.monotonic()
        self.step_deadline = inf

    # --- for the driver that holds `epoch`

    def begin_step(self, epoch: int, doing: str, deadline: float = inf) -> None:
        """Say what the driver is about to do, and until when; raises `Stale` to any other driver."""
        with self.lock:
            self._check(epoch)
            self.doing = doing
            self.step_since = time.monotonic()
            self.step_deadline = deadline

    def hold(self, epoch: int) -> bool:
        """Keep the run from being taken over while its driver ends it; False if it is over or in other hands already."""
        with self.lock:
            held = self.is_held_at(epoch)
            if held:
                self.step_deadline = inf
            return held

    def _check(self, epoch: int) -> None:
        """Raise `Stale` to any other driver; call it under the lock."""
        # What `is_held_at` asks, without a call: a driver comes here several times a step, and may be too late each time.
        if epoch != self.epoch or self.phase != "running":
            raise Stale

    # --- for anyone

    def is_held_at(self, epoch: int) -> bool:
        """Whether the run goes on and nobody has taken it over since `epoch`; call it under the lock."""
        return epoch == self.epoch and self.phase == "running"

    def take_over(self, epoch: int) -> int | None:
        """Take the run away from the driver that holds `epoch`; call it under the lock.

        Returns:
            The new epoch, or None if someone else was faster.
        """
        if not self.is_held_at(epoch):
            return None
        self.epoch += 1
        self.driver = None
        self.step_deadline = inf
        return self.epoch
