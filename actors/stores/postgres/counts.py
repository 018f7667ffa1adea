"""What a store in PostgreSQL has done in this process, for `health()`."""

from __future__ import annotations

import threading
import time

from understudy.actors.stores.database import StoreFigures


class Counts:
    """Counts of calls. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards all that follows. Nothing blocks under it."""
        self._transactions = 0
        self._calls = 0
        self._failed = 0
        self._repeated = 0
        self._waiting = 0
        self._high_water = 0
        self._begun: dict[int, float] = {}
        """Thread -> when the transaction that it is in began."""
        self._last_error = ""

    def waits(self) -> None:
        """A call waits for a connection."""
        with self._lock:
            self._waiting += 1
            self._high_water = max(self._high_water, self._waiting)

    def waits_no_more(self, *, begins: bool) -> None:
        """A call has a connection, or could not have one."""
        with self._lock:
            self._waiting -= 1
            if begins:
                self._begun[threading.get_ident()] = time.monotonic()

    def has_left(self, *, committed: bool) -> None:
        """A transaction has ended."""
        with self._lock:
            self._begun.pop(threading.get_ident(), None)
            self._transactions += committed

    def repeats(self) -> None:
        """A transaction will be done again."""
        with self._lock:
            self._repeated += 1

    def ends(self, error: str = "") -> None:
        """A call has ended, maybe with a `StoreError`."""
        with self._lock:
            self._calls += 1
            if error:
                self._failed += 1
                self._last_error = error

    def figures(self, store: str) -> StoreFigures:
        """Return what was counted so far."""
        with self._lock:
            since = min(self._begun.values(), default=None)
            return StoreFigures(
                store=store,
                transactions=self._transactions,
                calls=self._calls,
                failed=self._failed,
                repeated=self._repeated,
                waiting=self._waiting,
                high_water=self._high_water,
                busy_for=None if since is None else time.monotonic() - since,
                last_error=self._last_error,
            )
