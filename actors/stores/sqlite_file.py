"""The one connection of this process to an SQLite file: open while it is used, closed before a fork.

A connection that is open while its process forks spoils the file for the child: SQLite keeps one table of locks for each
file and process, the child inherits it, and so takes no real locks. So the connection is closed before a fork and opened
again at the next use. A child whose parent could not close it refuses to use the file.

Two connections are given up without being closed: one that was inherited, and one whose file was replaced. To close
them would delete the log of the other process, or of the new file.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from understudy.errors import StoreError

from .database import ENDED
from .sqlite_failures import is_broken

WAL_LIMIT = 8_388_608  # Bytes to which the log beside the file is cut when it has grown.

_spoilt: set[tuple[int, int]] = set()
"""Device and inode of files that this process must not open: its parent had them open when it was forked."""

_closing = threading.RLock()
"""Held while a connection without an owner is closed, and by a fork: SQLite's own locks must be free in the child."""


class SQLiteFile:
    """A connection that is lent to one thread at a time.

    Args:
        path: the file, by its real path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)
        """The same, at hand: each transaction looks at the file."""
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._durable: bool | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        # Locks with an owner: what is held after a fork is known from them, whatever interrupted the hook before it.
        self._gate = threading.RLock()
        """Passed before the connection is taken; kept by a fork, so that nobody takes the connection before it."""
        self._in_use = threading.RLock()
        """Held while a thread has the connection."""
        self._user: int | None = None
        self._pid = os.getpid()

    def lent(self, *, make: bool = False) -> _Loan:
        """Lend the connection, opened if it is not. With `make` the file may be a new one or another one than before."""
        return _Loan(self, make=make)

    def lend(self, *, make: bool) -> tuple[sqlite3.Connection, threading.RLock]:
        """Return the connection, opened if it is not, and the lock that this thread holds from now on."""
        self.check_process()
        in_use = self._in_use  # a fork inside of the block makes it anew in the child
        with self._gate:
            in_use.acquire()
        try:
            self._user = threading.get_ident()
            if make:
                _make_file(self._path)
            return self._open(anew=make), in_use
        except BaseException:
            self.take_back(in_use)
            raise

    def take_back(self, in_use: threading.RLock) -> None:
        """Let other threads have the connection; `in_use` is the lock that came with it."""
        if self._in_use is in_use:
            self._user = None
        in_use.release()

    def set_durable(self, database: sqlite3.Connection, durable: bool) -> None:
        """Have the next transaction reach the disk before it is done, or not; never inside of a transaction."""
        if self._durable is not durable:
            self._durable = None
            database.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def check_lent(self, database: sqlite3.Connection) -> None:
        """Raise `StoreError` if this process was forked since the connection was lent."""
        if self._connection is not database or self._pid != os.getpid():
            raise self._refusal()

    def check_in_transaction(self, database: sqlite3.Connection) -> None:
        """Raise `StoreError` if a statement of a tool has ended the transaction."""
        if not database.in_transaction:
            raise self._error(ENDED)

    def undo(self, database: sqlite3.Connection, error: BaseException) -> None:
        """Roll back the transaction that the error ended, and close a connection that it may have broken."""
        if self._connection is not database or self._pid != os.getpid():
            return  # the parent's: even a rollback would change its index
        with suppress(sqlite3.Error):  # after a failed rollback the connection is closed
            database.execute("ROLLBACK")
        if database.in_transaction or is_broken(error):
            self.close()

    def close(self) -> None:
        """Close the connection that this thread was lent: the next one that is lent is a new one."""
        database, self._connection = self._connection, None
        self._durable = None
        if database is None:
            return
        if self._is_in_place():
            with suppress(sqlite3.Error):  # nobody uses it any more
                database.close()
        else:
            _keep_for_ever(database)

    def _is_in_place(self) -> bool:
        try:
            return self._inode == self._inode_there()
        except OSError:
            return False

    def _inode_there(self) -> tuple[int, int]:
        return _inode_of(os.stat(self._name))

    def _open(self, *, anew: bool) -> sqlite3.Connection:
        inode = self._inode_there()
        if self._inode not in (None, inode):
            if not anew:  # what is in the log belongs to the file that was there
                raise self._error(
                    "another file stands in its place; expected the one with which the store was opened: end all "
                    "processes that use a store before its file is replaced"
                )
            self.close()
        if self._connection is None:
            if inode in _spoilt:
                raise self._refusal()
            self._inode = inode
            self._connection = connect(self._path)
            self._inode = self._inode_there()  # an overlay copies a file when it is opened to be written
        return self._connection

    def _refusal(self) -> StoreError:
        return self._error(
            "this process was forked while its parent had the file open, and what both write would be lost; expected a "
            "fork by os.fork() outside of a transaction, or a process of its own"
        )

    def _error(self, text: str) -> StoreError:
        return StoreError(f"store sqlite:///{self._path}: {text}", store=f"sqlite:///{self._path}")

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_connection", None) is None or is_finalizing():
            return
        self.check_process()
        with _closing:
            self.close()

    # --- forks

    def check_process(self) -> None:
        """Begin anew if this process was forked in C, which called nobody."""
        if self._pid != os.getpid():
            self.after_fork_in_child()

    def before_fork(self, until: float) -> None:
        """Close the connection and keep others from it, if that is possible until then, by the monotonic clock."""
        self.check_process()
        if self._user == threading.get_ident() or not self._gate.acquire(timeout=_left(until)):
            return
        if self._in_use.acquire(timeout=_left(until)):
            self.close()
        else:
            self._gate.release()

    def after_fork_in_parent(self) -> None:
        """Lend the connection again."""
        if self._user != threading.get_ident():
            for lock in (self._in_use, self._gate):
                with suppress(RuntimeError):  # not held by this thread
                    lock.release()

    def after_fork_in_child(self) -> None:
        """Begin without a connection, and refuse to open the file if the parent's connection could not be closed."""
        database, self._connection = self._connection, None
        self._durable = None
        if self._inode is not None and (database is not None or self._user is not None):
            _spoilt.add(self._inode)
        if database is not None:
            _keep_for_ever(database)
        self._begin_anew()


