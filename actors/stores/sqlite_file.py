"""The one connection of this process to an SQLite file: open while it is used, closed before a fork.

A connection that is open while its process forks spoils the file for the child: SQLite keeps one table of locks for each
file and process, the child inherits it, and so takes no real locks. So the connection is closed before a fork and opened
again at the next use. A child whose parent could not close it refuses to use the file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.errors import StoreError

FORK_WAIT = 5.0  # Seconds for which a fork waits for a transaction in progress.
ONE_TRY = 0.25  # Seconds for which SQLite itself waits for a locked file; a fork may have to wait that long.
WAL_LIMIT = 8_388_608  # Bytes to which the log beside the file is cut when it has grown.


class SQLiteFile:
    """A connection that is lent to one thread at a time.

    Args:
        path: the file, by its whole path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._durable: bool | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._gate = threading.Lock()
        """Passed before the connection is taken; kept by a fork, so that nobody takes the connection before it."""
        self._in_use = threading.Lock()
        """Held while a thread has the connection."""
        self._user: int | None = None
        self._pid = os.getpid()
        self._is_spoilt = False
        self._fork_has_it = False

    @contextmanager
    def lent(self, *, make: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend the connection, opened if it is not. With `make` the file may be new."""
        self._check_process()
        with self._gate:
            self._in_use.acquire()
        try:
            self._user = threading.get_ident()
            if make:
                _make_file(self._path)
            yield self._open()
        finally:
            self._user = None
            self._in_use.release()

    def set_durable(self, database: sqlite3.Connection, durable: bool) -> None:
        """Have the next transaction reach the disk before it is done, or not; never inside of a transaction."""
        if self._durable is not durable:
            database.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def close(self) -> None:
        """Close the connection that this thread was lent: the next one that is lent is a new one."""
        database, self._connection = self._connection, None
        self._durable = None
        if database is not None:
            with suppress(sqlite3.Error):
                database.close()

    def _open(self) -> sqlite3.Connection:
        found = os.stat(self._path)
        inode = (found.st_dev, found.st_ino)
        if self._connection is not None and self._inode != inode:
            self.close()  # another file stands at this path, and what this connection wrote would be lost
        if self._connection is None:
            self._connection, self._inode = _connect(self._path), inode
        return self._connection

    # --- forks

    def _check_process(self) -> None:
        if self._pid != os.getpid():  # a fork in C, which called nobody
            was_open = self._connection is not None
            self._begin_anew()
            self._is_spoilt = was_open
        if self._is_spoilt:
            raise StoreError(
                f"store sqlite:///{self._path}: this process was forked while its parent had the file open, and what both "
                "write would be lost; expected a fork by os.fork() outside of a transaction, or a process of its own",
                store=f"sqlite:///{self._path}",
            )

    def before_fork(self) -> None:
        """Close the connection and keep others from it, if that is possible within `FORK_WAIT`."""
        self._fork_has_it = False
        if self._user == threading.get_ident() or not self._gate.acquire(timeout=FORK_WAIT):
            return
        if not self._in_use.acquire(timeout=FORK_WAIT):
            self._gate.release()
            return
        self._fork_has_it = True
        if self._pid == os.getpid():
            self.close()

    def after_fork_in_parent(self) -> None:
        """Lend the connection again."""
        if self._fork_has_it:
            self._fork_has_it = False
            self._in_use.release()
            self._gate.release()

    def after_fork_in_child(self) -> None:
        """Begin without a connection, or refuse if the parent's could not be closed."""
        is_spoilt = self._is_spoilt or (self._connection is not None and not self._fork_has_it)
        self._begin_anew()
        self._is_spoilt = is_spoilt


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=ONE_TRY, isolation_level=None, check_same_thread=False
    )
    try:
        database.text_factory = bytes.decode  # sqlite3's own error quotes what it cannot decode: a conversation
        if database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            database.execute("PRAGMA journal_mode=WAL")  # what a file system cannot do is not done, and no error
        database.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        database.execute("PRAGMA secure_delete=ON")  # what a user has erased is not left in the file
    except BaseException:
        database.close()
        raise
    return database


def _make_file(path: Path) -> None:
    # Only a new file is opened: to close one that is there drops the locks that this process has on it (POSIX).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
