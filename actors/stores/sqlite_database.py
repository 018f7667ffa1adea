"""A store in an SQLite file, for any number of threads and processes of one machine.

Threads that write at the same time share a transaction: a thread that finds nobody writing leads, which means that it
commits its own work; then it appoints the first of those that came meanwhile, who commits for all of them. A main thread
has a lent thread write for it: a handler of a signal that writes, while its own thread leads, would wait for itself.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from understudy.actors.threads.forked import Stage, at_fork
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import StoreError

from .database import Sql
from .sqlite_failures import is_locked, why
from .sqlite_file import SQLiteFile

T = TypeVar("T")

PATIENCE = 5.0  # Seconds for which a file that others have locked is tried again.
PAUSE = 0.01  # Between two tries.

WORDS = {"identity": "INTEGER PRIMARY KEY AUTOINCREMENT", "real": "REAL", "bigint": "INTEGER"}


class _Job:
    """Work that waits for a transaction."""

    __slots__ = ("batch", "done", "durable", "error", "turn", "value", "work", "writes")

    def __init__(self, work: Callable[[Sql], object], *, writes: bool, durable: bool) -> None:
        self.work = work
        self.writes = writes
        self.durable = durable
        self.value: object = None
        self.error: BaseException | None = None
        self.done = False
        self.batch: list[_Job] = []
        """What its thread is to commit, if it was appointed."""
        self.turn = threading.Lock()
        """Free when the job is done or its thread is appointed."""
        self.turn.acquire()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class SQLiteDatabase:
    """A `Database` in a file; one object for each file and process. Calls block for some 5 s at most.

    Args:
        path: the file, which is made if it is not there, for its owner's eyes only; the current folder counts now.
        durable: whether each transaction is on the disk before it is done, and not only those that ask for it.

    Raises:
        StoreError: the file cannot be opened, or is no database.
    """

    def __init__(self, path: str, *, durable: bool = False) -> None:
        self._path = Path(path).absolute()
        self._durable = durable
        self._file = SQLiteFile(self._path)
        self._begin_anew()
        _databases.add(self)
        self._do(_Job(lambda sql: None, writes=True, durable=durable), make=True)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        """Guards the queue. Nothing blocks under it."""
        self._busy = False
        self._queue: list[_Job] = []

    def __repr__(self) -> str:
        return f"sqlite:///{self._path}"

    @property
    def words(self) -> Mapping[str, str]:
        """What SQLite says for the words that differ."""
        return WORDS

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        """Return what `work` returns, once that is committed."""
        return cast(T, self._submit(_Job(work, writes=True, durable=durable or self._durable)))

    def read(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, which only reads."""
        return cast(T, self._submit(_Job(work, writes=False, durable=self._durable)))

    def _submit(self, job: _Job) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return self._do(job)
        finished = threading.Event()

        def do() -> None:
            try:
                self._do(job)
            except BaseException as error:
                job.error = error
            finally:
                finished.set()

        run_elsewhere(do)
        finished.wait()
        return job.result()

    def _do(self, job: _Job, *, make: bool = False) -> Any:
        with self._lock:
            leads = not self._busy
            if leads:
                self._busy = True
            else:
                self._queue.append(job)
        jobs = [job]
        if not leads:
            job.turn.acquire()
            jobs, leads = job.batch, not job.done
        if leads:
            try:
                self._commit(jobs, make)
            finally:
                self._appoint()
        return job.result()

    def _appoint(self) -> None:
        """Have the first of the jobs that came meanwhile commit all of them."""
        with self._lock:
            batch, self._queue = self._queue, []
            self._busy = bool(batch)
        if batch:
            batch[0].batch = batch
            batch[0].turn.release()

    def _commit(self, jobs: Sequence[_Job], make: bool) -> None:
        """Do all jobs in one transaction; while others have the file locked, try again. Each is done afterwards."""
        until = time.monotonic() + PATIENCE
        failure: BaseException | None = None
        while True:
            try:
                with self._file.lent(make=make) as database:
                    self._transact(database, jobs)
                break
            except BaseException as error:
                failure = error
            if not is_locked(failure) or time.monotonic() >= until:
                break
            failure = None
            time.sleep(PAUSE)
        for job in jobs:
            if failure is not None:
                job.error = self._told(failure)
            elif job.error is not None:
                job.error = self._told(job.error)
            job.done = True
        for job in jobs[1:]:
            job.turn.release()

    def _transact(self, database: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
        writes = any(job.writes for job in jobs)
        self._file.set_durable(database, any(job.durable for job in jobs))
        try:
            database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            for job in jobs:
                _do_one(database, job, alone=len(jobs) == 1)
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            if database.in_transaction:
                self._file.close()
            raise

    def _told(self, error: BaseException) -> BaseException:
        """Return the error for who called: what the file did as a `StoreError`, and what `work` raised as it is."""
        if not isinstance(error, sqlite3.Error | OSError | UnicodeError):
            return error
        told = StoreError(f"store {self!r}: {why(error, self._path, PATIENCE)}", store=repr(self))
        if not isinstance(error, UnicodeError):  # that error holds all that was read
            told.__cause__ = error
        return told

    # --- forks

    def before_fork(self) -> None:
        """Close the file."""
        self._file.before_fork()

    def after_fork_in_parent(self) -> None:
        """Open it again at the next use."""
        self._file.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Forget the jobs of threads that are not here."""
        self._file.after_fork_in_child()
        self._begin_anew()


def _do_one(database: sqlite3.Connection, job: _Job, *, alone: bool) -> None:
    """Do a job; what it raises undoes what it did, and is its own affair unless the whole transaction is lost by it."""
    job.error = None
    if not alone:
        database.execute("SAVEPOINT job")
    try:
        job.value = job.work(database)
    except BaseException as error:
        if alone or not database.in_transaction or is_locked(error):
            raise
        database.execute("ROLLBACK TO job")
        job.error = error
    if not alone:
        database.execute("RELEASE job")


_databases: weakref.WeakSet[SQLiteDatabase] = weakref.WeakSet()


def _each(method: Callable[[SQLiteDatabase], object]) -> Callable[[], None]:
    def call() -> None:
        for database in list(_databases):
            method(database)

    return call


at_fork(
    Stage.STORES,
    _each(SQLiteDatabase.after_fork_in_child),
    before=_each(SQLiteDatabase.before_fork),
    in_parent=_each(SQLiteDatabase.after_fork_in_parent),
)
