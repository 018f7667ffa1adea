"""The journals of a system: which runs have one, how it begins, and which runs were left by processes that died."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from understudy.actors.stores.process_locks import Locks
from understudy.actors.stores.runs import NewRun, RunRow, RunTable, StoredRun
from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.context.account import Account

from .run_journal import JournalPart, RunJournal

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import RunOptions


class RunJournals:
    """The journals of one system in its store. Safe to use from any thread.

    Args:
        table: where the runs are.
        locks: which processes live.
        app: the system's name.
    """

    def __init__(self, table: RunTable, locks: Locks, app: str) -> None:
        self._table = table
        self._locks = locks
        self._app = app

    def begin(self, run_id: str, account: Account) -> JournalPart:
        """Return the journal of a run that this process is about to accept."""
        self._note_driven(run_id)
        return JournalPart(RunJournal(self._table, run_id), account)

    def named(self, run_id: str, runner_id: str, options: RunOptions) -> NewRun:
        """Return who a run is, with this process as its owner. Raises `StoreError` if the process can have no name."""
        return NewRun(run_id, self._app, runner_id, self._locks.name(), options.user_id, options.conversation_id)

    def _note_driven(self, run_id: str) -> bool:
        """Note that this process drives a run; False if it does so already."""
        key = (repr(self._table), run_id)
        with _lock:
            is_new = key not in _driven
            _driven.add(key)
        return is_new

    def ended(self, run_id: str) -> None:
        """Note that this process does not drive a run any more."""
        with _lock:
            _driven.discard((repr(self._table), run_id))

    def left(self) -> list[StoredRun]:
        """Return the runs of this system that nobody drives: their process died, or its store failed."""
        return [each for each in self._table.left(self._app) if not self._is_driven(each)]

    def _is_driven(self, run: StoredRun) -> bool:
        with _lock:
            if (repr(self._table), run.run_id) in _driven:
                return True
        return run.owner != self._locks.name() and self._locks.lives(run.owner)

    def claim(self, left: StoredRun) -> RunJournal | None:
        """Take a run over; None if another process was first.

        Raises:
            StoreError: the store failed.
        """
        if not self._note_driven(left.run_id):
            return None
        claim = None
        try:
            claim = self._table.claim(left, self._locks.name())
        finally:
            if claim is None:
                self.ended(left.run_id)
        return None if claim is None else RunJournal(self._table, left.run_id, claim)

    def rows(self, left: StoredRun) -> list[RunRow]:
        """Return what a run has written."""
        return self._table.rows(left.run)


_lock = threading.Lock()
"""Guards what this process drives; two systems of one process may have one store."""
_driven: set[tuple[str, str]] = set()
"""Store and id of each run that this process drives."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _driven.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
