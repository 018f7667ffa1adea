"""The journals of a system: which runs have one, how it begins, and which runs were left by processes that died."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from understudy.actors.stores.process_locks import Locks
from understudy.actors.stores.runs import NewRun, RunRow, RunTable, StoredRun
from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.context.account import Account

from .run_journal import JournalPart, RunJournal
from .run_owners import RunOwner, RunOwners

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import RunOptions


class Neighbour(NamedTuple):
    """A process that has runs which are not over, at a look."""

    owner: str
    runs: int
    """How many."""
    is_gone: bool
    """Whether others may go on with its runs."""


class RunJournals:
    """The journals of one system in its store. Safe to use from any thread.

    Args:
        table: where the runs are.
        owners: the processes that drive them.
        locks: which processes live.
        app: the system's name.

    Attributes:
        on_first: called once, before the first run begins or goes on here.
    """

    def __init__(self, table: RunTable, owners: RunOwners, locks: Locks, app: str) -> None:
        self._table = table
        self._owners = owners
        self._locks = locks
        self._app = app
        self.on_first: Callable[[], object] | None = None

    def begin(self, run_id: str, account: Account) -> JournalPart:
        """Return the journal of a run that this process is about to accept."""
        if self.on_first is not None:
            self._tell_first()
        journal = RunJournal(self._table, run_id)
        with _lock:
            _driven[self._key(run_id)] = journal
        if _left_here:
            self._forget([run_id])
        return JournalPart(journal, account)

    def _tell_first(self) -> None:
        with _lock:
            on_first, self.on_first = self.on_first, None
        if on_first is not None:
            try:
                on_first()
            except BaseException:
                self.on_first = on_first
                raise

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
                if journal.owner and not journal.over:
                    _left_here.setdefault((repr(self._table), self._app), {})[journal.run_id] = journal.owner

    def left(self) -> list[StoredRun]:
        """Return the runs of this system that nobody drives: their process died, or its store failed."""
        return [each for each in self._table.left(self._app) if not self._is_driven(each)]

    # --- looks at the neighbours

    def neighbours(self) -> list[Neighbour]:
        """Return the processes that have runs of this system, by one statement.

        This process is one of them if it has left runs which nobody here drives any more.
        """
        here = self._left_here()
        found = self._owners.going(self._app)
        self._forget({run for run, owner in here.items() if owner not in {each.owner for each in found}})
        counts = Counter(here.values())
        own = self._locks.name()
        others = [Neighbour(each.owner, each.runs, not self._holds(each)) for each in found if each.owner != own]
        return [*others, *[Neighbour(owner, count, is_gone=True) for owner, count in counts.items()]]

    def _holds(self, owner: RunOwner) -> bool:
        return self._locks.lives(owner.owner) if owner.is_held is None else owner.is_held

    def left_by(self, owner: str) -> list[StoredRun]:
        """Return the runs of a process that is gone, or those that this process has left; none if it lives after all."""
        here = {run for run, found in self._left_here().items() if found == owner}
        found = self._table.left(self._app, owner)
        self._forget(here - {each.run_id for each in found})
        if owner == self._locks.name() or self._locks.lives(owner):  # after the runs were read: it may have come back
            found = [each for each in found if each.run_id in here]
        return [each for each in found if not self._is_driven_here(each)]

    def is_left(self, left: StoredRun) -> bool:
        """Whether no process has taken a run over or ended it since it was found. Blocks for the store."""
        return self._table.is_left(left)

    def _left_here(self) -> dict[str, str]:
        with _lock:
            return dict(_left_here.get((repr(self._table), self._app), {}))

    def _forget(self, runs: Iterable[str]) -> None:
        with _lock:
            here = _left_here.get((repr(self._table), self._app), {})
            for run in runs:
                here.pop(run, None)

    def _is_driven_here(self, run: StoredRun) -> bool:
        with _lock:
            return self._key(run.run_id) in _driven

    def _is_driven(self, run: StoredRun) -> bool:
        if self._is_driven_here(run):
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
        if not is_claimed:
            return None
        self._forget([left.run_id])
        return journal

    def rows(self, left: StoredRun) -> list[RunRow]:
        """Return what a run has written."""
        return self._table.rows(left.run)


_lock = threading.Lock()
"""Guards what this process drives; two systems of one process may have one store."""
_driven: dict[tuple[str, str], RunJournal] = {}
"""Store and id of each run that this process drives -> its journal: a run may end while it goes on from a token."""
_left_here: dict[tuple[str, str], dict[str, str]] = {}
"""Store and app -> id of each run that this process had and left before its end -> the name under which it had the run."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _driven.clear()
    _left_here.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
