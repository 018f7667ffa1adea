"""From the URL of a store to its database, to look at it."""

from __future__ import annotations

from understudy.actors.stores.database import Database
from understudy.actors.stores.open_store import MEMORY, SQLITE, check_address, is_postgres

from .sqlite_reader import SQLiteReader


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
