"""Paused runs in an SQLite file, for any number of threads and processes of one machine.

Every call opens the file and closes it again. A connection that is open while its process forks spoils the file for the
child, even if the child only uses connections of its own: SQLite keeps one table of locks for each file and process, the
child inherits it, and so takes no real locks. What both write is then lost. So no connection outlives a call, and no fork
of this process comes in the midst of one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import StoreError
from understudy.vocabulary.runs.pause_store import PausedRun

T = TypeVar("T")

PATIENCE = 5.0  # Seconds for which a file that others have locked is tried again.
ONE_TRY = 0.25  # Of these, how long one try holds up a fork.
PAUSE = 0.01  # Between two tries.
KEPT = 30 * 86_400.0  # Seconds for which a token that was used is told from one that never was.

VERSION = 1
SCHEMA = (
    "CREATE TABLE understudy_schema (part TEXT PRIMARY KEY, version INTEGER NOT NULL)",
    f"INSERT INTO understudy_schema VALUES ('pauses', {VERSION})",
    """CREATE TABLE understudy_pauses (
        run_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, nonce TEXT NOT NULL, payload TEXT NOT NULL,
        state TEXT NOT NULL, forget_at REAL
    )""",
    "CREATE INDEX understudy_pauses_forget_at ON understudy_pauses (forget_at)",
)
"""The names leave room for tables of others. `forget_at` is in seconds since 1970; an entry without it is never forgotten."""

PUT = """
INSERT INTO understudy_pauses VALUES (:run_id, :revision, :nonce, :payload, 'waiting', :forget_at)
ON CONFLICT (run_id) DO UPDATE SET revision = excluded.revision, nonce = excluded.nonce, payload = excluded.payload,
    state = excluded.state, forget_at = excluded.forget_at
