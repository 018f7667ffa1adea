"""Which processes that have a database on a server live: each holds a lock of a session of its own.

PostgreSQL frees the lock when the connection ends, and the operating system ends the connection with the process. If the
server restarts, the lock is lost while the process lives, until the process asks for its name again. Meanwhile others may take
its runs over, and their epoch refuses what it still writes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from understudy.actors.stores.database import Sql
from understudy.errors import StoreError

from .connections import detach, keep_for_ever

if TYPE_CHECKING:
    import psycopg

SPACE = 1_970_499_684  # The first number of all these locks; any number that other programs hardly use.
TAKE = f"SELECT pg_try_advisory_lock({SPACE}, %s)".encode()
PROBE = f"SELECT pg_try_advisory_xact_lock({SPACE}, :number)"
ALONE = f"SELECT 1 FROM pg_catalog.pg_advisory_xact_lock({SPACE + 1}, CAST(:number AS integer))"
HELD = f"""owner IN (
    SELECT CAST(CAST(objid AS bigint) AS text) FROM pg_locks WHERE locktype = 'advisory' AND classid = {SPACE} AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""
"""Whether the lock of the process in the column `owner` is held, for a statement that asks about many."""


class SessionLocks:
    """The names of living processes, as locks on a server. Safe to use from any thread.

    Args:
        connect: opens a connection.
        read: runs a transaction that only reads.
        shown: the store, for errors.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        read: Callable[[Callable[[Sql], bool]], bool],
        shown: str,
    ) -> None:
        self._connect = connect
        self._read = read
        self._shown = shown
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        """Guards the name and its connection; held while the connection is opened."""
        self._connection: psycopg.Connection[Any] | None = None
        self._name = ""

    def name(self) -> str:
        """Return the name of this process; after the connection was lost, another one if others hold the lock of the first.

        Raises:
            StoreError: no connection can be had.
        """
        with self._lock:
            if self._connection is None or _is_lost(self._connection):
                self._take_name()
            return self._name

    def _take_name(self) -> None:
        import psycopg

        try:
            connection = self._connect()
            number = int(self._name) if self._name else secrets.randbelow(2**31 - 1) + 1
            while connection.execute(TAKE, (number,)).fetchone() != (True,):  # the server still has the lost session
                number = secrets.randbelow(2**31 - 1) + 1
        except (psycopg.Error, OSError) as error:
            failure = f"store {self._shown}: no lock can be had for this process ({type(error).__name__})"
        else:
            self._connection, self._name = connection, str(number)
            return
        raise StoreError(failure, store=self._shown)  # outside of the block: the driver's error has the password

    def lives(self, name: str) -> bool:
        """Whether the process of a name lives. Raises `StoreError`."""
        if not name.isdigit():
            return True
        number = int(name)

        def probe(sql: Sql) -> bool:
            row = sql.execute(PROBE, {"number": number}).fetchone()
            return row is not None and not row[0]

        return name == self._name or self._read(probe)

    def leave_to_parent(self) -> None:
        """Have no name, in a forked child, and never end the parent's session."""
        connection = self._connection
        self._begin_anew()
        if connection is not None:
            with suppress(Exception):
                detach(connection.fileno())
            keep_for_ever(connection)


def _is_lost(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has ended an idle session; asks the socket alone, and does not block."""
    import psycopg

    with suppress(psycopg.Error):
        connection.pgconn.consume_input()  # the server's last words
        connection.pgconn.consume_input()  # the end of the connection
        return connection.closed
    connection.close()
    return True
