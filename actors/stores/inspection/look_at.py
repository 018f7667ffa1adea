"""From the URL of a store to its database, to look at it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from understudy.actors.stores.database import Database, OpenSql, Rows, Sql, SqlValue
from understudy.actors.stores.open_store import MEMORY, SQLITE, check_address, is_postgres
from understudy.actors.stores.process_locks import ProcessLocks
from understudy.actors.stores.sqlite_database import WORDS, locks_beside
from understudy.actors.stores.sqlite_failures import why
from understudy.errors import StoreError

T = TypeVar("T")

PATIENCE = 5.0  # Seconds for which a file that others have locked is tried again.


class SQLiteReader:
    """A `Database` of which nothing can be written. Each `read` opens the file and closes it. Not for forks.

    Args:
        path: the file, which must be there.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.realpath(path))

    def __repr__(self) -> str:
        return f"sqlite:///{self._path}"

    @property
    def words(self) -> Mapping[str, str]:
        """What SQLite says for the words that differ."""
        return WORDS

    @property
    def locks(self) -> ProcessLocks | None:
        """Which processes that have the file live."""
        return locks_beside(self._path)

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def write_alone(self, work: Callable[[OpenSql], T]) -> NoReturn:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"store {self!r} was opened to be looked at; expected nothing to be written", store=repr(self))

    def read(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, which only reads. Raises `StoreError`."""
        try:
            with self._open() as connection:
                return work(_Statements(connection))
        except (sqlite3.Error, OSError, UnicodeError) as error:
            raise StoreError(f"store {self!r}: {why(error, self._path, PATIENCE)}", store=repr(self)) from (
                None if isinstance(error, UnicodeError) else error
            )

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        # Not mode=ro: the log beside the file would be left by the last one who closes it.
        address = f"{self._path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)) as connection:
            connection.text_factory = bytes.decode  # sqlite3's own error quotes what it cannot decode
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            yield connection

    def drop_remains(self) -> None:
        """Do nothing: nothing was deleted."""


class _Statements:
    """The statements of one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        return self._connection.execute(statement, values)


def look_at(url: str) -> Database | None:
    """Return the database that a URL names, to read from it: no file and no table is made. None for `memory:`.

    Raises:
        ValueError: a URL that names no store.
        StoreError: the server cannot be reached.
        ImportError: it is in PostgreSQL, and the extra `postgres` is not installed.
    """
    check_address(url)
    if url == MEMORY:
        return None
    if is_postgres(url):
        from understudy.actors.stores.postgres.database import PostgresDatabase

        return PostgresDatabase(url)
    return SQLiteReader(url.removeprefix(SQLITE).partition("?")[0])
