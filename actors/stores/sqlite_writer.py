"""The transactions of this process in one SQLite file.

Threads that come at the same time share a transaction. A thread that finds no leader leads: it commits its own job, and
then appoints the first thread that has come meanwhile. The new leader commits the jobs of all waiting threads. While another
process has the file locked for writing, the leader tries again, and does the jobs that only read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from understudy.errors import StoreError

from .database import StoreFigures, Unfit, UnfitId, Violated
from .sqlite_failures import is_locked, why
from .sqlite_file import SQLiteFile
from .sqlite_job import FileTurns, Job, Transaction, joining_with, next_turn

PATIENCE = 5.0  # Seconds for which a file that others have locked is tried again.
PAUSE = 0.005  # Between two tries.
URGENT_PAUSE = 0.001  # The same for an urgent job, which so has the file earlier than others.


class SQLiteWriter:
    """Transactions in one file, one after another; shared by all stores of the process that have this file.

    Args:
        path: the file, by its real path.

    Attributes:
        file: its connection.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = SQLiteFile(path)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        """Guards the queue. Nothing blocks under it."""
        self._busy = False
        self._queue: list[Job] = []
        self._leader: int | None = None
        self._since: float | None = None
        """When the leader began."""
        self._turns = FileTurns()
        self._high_water = 0
        self._transactions = 0
        self._calls = 0  # this and the next two are not exact when two calls end at once; nothing depends on them
        self._failed = 0
        self._last_error = ""
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"sqlite:///{self._path}"

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def figures(self) -> StoreFigures:
        """Return what was done so far."""
        since = self._since
        return StoreFigures(
            store=repr(self),
            transactions=self._transactions,
            calls=self._calls,
            failed=self._failed,
            waiting=len(self._queue),
            high_water=self._high_water,
            busy_for=None if since is None else time.monotonic() - since,
            last_error=self._last_error,
        )

    def job(
        self,
        work: Callable[..., object],
        *,
        writes: bool,
        durable: bool = False,
        makes: bool = False,
        alone: bool = False,
        urgent: bool = False,
    ) -> Job:
        """Return a job, whose time begins now."""
        return Job(work, patience=PATIENCE, writes=writes, durable=durable, makes=makes, alone=alone, urgent=urgent)

    def leads(self) -> bool:
        """Whether the calling thread is in a transaction of this file."""
        return self._leader == threading.get_ident()

    def do(self, job: Job) -> None:
        """Do a job, and return when it has ended; never on a main thread."""
        self._check_process()
        with self._lock:
            leads = not self._busy
            if leads:
                self._busy = True
            else:
                self._queue.append(job)
                self._high_water = max(self._high_water, len(self._queue))
        jobs = [job]
        if not leads:
            self._wait(job)
            if job.done:
                return
            jobs = job.batch
        self._lead(jobs)

    def _wait(self, job: Job) -> None:
        """Wait until the job is done or appointed; if its time is over and nobody has begun it, it ends."""
        while not job.turn.acquire(timeout=max(0.0, self._left(job))):
            if self._left(job) <= 0.0:
                break
        else:
            return
        with self._lock:
            is_left = job in self._queue
            if is_left:
                self._queue.remove(job)
        if is_left:
            self._end(job, self._busy_all_the_time(job))
        else:
            job.turn.acquire()

    def _left(self, job: Job) -> float:
        return self._turns.until(job, PATIENCE) - time.monotonic()

    def _waited(self, job: Job) -> float:
        """Return the seconds for which a job has waited that waits no longer, as they are told."""
        more = self._turns.until(job, PATIENCE) - job.until
        return PATIENCE + round(more) if more >= 1.0 else PATIENCE

    def _busy_all_the_time(self, job: Job) -> StoreError:
        text = (
            f"a transaction of this process has kept it busy for {self._waited(job):g} s; expected it to be free sooner"
        )
        return StoreError(f"store {self!r}: {text}", store=repr(self))

    def do_first(self, job: Job) -> None:
        """Do a job without a place in the queue: for a main thread, whose signal handlers must not find it waiting there."""
        self._check_process()
        while True:
            with self._lock:
                if not self._busy:
                    self._busy = True
                    break
            if self._left(job) <= 0.0:
                return self._end(job, self._busy_all_the_time(job))
            time.sleep(PAUSE)
        self._lead([job])

    def empty_log(self) -> None:
        """Move the log into the file and cut it to nothing.

        Raises:
            StoreError: others have read or written all the time, or the file failed.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with self.file.lent() as connection:
                    row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except (sqlite3.Error, OSError) as error:
                if not is_locked(error):
                    raise self._told(error) from error
                row = None
            if row is not None and row[0] == 0:
                return
            if time.monotonic() >= until:
                raise StoreError(
                    f"store {self!r}: others used it for {PATIENCE:g} s, so the log beside the file still has what was deleted; "
                    "it is emptied by the next erasure, or when the last of them closes the file",
                    store=repr(self),
                )
            time.sleep(PAUSE)

    # --- the leader

    def _lead(self, jobs: list[Job]) -> None:
        """Do jobs until the first of them, which is this thread's own, has ended; leave the others to the next leader."""
        mine = jobs[0]
        version: int | None = None
        try:
            attempt = self._attempt_apart if mine.alone else self._attempt
            self._leader = threading.get_ident()
            self._since = time.monotonic()
            jobs[:] = attempt(jobs)
            while not mine.done:
                time.sleep(URGENT_PAUSE if any(job.urgent for job in (*jobs, *self._queue)) else PAUSE)
                version = self._watch_others(version)
                jobs += self._joining(mine)
                jobs[:] = attempt(jobs)
        except BaseException as error:  # nobody else would end them
            for job in jobs:
                job.end(error)
        finally:
            self._appoint([job for job in jobs if not job.done], was_alone=mine.alone)

    def _joining(self, mine: Job) -> list[Job]:
        """Take the jobs from the queue that need not wait for the leader's job, which waits for the file."""
        with self._lock:
            joining, self._queue = joining_with(mine, self._queue)
        return joining

    def _attempt_apart(self, jobs: list[Job]) -> list[Job]:
        """Do a job that shares no transaction, and the jobs that read while it waits."""
        left = jobs[:1]
        began = time.monotonic()
        if not self._turns.rests(began):
            left = self._attempt(left)
            if not left:
                self._turns.ended(began, time.monotonic())
        return left + (self._attempt(jobs[1:]) if jobs[1:] else [])

    def _watch_others(self, before: int | None) -> int | None:
        """Return a number that changes when another process commits, and note that it has changed since the look before."""
        try:
            with self.file.lent() as connection:
                version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        except (sqlite3.Error, OSError, StoreError):  # the next try tells it
            return before
        if before not in (None, version):
            self._turns.others_ended(time.monotonic())
        return version

    def _appoint(self, left: list[Job], *, was_alone: bool = False) -> None:
        """Have the first of the waiting jobs commit all of them, but for jobs that share no transaction: these take turns."""
        with self._lock:
            batch = left + self._queue
            self._queue = []
            self._busy = bool(batch)
            if batch:
                batch, self._queue = next_turn(batch, was_alone=was_alone)
            self._leader = self._since = None
        if batch:
            batch[0].batch = batch
            batch[0].turn.release()

    def _attempt(self, jobs: list[Job]) -> list[Job]:
        """Do jobs in one transaction; return those that must wait because others have the file locked."""
        failure, by_a_job = self._transact(jobs)
        if failure is not None and is_locked(failure):
            return self._put_off(jobs, failure)
        if by_a_job and len(jobs) > 1:  # one job undid the transaction of all: now each has its own
            return [job for one in jobs for job in self._attempt([one])]
        if failure is None:
            self._transactions += 1
        for job in jobs:
            self._end(job, failure if job.raised is None else job.raised)
        return []

    def _end(self, job: Job, error: BaseException | None) -> None:
        told = None if error is None else self._told(error, self._waited(job))
        self._calls += 1
        if isinstance(told, StoreError):
            self._failed += 1
            self._last_error = str(told)
        job.end(told)

    def _put_off(self, jobs: list[Job], failure: BaseException) -> list[Job]:
        """Do the jobs that only read, end the jobs whose time is over, and return the others."""
        writers = [job for job in jobs if job.writes]
        readers = [job for job in jobs if not job.writes]
        left = writers + self._attempt(readers) if writers and readers else jobs
        for job in left:
            if self._left(job) <= 0.0:
                self._end(job, failure)
        return [job for job in left if not job.done]

    def _transact(self, jobs: Sequence[Job]) -> tuple[BaseException | None, bool]:
        """Do jobs in one transaction. Returns why nothing of it was committed, or None, and whether a job was to blame."""
        writers = [job for job in jobs if job.writes]
        in_a_job = False
        try:
            with self.file.lent(make=any(job.makes for job in writers)) as connection:
                try:
                    if writers:
                        self.file.set_durable(connection, any(job.durable for job in writers))
                    connection.execute("BEGIN IMMEDIATE" if writers else "BEGIN")
                    in_a_job = True
                    for job in jobs:
                        self._do_one(connection, job, alone=len(jobs) == 1)
                    in_a_job = False
                    self.file.check_lent(connection)
                    self._commit(connection)
                except BaseException as error:
                    self.file.undo(connection, error)
                    raise
        except BaseException as error:
            return error, in_a_job
        return None, False

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.IntegrityError as error:  # the transaction is still open
            raise Violated(f"store {self!r}: a constraint refused the commit ({error})", store=repr(self)) from error

    def _do_one(self, connection: sqlite3.Connection, job: Job, *, alone: bool) -> None:
        """Do a job; its error undoes its own work alone, unless the whole transaction is lost."""
        job.raised = None
        if not alone:
            connection.execute("SAVEPOINT job")
        sql = Transaction(connection, self.file)
        try:
            job.value = job.work(sql)
        except BaseException as error:
            sql.close()
            if alone or is_locked(error):
                raise
            self.file.check_lent(connection)
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO job")
            job.raised = error
        sql.close()
        if not alone:
            self.file.check_lent(connection)
            connection.execute("RELEASE job")

    def _told(self, error: BaseException, waited: float = PATIENCE) -> BaseException:
        """Return the error for the caller: a failure of the file as a `StoreError`, an error of `work` as it is."""
        if not isinstance(error, sqlite3.Error | OSError | UnicodeError | UnfitId):
            return error
        kind = Unfit if isinstance(error, UnfitId | UnicodeEncodeError | sqlite3.DataError) else StoreError
        told = kind(f"store {self!r}: {why(error, self._path, waited)}", store=repr(self))
        if not isinstance(error, UnicodeError):  # that error holds all that was read
            told.__cause__ = error
        return told

    # --- forks

    def _check_process(self) -> None:
        if self._pid != os.getpid():  # forked in C, which called nobody
            self.after_fork_in_child()

    def after_fork_in_child(self) -> None:
        """Forget the jobs of threads that the child does not have."""
        self.file.after_fork_in_child()
        self._begin_anew()
