"""Which runs this process drives in a store, and which it has left there before their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.backoff import backoff_wait

from .run_journal import RunJournal

FIRST_PAUSE = 1.0  # Seconds before this process goes on a second time with a run; each further pause is twice as long.
LONGEST_PAUSE = 60.0


class LeftHere(NamedTuple):
    """A run that this process has left before its end."""

    owner: str
    """The name of this process in its row."""
    tries: int
    """How often this process has gone on with the run after it had left it."""
    due_at: float
    """When this process may go on with it by itself, on the monotonic clock."""


class DrivenRuns:
    """The runs of one app that this process drives in one store, for all its systems. Safe to use from any thread.

    Args:
        store: names the store.
        app: the name of the systems.
        clock: the monotonic clock, in seconds.
    """

    def __init__(self, store: str, app: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._app = app
        self._clock = clock

    def add(self, journal: RunJournal) -> None:
        """Note that this process drives a run."""
        with _lock:
            _driven.setdefault((self._store, journal.run_id), []).append(journal)
        if _left:
            self.forget([journal.run_id])

    def add_if_new(self, journal: RunJournal) -> bool:
        """Note that this process is about to take a run over; False if it drives the run already."""
        key = self._store, journal.run_id
        with _lock:
            is_new = key not in _driven
            if is_new:
                _driven[key] = [journal]
            return is_new

    def remove(self, journal: RunJournal) -> None:
        """Note that this process does not drive a run any more under this journal; it may under another one."""
        key = self._store, journal.run_id
        with _lock:
            those = _driven.get(key, [])
            if journal not in those:
                return
            those.remove(journal)
            if not those:
                del _driven[key]
            has_run = any(each.owner for each in those)
            if journal.owner and not journal.over and not has_run:
                left = LeftHere(journal.owner, journal.tries, self._clock() + _pause(journal.tries))
                _left.setdefault((self._store, self._app), {})[journal.run_id] = left

    def __contains__(self, run_id: str) -> bool:
        with _lock:
            return (self._store, run_id) in _driven

    def left(self) -> dict[str, LeftHere]:
        """Return the ids of the runs that were left -> what is known of each."""
        with _lock:
            return dict(_left.get((self._store, self._app), {}))

    def due(self) -> dict[str, str]:
        """Return the ids of the left runs whose pause is over -> the name under which this process had each."""
        now = self._clock()
        return {run_id: left.owner for run_id, left in self.left().items() if left.due_at <= now}

    def tries(self, run_id: str) -> int:
        """Return how often this process goes on with a run that it left, if it does so now; 0 if it did not leave the run."""
        with _lock:
            left = _left.get((self._store, self._app), {}).get(run_id)
        return 0 if left is None else left.tries + 1

    def forget(self, runs: Iterable[str]) -> None:
        """Note that runs are not left any more."""
        with _lock:
            left = _left.get((self._store, self._app), {})
            for run in runs:
                left.pop(run, None)


def _pause(tries: int) -> float:
    return backoff_wait(FIRST_PAUSE, LONGEST_PAUSE, tries - 1) if tries else 0.0


_lock = threading.Lock()
"""Guards the tables; two systems of one process may have one store."""
_driven: dict[tuple[str, str], list[RunJournal]] = {}
"""Store and id of each run -> its journals: a run may end while it goes on from a token, and two callers may bring that."""
_left: dict[tuple[str, str], dict[str, LeftHere]] = {}
"""Store and app -> id of each run that was left -> what is known of it."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _driven.clear()
    _left.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
