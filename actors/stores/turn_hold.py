"""The hold of a worker on a run's token: a lease, which is renewed until the worker's turn is committed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import partial
from logging import WARNING

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.diagnostics import emit
from understudy.errors import LeaseLost, StoreError, UnderstudyError

PARTS = 3  # A lease is renewed after each third of it, so that one renewal may fail.


class TurnHold:
    """One worker's hold on one token, from the claim until the turn is committed, given back or lost.

    Args:
        token: what the worker brought.
        seconds: how long the lease lasts without a renewal.

    Attributes:
        holder: names this hold, and nobody else's, in the table of tokens.
        failed: whether a commit failed, so that nobody knows whether it was done.
    """

    __slots__ = ("_alarm", "_over", "failed", "holder", "seconds", "token")

    def __init__(self, token: str, seconds: float) -> None:
        self.token = token
        self.seconds = seconds
        self.holder = secrets.token_hex(8)
        self.failed = False
        self._over = False
        self._alarm: Alarm | None = None

    def begin(self, renew: Callable[[], bool], lost: Callable[[UnderstudyError], object]) -> None:
        """Renew the lease from now on.

        Args:
            renew: asks the table of tokens; false if another worker has the token.
            lost: ends the run, for its turn cannot be committed any more.

        Raises:
            RuntimeError: no thread can be started.
        """
        self._alarm = ring_at(time.monotonic() + self.seconds / PARTS, partial(self._ring, renew, lost))

    def end(self) -> None:
        """Renew the lease no more."""
        self._over = True
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.call_off()

    def _ring(self, renew: Callable[[], bool], lost: Callable[[UnderstudyError], object]) -> None:
        if self._over:
            return
        try:
            renewed = renew()
        except StoreError as error:  # the next renewal may work, and the commit finds out if it did not
            emit(WARNING, "lease_not_renewed", {}, "a lease could not be renewed: %s", error)
            renewed = True
        if self._over:  # it was committed or given back meanwhile
            return
        if renewed:
            self.begin(renew, lost)
            if self._over:  # meanwhile
                self.end()
        else:
            lost(self.lost_error())

    def lost_error(self) -> LeaseLost:
        """Return the error of a worker whose lease is another's now."""
        return LeaseLost(
            f"the lease of this turn ended after {self.seconds:g} s without a renewal, and another worker has the token "
            "now: nothing of this turn was committed"
        )
