"""Work for an SQLite file, and what it is given: the statements of one transaction."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from understudy.vocabulary.context.transactions import SqlParameters, SqlRows

from .database import SqlValue
from .sqlite_file import SQLiteFile

INSTRUCTIONS = 10_000  # Of SQLite's machine, some 0.1 ms, between two looks at the time.
NO_VALUES: Mapping[str, SqlValue] = {}


class Job:
    """Work that waits for a transaction.

    Args:
        work: what to do in it.
        writes: whether it needs the file's lock for writers.
        durable: whether the transaction is to be on the disk when it is done.
        makes: whether the file may be new.
        alone: whether it shares its transaction with no other job.
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
    ) -> None:
        self.work = work
        self.writes = writes
        self.durable = durable
        self.makes = makes
        self.alone = alone
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


class Transaction:
    """The statements of one job. They are closed with it: one that stays open keeps the log growing, and survives a close.

    Args:
        connection: the connection, inside of a transaction.
        file: whose connection it is.
    """

    __slots__ = ("_connection", "_file", "_rows")

    def __init__(self, connection: sqlite3.Connection, file: SQLiteFile) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._file = file
        self._rows: list[sqlite3.Cursor] = []

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
            RuntimeError: the transaction is over.
            StoreError: this process was forked inside of the transaction.
        """
        connection = self._connection
        if connection is None:
            raise RuntimeError("a statement came after the end of its transaction")
        self._file.check_lent(connection)
        connection.set_progress_handler(lambda: left() <= 0.0, INSTRUCTIONS)
        try:
            cursor = connection.execute(statement, parameters)
            try:
                columns = [column[0] for column in cursor.description or ()]
                rows = cursor.fetchall()
                return SqlRows(columns, rows, cursor.rowcount)
            finally:
                cursor.close()
        finally:
            connection.set_progress_handler(None, 0)

    def end_given(self) -> None:
        """Do nothing: SQLite checks the constraints that wait for the commit at the commit alone."""

    def close(self) -> None:
        """Close the rows of all statements."""
        self._connection = None
        for rows in self._rows:
            rows.close()
