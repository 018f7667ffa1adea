"""Work for an SQLite file: what it is given, when it has its turn, and for how long it waits.

SQLite has no line for its lock: a process that wants it tries again every few milliseconds, and gets it if it tries in the
moment in which nobody has it. So a process that has had the lock for long leaves it to others for a while.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from understudy.vocabulary.context.transactions import SqlParameters, SqlRows

from .database import SqlValue
from .sqlite_file import SQLiteFile

OWN = "understudy_"
_ENDS = {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
_READS = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_HARMLESS_PRAGMAS = {
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "data_version",  # asked by full-text tables
    "page_size",  # asked by spatial tables
}


class Guard:
    """Which statements of a tool one transaction accepts: SQLite asks about each part of a statement when it compiles it.

    Attributes:
        refused: what was refused last, in words; empty if nothing was.
    """

    def __init__(self) -> None:
        self.refused = ""

    def judge(self, action: int, first: str | None, second: str | None, place: str | None, inner: str | None) -> int:
        """Return whether a part of a statement is allowed, as `sqlite3.Connection.set_authorizer` has it."""
        why = "" if action in _READS else _why_not(action, first or "", second or "", place)
        self.refused = why or self.refused
        return sqlite3.SQLITE_DENY if why else sqlite3.SQLITE_OK


def _why_not(action: int, first: str, second: str, place: str | None) -> str:
    if action in _ENDS or (action == sqlite3.SQLITE_PRAGMA and first.lower() not in _HARMLESS_PRAGMAS):
        return "it concerns the transaction or the connection, which others use later"
    if action == sqlite3.SQLITE_PRAGMA:
        return ""
    if place == "temp" and action != sqlite3.SQLITE_UPDATE:  # ALTER TABLE looks for uses of the table there
        return "temporary objects stay on the connection, which others use later; make a table of your own"
    names = (first,) if action == sqlite3.SQLITE_UPDATE else (first, second)  # the other one is a column
    if any(name.lower().startswith(OWN) for name in names):
        return f"tables whose names begin with {OWN} are the runtime's"
    return ""


INSTRUCTIONS = 10_000  # Of SQLite's machine, some 0.1 ms, between two looks at the time.
LONG = 0.02  # Seconds; a step of a run holds the lock for less.
REST = 0.05  # Seconds at most for which the lock is left to others: some ten of their tries.
LONGEST = 30.0  # Seconds for which a job waits while it sees that others take turns.
NO_VALUES: Mapping[str, SqlValue] = {}


class Job:
    """Work that waits for a transaction.

    Args:
        work: what to do in it.
        writes: whether it needs the file's lock for writers.
        durable: whether the transaction is to be on the disk when it is done.
        makes: whether the file may be new.
        alone: whether it shares its transaction with no other job.
        urgent: whether it is to have the file before the jobs of other processes.
        patience: seconds for which it waits for a file that others have locked.

    Attributes:
        value: what `work` returned the last time.
        raised: what `work` raised the last time; it undoes what this job did, and nothing else.
        done: whether it ended.
        until: when it stops to wait, by the monotonic clock.
        batch: what its thread is to commit, if it was appointed.
        turn: free when the job is done or its thread is appointed.
    """

    __slots__ = (
        "_failure",
        "alone",
        "batch",
        "done",
        "durable",
        "makes",
        "raised",
        "turn",
        "until",
        "urgent",
        "value",
        "work",
        "writes",
    )

    def __init__(
        self,
        work: Callable[..., object],
        *,
        patience: float,
        writes: bool,
        durable: bool = False,
        makes: bool = False,
        alone: bool = False,
        urgent: bool = False,
    ) -> None:
        self.work = work
        self.writes = writes
        self.durable = durable
        self.makes = makes
        self.alone = alone
        self.urgent = urgent
        self.until = time.monotonic() + patience
        self.value: object = None
        self.raised: BaseException | None = None
        self._failure: BaseException | None = None
        self.done = False
        self.batch: list[Job] = []
        self.turn = threading.Lock()
        self.turn.acquire()

    def end(self, failure: BaseException | None) -> None:
        """Wake the thread that waits for the job; only the first call counts."""
        if not self.done:
            self._failure = failure
            self.done = True
            self.turn.release()

    def result(self) -> Any:
        """Return what `work` returned, or raise why nothing was committed."""
        if self._failure is not None:
            raise self._failure
        return self.value


def next_turn(waiting: list[Job], *, was_alone: bool) -> tuple[list[Job], list[Job]]:
    """Return the jobs of the next transaction, and those that wait on.

    Jobs that share no transaction and those that do take turns, so that neither wait for all of the others.

    Args:
        waiting: at least one job, in the order in which they came.
        was_alone: whether the transaction before was of a job that shares none.
    """
    shared = [job for job in waiting if not job.alone]
    if len(shared) == len(waiting):
        return shared, []
    if shared and (was_alone or not waiting[0].alone):
        return shared, [job for job in waiting if job.alone]
    first = next(job for job in waiting if job.alone)
    return [first], [job for job in waiting if job is not first]


def joining_with(leading: Job, waiting: list[Job]) -> tuple[list[Job], list[Job]]:
    """Return the jobs that are tried together with a job that waits for the file, and those that wait on.

    A job that shares no transaction is joined by jobs that only read: they need not wait for it.
    """
    joins = [job for job in waiting if not (job.alone or (leading.alone and job.writes))]
    return joins, [job for job in waiting if job not in joins]


class FileTurns:
    """What one process knows about the turns of all processes. It has no clock; times are those of the monotonic one."""

    def __init__(self) -> None:
        self._rests_until = 0.0
        self._moved = 0.0
        """When a long transaction of this process, or any transaction of another one, was last seen to end."""

    def rests(self, now: float) -> bool:
        """Whether this process leaves the lock to others now, instead of a transaction that may be long."""
        return now < self._rests_until

    def ended(self, began: float, now: float) -> None:
        """Note a transaction of this process. After a long one, a tenth of its time belongs to others."""
        held = now - began
        if held > LONG:
            self._rests_until = now + min(held / 10, REST)
            self._moved = now

    def others_ended(self, now: float) -> None:
        """Note that another process has committed a transaction."""
        self._moved = now

    def until(self, job: Job, patience: float) -> float:
        """Return when a job stops to wait.

        A step of a run waits for as long as transactions end, since its run could not go on without it. A job that
        shares no transaction does not: its caller can be told.

        Args:
            job: the job.
            patience: seconds for which a job waits while nothing moves.
        """
        if job.alone:
            return job.until
        return max(job.until, min(self._moved + patience, job.until - patience + LONGEST))


class Transaction:
    """The statements of one job. They are closed with it: one that stays open keeps the log growing, and survives a close.

    Args:
        connection: the connection, inside of a transaction.
        file: whose connection it is.
    """

    __slots__ = ("_connection", "_file", "_guard", "_rows")

    def __init__(self, connection: sqlite3.Connection, file: SQLiteFile) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._file = file
        self._rows: list[sqlite3.Cursor] = []
        self._guard: Guard | None = None
        """What is asked about the statements of a tool, if there were any."""

    def execute(self, statement: str, values: Mapping[str, SqlValue] = NO_VALUES, /) -> sqlite3.Cursor:
        """Run a statement.

        Raises:
            RuntimeError: the transaction is over.
            StoreError: this process was forked inside of the transaction.
        """
        if self._connection is None:
            raise RuntimeError(
                "a statement came after the end of its transaction; expected all of them inside of `work`"
            )
        self._file.check_lent(self._connection)
        rows = self._connection.execute(statement, values)
        self._rows.append(rows)
        return rows

    def execute_given(self, statement: str, parameters: SqlParameters, left: Callable[[], float], /) -> SqlRows:
        """Run a statement of a tool's, and return all of its rows; one for which no time is left is interrupted.

        Raises:
            sqlite3.Error: it failed.
            ValueError: it is refused; see `Guard`.
            RuntimeError: the transaction is over.
            StoreError: this process was forked inside of the transaction, or the statement ended it.
        """
        connection = self._connection
        if connection is None:
            raise RuntimeError("a statement came after the end of its transaction")
        self._file.check_lent(connection)
        guard = self._guarded(connection)
        connection.set_progress_handler(lambda: left() <= 0.0, INSTRUCTIONS)
        try:
            cursor = connection.execute(statement, parameters)
            try:
                columns = [column[0] for column in cursor.description or ()]
                rows = cursor.fetchall()
                made = SqlRows(columns, rows, cursor.rowcount)
            finally:
                cursor.close()
        except sqlite3.DatabaseError as error:
            if guard.refused:
                raise ValueError(f"execute: the statement is refused: {guard.refused}") from error
            raise
        else:
            self._file.check_in_transaction(connection)
            return made
        finally:
            connection.set_progress_handler(None, 0)

    def _guarded(self, connection: sqlite3.Connection) -> Guard:
        """Have SQLite ask about each statement, once for all of them: it compiles its statements anew then."""
        guard = self._guard
        if guard is None:
            guard = self._guard = Guard()
            connection.set_authorizer(guard.judge)
        return guard

    def is_in_the_way(self, error: Exception) -> bool:
        """Return False: a transaction that writes is alone in the file."""
        return False

    def end_given(self) -> None:
        """Have SQLite ask no more. It checks the constraints that wait for the commit at the commit alone."""
        if self._guard is not None and self._connection is not None:
            self._guard = None
            with suppress(sqlite3.ProgrammingError):  # it is closed
                self._connection.set_authorizer(None)

    def close(self) -> None:
        """Close the rows of all statements."""
        self.end_given()
        self._connection = None
        for rows in self._rows:
            rows.close()
