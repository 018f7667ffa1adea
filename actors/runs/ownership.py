"""Who owns a run in flight: its lock and epoch, its phase, and the work in hand.

A work holds the run at an epoch. A higher epoch takes the run away from that work: its later results are refused with
`Stale`, and its thread goes back to the pool whenever it returns.
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import Protocol

from understudy.vocabulary.runs.handles import RunPhase


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
