"""The journals of a system: which runs have one, how it begins, and which runs were left by processes that died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.stores.database import Sql
from understudy.actors.stores.process_locks import Locks
from understudy.actors.stores.runs import NewRun, RunRow, RunTable, StoredRun
from understudy.errors import LeaseLost, StoreError
from understudy.vocabulary.context.account import Account

from .driven_runs import DrivenRuns
from .heartbeat import heartbeat_of
from .neighbours import Neighbours
from .run_journal import JournalPart, RunJournal
from .run_owners import RunOwners, is_silent

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import RunOptions


class RunJournals:
    """The journals of one system in its store. Safe to use from any thread.

    Args:
        table: where the runs are.
        owners: the processes that drive them.
        locks: which processes live.
        app: the system's name.
        lease: seconds without a beat after which others may take the runs of this process.

    Attributes:
        on_first: called once, before the next run begins here.
        on_cancel: called with the id of a run that this process drives, when another process asks to cancel it; never blocks.
        on_lost: called with the journal of a run that this process drives, and an error, when another process has the run;
            never blocks.
    """

    def __init__(self, table: RunTable, owners: RunOwners, locks: Locks, app: str, lease: float) -> None:
        self._table = table
        self._owners = owners
        self._locks = locks
        self._app = app
        self._lease = lease
        self._driven = DrivenRuns(repr(table), app)
        self._heartbeat = heartbeat_of(owners, locks, lease)
        self._lock = threading.Lock()
        """Guards `on_first`."""
        self.on_first: Callable[[], object] | None = None
        self.on_cancel: Callable[[str], object] | None = None
        self.on_lost: Callable[[RunJournal, LeaseLost], object] | None = None

    def neighbours(self) -> Neighbours:
        """Return a look at the other processes of this system, for one thread."""
        return Neighbours(self._table, self._owners, self._locks, self._driven, self._app, lease=self._lease)

    def begin(self, run_id: str, account: Account) -> JournalPart:
        """Return the journal of a run that this process is about to accept.

        Raises:
            AgentDown: no thread can be started to beat for this process.
        """
        self.tell_first()
        journal = self._new(run_id)
        self._heartbeat.drive(journal)
        self._driven.add(journal)
        return JournalPart(journal, account)

    def _new(self, run_id: str) -> RunJournal:
        return RunJournal(self._table, run_id, self._cancel, self._lost)

    def _cancel(self, run_id: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(run_id)

    def _lost(self, journal: RunJournal, error: LeaseLost) -> None:
        if self.on_lost is not None:
            self.on_lost(journal, error)

    def tell_first(self) -> None:
        """Call `on_first`, unless it was called; its errors are raised."""
        if self.on_first is None:
            return
        with self._lock:
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

    def first_beat(self, run: NewRun) -> AbstractContextManager[Callable[[Sql], object] | None]:
        """Yield what beats for this process in the transaction in which it accepts a run; None if it has beaten."""
        return self._heartbeat.first_beat(run.owner)

    def ended(self, journal: RunJournal) -> None:
        """Note that this process does not drive a run any more, unless it has gone on with it under another journal."""
        self._driven.remove(journal)
        self._heartbeat.leave(journal)

    def rest(self, until: float) -> None:
        """Beat no longer than for the runs that this process drives, because the system has stopped.

        Waits for the last write, until a moment on the monotonic clock.
        """
        self._heartbeat.rest(until)

    def left(self) -> list[StoredRun]:
        """Return the runs of this system that nobody drives: their process died, or its store failed."""
        return [each for each in self._table.left(self._app) if not self._is_driven(each)]

    def left_run(self, run_id: str) -> StoredRun | None:
        """Return a run if nobody drives it; None if somebody does, or it is over."""
        found = self._table.going(run_id)
        return None if found is None or self._is_driven(found) else found

    def _is_driven(self, run: StoredRun) -> bool:
        return self.is_driven(run.run_id, run.owner)

    def is_driven(self, run_id: str, owner: str) -> bool:
        """Whether this process drives a run, or another process that has it lives."""
        if run_id in self._driven:
            return True
        left = self._driven.left().get(run_id)
        if left is not None and left.owner == owner:  # by another system of this process, which still has its lock
            return False
        return owner != self._locks.name() and self._locks.lives(owner)

    def is_left(self, left: StoredRun) -> bool:
        """Whether no process has taken a run over or ended it since it was found. Blocks for the store."""
        return self._table.is_left(left)

    def claim(self, left: Sequence[StoredRun], silent_at: int | None = None) -> dict[str, RunJournal]:
        """Take runs over at once; return the journals of those with which no other process or thread was first, by id.

        Args:
            left: the runs.
            silent_at: take them only if their one owner has not beaten since it had this number of beats.

        Raises:
            StoreError: the store failed; a run that was taken after all is left here.
            AgentDown: no thread can be started to beat for this process.
        """
        owner, asked = self._locks.name(), dict[int, RunJournal]()
        try:
            for each in left:
                journal = self._new(each.run_id)
                journal.tries = self._driven.tries(each.run_id)
                if self._driven.add_if_new(journal):
                    asked[each.run] = journal
                    self._heartbeat.drive(journal)
                    journal.owner = owner  # also if the store fails: maybe this process has the run then
            if asked:
                only_if = None if silent_at is None else partial(is_silent, owner=left[0].owner, beats=silent_at)
                with self._heartbeat.first_beat(owner) as beat:
                    claims = self._table.claim([each for each in left if each.run in asked], owner, only_if, beat)
                for run, journal in asked.items():
                    journal.hold(claims.get(run), owner)
        finally:
            for journal in asked.values():
                if journal.number is None:
                    self.ended(journal)
        found = {journal.run_id: journal for journal in asked.values() if journal.number is not None}
        self._driven.forget(found)
        return found

    def give_back(self, claimed: Sequence[tuple[StoredRun, RunJournal]]) -> None:
        """Leave claimed runs to everybody, as often taken over as before; if the store fails, this process has left them."""
        for _, journal in claimed:
            self._heartbeat.leave(journal)  # first: it would tell of runs that are lost
        of_others = [(left, journal) for left, journal in claimed if left.owner != journal.owner]
        with suppress(StoreError):
            self._table.give_back([left for left, _ in of_others], self._locks.name())
            for _, journal in of_others:
                journal.owner = ""
        for _, journal in claimed:
            self.ended(journal)

    def end_left(self, left: StoredRun, silent_at: int | None, first: Callable[[], object]) -> None:
        """End a run that was left and is to be cancelled; nothing if another process was first.

        Args and errors as `claim`; `first` is called before the end, and again by the next process if this one dies there.
        """
        journal = self.claim([left], silent_at).get(left.run_id)
        if journal is not None:
            try:
                first()
                journal.end_cancelled()
            finally:
                self.ended(journal)

    def rows(self, left: StoredRun) -> list[RunRow]:
        """Return what a run has written."""
        return self._table.rows(left.run)

    def begun(self, left: StoredRun) -> set[int | str]:
        """Return what a run has told readers to begin, and not to end, as `begun_in` does."""
        from understudy.orchestration.journal.event_text import begun_in  # loads pydantic

        return begun_in(self._table.events(left.run))