WHERE state != 'waiting' AND revision < excluded.revision
"""
GET = "SELECT run_id, revision, nonce, payload, state FROM understudy_pauses WHERE run_id = ?"
TAKE = """
UPDATE understudy_pauses SET state = 'taken', forget_at = :forget_at
WHERE run_id = :run_id AND revision = :revision AND state = 'waiting'
"""
CLOSE = """
UPDATE understudy_pauses SET state = 'over', payload = '', forget_at = :forget_at
WHERE run_id = :run_id AND revision = :revision
"""
FORGET = "DELETE FROM understudy_pauses WHERE forget_at <= ?"

_alone = threading.RLock()
"""Held during each call, and by who forks: SQLite has one table of locks for the whole process."""


class SQLiteStore:
    """A `PauseStore` in a file, which is made if it is not there, for its owner's eyes only. Calls block for 5 s at most.

    Args:
        path: the file; the current folder counts now, and not later.
        clock: seconds since 1970.

    Raises:
        StoreError: the file cannot be opened, is no database, or was made by a later version.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._path = Path(path).absolute()
        self._clock = clock
        self._call(self._prepare, make=True)

    def __repr__(self) -> str:
        return f"sqlite:///{self._path}"

    def put(self, paused: PausedRun, *, keep: float | None) -> bool:
        now = self._clock()
        row = {
            "run_id": paused.run_id,
            "revision": paused.revision,
            "nonce": paused.nonce,
            "payload": paused.payload,
            "forget_at": None if keep is None else now + keep,
        }

        def write(database: sqlite3.Connection) -> bool:
            database.execute(FORGET, (now,))
            return database.execute(PUT, row).rowcount == 1

        return self._call(write)

    def get(self, run_id: str) -> PausedRun | None:
        row = self._call(lambda database: database.execute(GET, (run_id,)).fetchone())
        if row is None:
            return None
        _, revision, nonce, payload, state = row
        return PausedRun(run_id=run_id, revision=revision, nonce=nonce, payload=payload, state=state)

    def take(self, run_id: str, revision: int) -> bool:
        return self._mark(TAKE, run_id, revision)

    def close(self, run_id: str, revision: int) -> None:
        self._mark(CLOSE, run_id, revision)

    def _mark(self, statement: str, run_id: str, revision: int) -> bool:
        row = {"run_id": run_id, "revision": revision, "forget_at": self._clock() + KEPT}
        return self._call(lambda database: database.execute(statement, row).rowcount == 1)

    # --- the file

    def _call(self, work: Callable[[sqlite3.Connection], T], *, make: bool = False) -> T:
        """Do `work` in one transaction; while others have the file locked, try again. With `make` the file may be new."""
        until = time.monotonic() + PATIENCE
        broken: int | None = None
        while True:
            try:
                with _alone:
                    if make:
                        _make_file(self._path)
                    return self._transact(work)
            except UnicodeDecodeError as error:
                broken = error.start
            except (sqlite3.Error, OSError, UnicodeError) as error:
                if not _is_locked(error) or time.monotonic() >= until:
                    raise StoreError(f"store {self!r}: {_why(error, self._path)}", store=repr(self)) from error
            if broken is not None:  # raised here: the error above holds all that was read
                why = f"what it holds is not UTF-8, at byte {broken}; expected what this store wrote"
                raise StoreError(f"store {self!r}: {why}", store=repr(self))
            time.sleep(PAUSE)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        uri = f"{self._path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=ONE_TRY, isolation_level=None)) as database:
            database.text_factory = bytes.decode  # sqlite3's own error quotes what it cannot decode: a conversation
            if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                database.execute("PRAGMA journal_mode=WAL")  # what a file system cannot do is not done, and no error
            database.execute("PRAGMA synchronous=FULL")  # a token that was handed out outlives a power failure
            database.execute("BEGIN IMMEDIATE")
            found = work(database)
            database.execute("COMMIT")
            return found

    def _prepare(self, database: sqlite3.Connection) -> None:
        tables = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'understudy_schema'").fetchone()
        found = None
        if tables != (0,):
            found = database.execute("SELECT version FROM understudy_schema WHERE part = 'pauses'").fetchone()
        if found is None:
            for statement in SCHEMA[tables[0] :]:  # without the first one, if there is a table of versions already
                database.execute(statement)
        elif found != (VERSION,):
            raise StoreError(
                f"store {self!r} was made by a later version of understudy: its pauses have schema {found[0]}, and "
                f"this version knows schema {VERSION}",
                store=repr(self),
            )


def _make_file(path: Path) -> None:
    # Only a new file is opened: to close one that is there drops the locks that this process has on it (POSIX).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _is_locked(error: Exception) -> bool:
    # PROTOCOL: several processes opened or left the file at once.
    codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
    return isinstance(error, sqlite3.Error) and _code(error) in codes


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest tells variants; what Python itself raises has none


def _why(error: Exception, path: Path) -> str:
    """Say what is wrong with the file, and what was expected."""
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent}; expected one in which the file can be made"
    if os.path.isdir(path):
        return "this is a folder; expected an SQLite file, or none yet"
    if not os.path.exists(path):
        return f"the file is not there; expected what was made when the store was opened ({error})"
    code = _code(error) if isinstance(error, sqlite3.Error) else 0
    if _is_locked(error):
        return f"others have kept it locked for {PATIENCE:g} s; expected it to be free sooner ({error})"
    if code == sqlite3.SQLITE_NOTADB:
        return "this is no SQLite database; expected one, or no file yet"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"it cannot be written to by this process; expected a file and a folder that can ({error})"
    if code == sqlite3.SQLITE_FULL:
        return f"its disk is full; nothing was changed ({error})"
    return f"{error}"


def _wait_for_calls() -> None:
    _alone.acquire()


def _go_on_in_parent() -> None:
    _alone.release()


def _go_on_in_child() -> None:
    """Make the lock anew; a server that forks in C has not called the other two."""
    global _alone
    _alone = threading.RLock()


at_fork(Stage.STORES, _go_on_in_child, before=_wait_for_calls, in_parent=_go_on_in_parent)