class _Loan:
    """A block in which one thread has the connection. No generator: each step of a run has one."""

    __slots__ = ("_file", "_in_use", "_make")

    def __init__(self, file: SQLiteFile, *, make: bool) -> None:
        self._file = file
        self._make = make
        self._in_use: threading.RLock | None = None

    def __enter__(self) -> sqlite3.Connection:
        connection, self._in_use = self._file.lend(make=self._make)
        return connection

    def __exit__(self, *_: object) -> None:
        assert self._in_use is not None, "it was lent"
        self._file.take_back(self._in_use)


def before_fork(until: float) -> None:
    """Wait until no connection without an owner is being closed."""
    _closing.acquire(timeout=_left(until))


def after_fork_in_parent() -> None:
    """Let such connections be closed again."""
    with suppress(RuntimeError):  # not held by this thread
        _closing.release()


def after_fork_in_child() -> None:
    """Make the lock anew."""
    global _closing
    _closing = threading.RLock()


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _inode_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _keep_for_ever(database: sqlite3.Connection) -> None:
    """Never close the connection, not even at the end of the interpreter."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that is there, for any thread."""
    # SQLite does not wait for locks (timeout): while it waits, no other thread could read and no process could be forked.
    database = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
    )
    try:
        database.text_factory = bytes.decode  # sqlite3's own error quotes what it cannot decode: a conversation
        if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            database.execute("PRAGMA journal_mode=WAL")  # what a file system cannot do is not done, and no error
        database.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        database.execute(
            f"PRAGMA wal_autocheckpoint={WAL_LIMIT // 4096}"
        )  # In pages: SQLite's own limit is half of it.
        database.execute("PRAGMA secure_delete=ON")  # what a user has erased is not left in the file
    except BaseException:
        database.close()
        raise
    return database


def _make_file(path: Path) -> None:
    # Only a new file is opened: to close one that is there drops the locks that this process has on it (POSIX).
    with suppress(FileExistsError):  # another thread or process has made it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
