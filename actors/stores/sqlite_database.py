"""A store in an SQLite file, for any number of threads and processes of one machine."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from understudy.actors.stores import sqlite_file
from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.run_elsewhere import run_elsewhere

from .database import OpenSql, Sql, StoreFigures
from .process_locks import ProcessLocks, process_locks
from .sqlite_job import Job
from .sqlite_writer import SQLiteWriter

FORK_WAIT = 5.0  # Seconds for which a fork waits for transactions in progress.
EXIT_WAIT = 1.0  # Seconds for which the end of the process does; what is not committed then is rolled back.

_writers: weakref.WeakValueDictionary[Path, SQLiteWriter] = weakref.WeakValueDictionary()
_registering = threading.RLock()  # a signal handler may open a store while its own thread does


def writer_of(path: str) -> SQLiteWriter:
    """Return the writer of a file, which lives as long as a store has it."""
    real = Path(os.path.realpath(path))
    with _registering:
        writer = _writers.get(real)
        if writer is None:
            writer = _writers[real] = SQLiteWriter(real)
        return writer


def _before_fork() -> None:
    until = time.monotonic() + FORK_WAIT
    sqlite_file.before_fork(until)
    for writer in list(_writers.values()):
        writer.file.before_fork(until)


def _after_fork_in_parent() -> None:
    for writer in list(_writers.values()):
        writer.file.after_fork_in_parent()
    sqlite_file.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _registering
    _registering = threading.RLock()
    sqlite_file.after_fork_in_child()
    for writer in list(_writers.values()):
        writer.after_fork_in_child()


def _close_files() -> None:
    """Close the files at the end of the process, as before a fork; they are opened again if somebody goes on."""
    until = time.monotonic() + EXIT_WAIT
    for writer in list(_writers.values()):
        writer.file.before_fork(until)
        writer.file.after_fork_in_parent()


at_fork(Stage.STORES, _after_fork_in_child, before=_before_fork, in_parent=_after_fork_in_parent)
atexit.register(_close_files)


T = TypeVar("T")

WORDS = {
    "identity": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "row_id": "INTEGER PRIMARY KEY",  # without a count of all rows ever, which is one page more in each transaction
    "real": "REAL",
    "bigint": "INTEGER",
    "held": "NULL",
    "alone": "SELECT 1 WHERE :number IS NOT NULL",  # a file has one writer
    "life": "''",
    "tables": "SELECT name FROM sqlite_master WHERE type = 'table'",
}


def locks_beside(path: Path) -> ProcessLocks | None:
    """Return which processes that have a file live; None if the operating system has no such locks."""
    return process_locks(path.with_name(f"{path.name}-owners"))


def _nothing(sql: Sql) -> None:
    """Open the file, and see whether it is a database."""


class SQLiteDatabase:
    """A `Database` in a file. All objects of one file and process share its connection. Calls block for
    some 5 s, and for up to 30 s while they see that others take turns.

    Args:
        path: the file, which is made if it is not there, for its owner's eyes only; the current folder counts now.
        durable: whether each transaction is on the disk before it is done, and not only those that ask for it.

    Raises:
        StoreError: the file cannot be opened, or is no database.
    """

    def __init__(self, path: str, *, durable: bool = False) -> None:
        self._durable = durable
        self._writer = writer_of(path)
        self._do(self._writer.job(_nothing, writes=True, durable=durable, makes=True))

    def __repr__(self) -> str:
        return repr(self._writer)

    @property
    def words(self) -> Mapping[str, str]:
        """What SQLite says for the words that differ."""
        return WORDS

    @property
    def locks(self) -> ProcessLocks | None:
        """Which processes that have the file live: files in a folder beside it."""
        return locks_beside(self._writer.path)

    def figures(self) -> StoreFigures:
        """Return the figures of the file in this process; waits for nothing."""
        return self._writer.figures()

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        """Return what `work` returns, once that is committed."""
        return cast(T, self._do(self._writer.job(work, writes=True, durable=durable or self._durable)))

    def write_first(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, once that is committed; it tries for the file more often than others."""
        return cast(T, self._do(self._writer.job(work, writes=True, durable=self._durable, urgent=True)))

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        """Return what `work` returns, once that is committed, in a transaction that is shared with no other work."""
        return cast(T, self._do(self._writer.job(work, writes=True, durable=self._durable, alone=True)))

    def read(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, which only reads."""
        return cast(T, self._do(self._writer.job(work, writes=False)))

    def drop_remains(self) -> None:
        """Empty the log beside the file, which has old pages. Deleted rows are overwritten in the file itself."""
        finished, failures = threading.Event(), list[BaseException]()

        def do() -> None:
            try:
                self._writer.empty_log()
            except BaseException as error:
                failures.append(error)
            finally:
                finished.set()

        run_elsewhere(do)
        finished.wait()
        if failures:
            raise failures[0]

    def _do(self, job: Job) -> object:
        writer = self._writer
        if writer.leads():
            raise RuntimeError(f"store {self!r}: work called the store that it works in, which would wait for itself")
        if threading.current_thread() is not threading.main_thread():
            writer.do(job)
        elif sys.is_finalizing():  # no other thread goes on
            writer.do_first(job)
        else:
            self._do_elsewhere(job)
        return job.result()

    def _do_elsewhere(self, job: Job) -> None:
        """Do a job on a lent thread: a signal handler that writes, while its own thread leads, would wait for itself."""
        finished = threading.Event()

        def do() -> None:
            try:
                if threading.current_thread() is threading.main_thread():  # no thread can be had
                    self._writer.do_first(job)
                else:
                    self._writer.do(job)
            except BaseException as error:
                job.end(error)
            finally:
                finished.set()

        run_elsewhere(do)
        finished.wait()
