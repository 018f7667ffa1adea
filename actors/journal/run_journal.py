"""The journal of one run and of the runs inside of it, in a table of runs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from understudy.actors.stores.database import Sql
from understudy.actors.stores.events.rows import note_cancelled
from understudy.actors.stores.runs import Claim, NewRun, RunRow, RunTable
from understudy.actors.stores.transactions.served_transaction import ServedTransaction
from understudy.actors.threads.pool import submit
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import LeaseLost, StoreError
from understudy.orchestration.journal.rows import DEFINITION, SAVED, JournalRow, SavedValue
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.messages import JsonValue

from .run_owners import Standing
from .unwritten_line import UnwrittenLine

if TYPE_CHECKING:
    from understudy.actors.run_view.event_count import EventCount

    from .kept_events import KeptEvents


STEP = 0.0005  # Seconds between two looks at an end that is being noted.


class RunJournal:
    """What a process has of a run in the store. Safe to use from any thread.

    Args:
        table: where the run is.
        run_id: of the outermost run.
        on_cancel: called with the id of the run when another process asks to cancel it.
        on_lost: called with this journal and an error when another process has the run.
    """

    def __init__(
        self,
        table: RunTable,
        run_id: str,
        on_cancel: Callable[[str], object] | None = None,
        on_lost: Callable[[RunJournal, LeaseLost], object] | None = None,
    ) -> None:
        self._table = table
        self._claim: Claim | None = None
        self.run_id = run_id
        self._on_cancel = on_cancel
        self._on_lost = on_lost
        self.owner = ""
        """The name of this process, once it has the run."""
        self._lock = threading.Lock()
        """Guards the paths."""
        self._paths: set[str] = set()
        """Of the runs that have rows."""
        self._failure: StoreError | None = None
        self.tries = 0
        """How often this process has gone on with the run after it had left it."""
        self.failed = False
        """Whether the store failed, so that the run is left for a later process."""
        self.is_left = False
        """Whether the run is left for a later process: its system stops, and cancels it."""
        self.over = False
        self._is_ending = False
        """Whether this process is about to end the run, or has ended it."""
        self._is_lost = False

    def accept(
        self,
        run: NewRun,
        accepted: str,
        rows: Sequence[JournalRow] = (),
        also: Callable[[Sql], bool] | None = None,
        beat: Callable[[Sql], object] | None = None,
        *,
        keeps_events: bool = False,
    ) -> bool:
        """Note that this process drives the run from now on. Blocks for the store.

        Args:
            run: who it is.
            accepted: what begins it anew, until it has rows.
            rows: of a run that goes on.
            also: what else is done in the transaction; if it returns False, nothing is done.
            beat: tells in the transaction that this process lives, also if `also` returns False.
            keeps_events: whether its events are kept.

        Returns:
            Whether the run was accepted.

        Raises:
            StoreError: the store failed; the run is not accepted.
        """
        given = [RunRow("", *row) for row in rows]
        claim = self._table.accept(run, accepted, rows=given, also=also, beat=beat, keeps_events=keeps_events)
        self.hold(claim, run.owner)
        return claim is not None

    def hold(self, claim: Claim | None, owner: str) -> None:
        """Note what this process, `owner`, has of the run; None for nothing."""
        self._claim, self.owner = claim, "" if claim is None else owner

    def has(self, paths: Iterable[str]) -> None:
        """Note which runs have rows from a process before."""
        with self._lock:
            self._paths.update(paths)

    def commit(
        self,
        path: str,
        rows: Sequence[JournalRow],
        closed: Collection[str] = (),
    ) -> None:
        """Write the rows of one run; the first ones of a stay replace those of the stays before. Blocks for the store.

        Args:
            path: of the run.
            rows: new or changed ones.
            closed: paths of runs inside whose results these rows have: their rows go, and those of runs inside of them.

        Raises:
            LeaseLost: another process has taken the run over.
            StoreError: the store failed, or failed before so that the run is left.
        """
        self._check_failure()
        with self._lock:
            # A state has those of the runs inside: what these have written goes too.
            gone = [path, *closed] if any(row.kind == DEFINITION for row in rows) else closed
            drop = [each for each in self._paths if any(is_in(each, one) for one in gone)] if gone else []
            self._paths.add(path)
        given = [RunRow(path, *row) for row in rows]
        assert self._claim is not None, "a run is accepted before it writes"
        if not self._table.commit(self._claim, given, drop):
            raise self._lost_error()
        if drop:
            with self._lock:
                self._paths.difference_update(each for each in drop if each != path)

    def commit_in(self, sql: Sql, path: str, rows: Sequence[JournalRow]) -> None:
        """Write the rows of one run in a transaction that does more; raises as `commit`, but for an error of the store's own."""
        self._check_failure()
        assert self._claim is not None, "a run is accepted before it writes"
        if not self._table.commit_in(sql, self._claim, [RunRow(path, *row) for row in rows]):
            raise self._lost_error()

    def fail(self, error: StoreError) -> StoreError:
        """Leave the run, because the store failed: nothing more is written. Returns the error that says so."""
        words = (
            f"run {self.run_id} cannot reach its store, and is left for system.recover(), which goes on from the last "
            f"finished step: {error}"
        )
        failure = StoreError(words, store=error.store, run_id=self.run_id)
        self._failure = self._failure or failure
        self.failed = True
        return failure

    def left_error(self) -> StoreError | None:
        """Return a new error that says that the run is left; None if it is not."""
        failure = self._failure
        if failure is None:
            return None
        told = StoreError(str(failure), store=failure.store, run_id=self.run_id)
        told.__cause__ = failure
        return told

    def _check_failure(self) -> None:
        failure = self.left_error()
        if failure is not None:
            raise failure

    def transaction(self, guard: threading.Lock, limit: float) -> ServedTransaction:
        """Return a transaction in the database of the journal, which has not begun."""
        return self._table.transaction(guard, limit)

    def check_held(self, sql: Sql) -> None:
        """Raise `LeaseLost` if another process has taken the run; else none can until the transaction has ended."""
        if self._claim is not None and not self._table.holds(sql, self._claim):
            raise self._lost_error()

    def put(self, sql: Sql, row: RunRow) -> None:
        """Write a row in a transaction that does more, if the run is not over. Raises `LeaseLost` as `check_held`."""
        if self._claim is not None and (self.over or not self._table.put(sql, self._claim, row)):
            self.check_held(sql)

    def leave(self, *, at_its_end: bool = False) -> bool:
        """Leave the run for a later process, because it is about to be cancelled; False if its end is being noted.

        Args:
            at_its_end: leave it also then, because the store does not take the end.
        """
        with self._lock:
            self.is_left = at_its_end or not self._is_ending
            return self.is_left

    def await_end(self, patience: float) -> None:
        """Wait a moment for an end that is being noted: who ends the run from outside must not tell another one."""
        until = time.monotonic() + patience
        while self._is_ending and not self.over and not self.failed and time.monotonic() < until:
            time.sleep(STEP)

    def may_end(self) -> bool:
        """Have the run not be left any more, because a work is about to end it; False if it was left before."""
        with self._lock:
            self._is_ending = not self.is_left
            return self._is_ending

    def end(self, ending: str, also: Callable[[Sql], object] | None = None, rows: Sequence[JournalRow] = ()) -> None:
        """Note that the run is over, or waits for a person. Blocks for the store; a second call does nothing.

        Args:
            ending: how it ended, in a word.
            also: what else is done in the transaction.
            rows: its last events.

        Raises:
            StoreError: the store failed.
        """
        if self.over or self.failed or self._claim is None:
            return
        self._is_ending = True
        last = [RunRow("", *row) for row in rows]
        self._is_lost = not self._table.end(self._claim, ending, also=also, rows=last)
        self.over = True

    def end_in(self, sql: Sql, ending: str, rows: Sequence[JournalRow]) -> None:
        """Note that the run waits for a person, in the transaction that keeps it; `note_over` comes once that is committed.

        Raises:
            LeaseLost: another process has the run, or erased it.
        """
        assert self._claim is not None, "a run is accepted before it waits"
        self.check_held(sql)
        self._table.end_in(sql, self._claim, ending, rows=[RunRow("", *row) for row in rows])

    def note_over(self) -> None:
        """Note that the store has the end of the run."""
        self.over = True

    def end_cancelled(self) -> None:
        """Note that the run, which nobody drove, is cancelled. Blocks for the store, and raises `StoreError`."""
        claim = self._claim
        assert claim is not None, "a run is claimed before it is ended"
        self.end("cancelled", lambda sql: note_cancelled(sql, claim.run, time.time()))

    @property
    def stay(self) -> int:
        """The number of times that a process began or went on with the run, this one included; 0 before that."""
        return 0 if self._claim is None else self._claim.epoch

    @property
    def next_event(self) -> int | None:
        """The number after that of the last event that the store had when this process took the run; None if it had none."""
        return None if self._claim is None else self._claim.next_event

    @property
    def number(self) -> int | None:
        """The number of the run in the store; None before this process has the run, and once it ends the run."""
        return None if self._claim is None or self._is_ending else self._claim.run

    def heed(self, standing: Standing | None) -> None:
        """End the run, on another thread, if another process has it now or asks to cancel it.

        Args:
            standing: where the run stands in the store; None if it was removed.
        """
        if self._claim is None or self._is_ending:
            return
        if standing is None or standing.epoch != self._claim.epoch:
            if self._on_lost is not None:
                run_elsewhere(partial(self._on_lost, self, self._lost_error()))
        elif standing.is_to_cancel:
            self.ask_to_cancel()

    def ask_to_cancel(self) -> None:
        """Have the run cancelled, on another thread, because another process asks for that."""
        if self._on_cancel is not None:
            run_elsewhere(partial(self._on_cancel, self.run_id))

    def refuse_if_lost(self) -> None:
        """Raise `LeaseLost` if another process had the run when its end was to be noted."""
        if self._is_lost:
            raise self._lost_error()

    def _lost_error(self) -> LeaseLost:
        return LeaseLost(
            f"run {self.run_id} is not this process's any more: another one took it over, or erased its user",
            run_id=self.run_id,
        )


