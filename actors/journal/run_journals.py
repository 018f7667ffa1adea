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
        journal = RunJournal(self._table, run_id)
        with _lock:
            _driven[self._key(run_id)] = journal
        return JournalPart(journal, account)

    def named(self, run_id: str, runner_id: str, options: RunOptions) -> NewRun:
        """Return who a run is, with this process as its owner. Raises `StoreError` if the process can have no name."""
        return NewRun(run_id, self._app, runner_id, self._locks.name(), options.user_id, options.conversation_id)

    def _key(self, run_id: str) -> tuple[str, str]:
        return repr(self._table), run_id

    def ended(self, journal: RunJournal) -> None:
        """Note that this process does not drive a run any more, unless it has gone on with it under another journal."""
        key = self._key(journal.run_id)
        with _lock:
            if _driven.get(key) is journal:
                del _driven[key]

    def left(self) -> list[StoredRun]:
        """Return the runs of this system that nobody drives: their process died, or its store failed."""
        return [each for each in self._table.left(self._app) if not self._is_driven(each)]

    def _is_driven(self, run: StoredRun) -> bool:
        with _lock:
            if self._key(run.run_id) in _driven:
                return True
        return run.owner != self._locks.name() and self._locks.lives(run.owner)

    def claim(self, left: StoredRun) -> RunJournal | None:
        """Take a run over; None if another process or thread was first.

        Raises:
            StoreError: the store failed.
        """
        journal = RunJournal(self._table, left.run_id)
        with _lock:
            if _driven.setdefault(self._key(left.run_id), journal) is not journal:
                return None
        is_claimed = False
        try:
            is_claimed = journal.claim(left, self._locks.name())
        finally:
            if not is_claimed:
                self.ended(journal)
        return journal if is_claimed else None

    def rows(self, left: StoredRun) -> list[RunRow]:
        """Return what a run has written."""
        return self._table.rows(left.run)


_lock = threading.Lock()
"""Guards what this process drives; two systems of one process may have one store."""
_driven: dict[tuple[str, str], RunJournal] = {}
"""Store and id of each run that this process drives -> its journal: a run may end while it goes on from a token."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _driven.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
