"""Which runs this process drives in a store, and which it has left there before their end."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from understudy.actors.threads.forked import Stage, at_fork

from .run_journal import RunJournal


class DrivenRuns:
    """The runs of one app that this process drives in one store, for all its systems. Safe to use from any thread.

    Args:
        store: names the store.
        app: the name of the systems.
    """

    def __init__(self, store: str, app: str) -> None:
        self._store = store
        self._app = app

    def add(self, journal: RunJournal) -> None:
        """Note that this process drives a run."""
        with _lock:
            _driven[self._store, journal.run_id] = journal
        if _left:
            self.forget([journal.run_id])

    def add_if_new(self, journal: RunJournal) -> bool:
        """Note that this process is about to take a run over; False if it drives the run already."""
        with _lock:
            return _driven.setdefault((self._store, journal.run_id), journal) is journal

    def remove(self, journal: RunJournal) -> None:
        """Note that this process does not drive a run any more, unless it has gone on with it under another journal."""
        key = self._store, journal.run_id
        with _lock:
            if _driven.get(key) is journal:
                del _driven[key]
                if journal.owner and not journal.over:
                    _left.setdefault((self._store, self._app), {})[journal.run_id] = journal.owner

    def __contains__(self, run_id: str) -> bool:
        with _lock:
            return (self._store, run_id) in _driven

    def left(self) -> dict[str, str]:
        """Return the ids of the runs that were left -> the name under which this process had each."""
        with _lock:
            return dict(_left.get((self._store, self._app), {}))

    def forget(self, runs: Iterable[str]) -> None:
        """Note that runs are not left any more."""
        with _lock:
            left = _left.get((self._store, self._app), {})
            for run in runs:
                left.pop(run, None)


_lock = threading.Lock()
"""Guards the tables; two systems of one process may have one store."""
_driven: dict[tuple[str, str], RunJournal] = {}
"""Store and id of each run -> its journal: a run may end while it goes on from a token."""
_left: dict[tuple[str, str], dict[str, str]] = {}
"""Store and app -> id of each run -> the name of this process in its row."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _driven.clear()
    _left.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