def is_in(path: str, outer: str) -> bool:
    """Whether a path is that of a run, or of a run inside of it."""
    return path == outer or path.startswith(f"{outer}/")


class _Flush:
    """Writes the events of a run on a lent thread."""

    __slots__ = ("_part",)

    def __init__(self, part: JournalPart) -> None:
        self._part = part

    def run_turns(self) -> None:
        self._part.write_events()

    def refused(self, cause: RuntimeError) -> None:
        """Leave them to the next write: no thread can be started, and this one may hold the lock of the part."""
        self._part.is_flushing = False


class Beside(NamedTuple):
    """What the row of a run has that may change while it is under way."""

    below: Mapping[str, JsonValue]
    """The session without the changes of the run."""
    revision: int
    seen: Mapping[str, int]
    unsaved: frozenset[str]
    began_with: Mapping[str, tuple[JsonValue, ...]]


class JournalPart:
    """The part of one run in the journal.

    Args:
        journal: of the outermost run.
        account: of this run.
        path: of this run.
    """

    __slots__ = (
        "_account",
        "_closed",
        "_inside",
        "_sent",
        "beside",
        "events",
        "is_flushing",
        "journal",
        "kept",
        "line",
        "lock",
        "path",
        "texts",
    )

    def __init__(self, journal: RunJournal, account: Account, path: str = "") -> None:
        self.journal = journal
        self.path = path
        self.lock = threading.Lock()
        """Held while rows are made and written: those of an earlier work are never written over those of a later one."""
        self.line = UnwrittenLine(account)
        self.events: EventCount | None = None
        """Counts the events of the run; made when its first rows are."""
        self.kept: KeptEvents | None = None
        """Tells the events of the run, if they are kept."""
        self.beside: Beside | None = None
        """What was written beside the line."""
        self.texts: dict[str, str] = {}
        """Id of each artifact that was written -> its text."""
        self._account = account
        self._sent: Sequence[JournalRow] = ()
        """The public events in the transaction of a tool."""
        self.is_flushing = False
        """Whether a thread is about to write events that readers wait for."""
        self._inside: dict[str, Account] = {}
        """Path -> the account of a run inside that is under way."""
        self._closed: list[str] = []
        """Paths of runs inside that are over. Their rows go when this run's rows have the results, and never before."""

    def inside(self, place: str, account: Account) -> JournalPart:
        """Return the part of a run inside of this one."""
        path = f"{self.path}/{place}"
        if path in self._closed:
            self._closed.remove(path)
        before, self._inside[path] = self._inside.get(path), account
        if before is not None:  # the call is made again
            self._account.take_in(before)
        return JournalPart(self.journal, account, path)

    def closed(self, place: str) -> None:
        """Note that the machine has what came of a run inside."""
        path = f"{self.path}/{place}"
        self._closed.append(path)
        inner = self._inside.pop(path, None)
        if inner is not None:
            self._account.take_in(inner)

    def note_saved(self, saved: Mapping[str, SavedValue], sql: Sql) -> None:
        """Note in a transaction that session values are stored, so that a process which goes on does not store them again.

        Raises:
            LeaseLost: another process has the run, and stores values of its own.
        """
        self.journal.put(sql, RunRow(self.path, SAVED, "", json.dumps(saved)))

    def take_closed(self) -> list[str]:
        """Return the paths of runs inside whose results the rows have that are made now; each is returned once."""
        closed, self._closed = self._closed, []
        return closed

    def commit(self, rows: Sequence[JournalRow], closed: Collection[str] = ()) -> None:
        """Write rows, and the public events since the last time.

        Blocks for the store; raises as `RunJournal.commit`.
        """
        if self.kept is None:
            self.journal.commit(self.path, rows, closed)
        else:
            events = self.kept.rows()
            self.journal.commit(self.path, [*rows, *events], closed)
            self.kept.written(events)

    def flush(self) -> None:
        """Have another thread write the events that readers wait for. Does not block."""
        if not self.is_flushing:
            self.is_flushing = True
            submit(_Flush(self))

    def write_events(self) -> None:
        """Write the events that readers wait for, unless they may tell of a step that the journal has not. Blocks for the store."""
        with self.lock:
            self.is_flushing = False
            events = [] if self.kept is None else self.kept.rows()
            if self.kept is None or not events or self.line.has_news:
                return  # the run's next write has both
            with suppress(StoreError, LeaseLost):  # the run hears of it at its own next write
                self.journal.commit(self.path, events)
                self.kept.written(events)

    def commit_in(self, sql: Sql, rows: Sequence[JournalRow]) -> None:
        """Write as `commit` does, in a transaction that does more; `note_committed` follows. Raises as `RunJournal.commit_in`."""
        self._sent = [] if self.kept is None else self.kept.rows()
        self.journal.commit_in(sql, self.path, [*rows, *self._sent])

    def note_committed(self) -> None:
        """Note that the transaction of `commit_in` is committed. Without this call, the next write has its events once more."""
        if self.kept is not None:
            self.kept.written(self._sent)

    def transaction(self, limit: float) -> ServedTransaction:
        """Return a transaction in the database of the journal; nothing else of this part is written while it is open."""
        return self.journal.transaction(self.lock, limit)
