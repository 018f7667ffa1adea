"""The connections of this process to a PostgreSQL server: a pool, made at its first use and anew after a fork."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import weakref
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from .failures import has_stray_at

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

PATIENCE = 5.0  # Seconds for which a transaction is repeated, or a connection is waited for.
ONE_WAIT = 0.5  # Seconds for which a connection is waited for before the pool is asked for a new one.
MAX_CONNECTIONS = 16
IDLE_CONNECTIONS = 1  # Kept open while nobody uses the store.
CLOSING = 1.0  # Seconds for the threads of a pool that is closed: they take milliseconds.

SESSION = {
    # A frozen process blocks others for this many ms at most; less than they wait for it, so it costs them no error.
    "idle_in_transaction_session_timeout": "3000",
    "lock_timeout": "5000",
    "statement_timeout": "15000",
    "enable_seqscan": "off",  # a scan of a small table would make all who write to it conflict
}
SETTINGS: dict[str, Any] = {
    "connect_timeout": int(PATIENCE),
    "fallback_application_name": "understudy",
    # A host that has gone without a word is found in some 15 s, and not in hours.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""What libpq is told where the URL says nothing."""

BAD_URL = (
    "its URL cannot be read; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE with options of libpq, and each "
    "of @ / : ? # [ ] % and each space in a user or a password percent-encoded, as urllib.parse.quote(password, safe='') does"
)

LIFE_TEXT = "CAST(pg_postmaster_start_time() AS text) || CAST(pg_stat_get_bgwriter_stat_reset_time() AS text)"
LIFE = f"SELECT {LIFE_TEXT}"
"""Another text after each start of the server, and after each recovery from a crash."""


class Connections:
    """The pool of one store. Safe to use from any thread.

    Args:
        url: of the database, for libpq.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        """Guards the pool while it is made."""
        self._pool: ConnectionPool[Any] | None = None
        self._lives: weakref.WeakKeyDictionary[psycopg.Connection[Any], str] = weakref.WeakKeyDictionary()

    def borrow(self, until: float) -> psycopg.Connection[Any]:
        """Return a connection without a transaction; it is given back with `give_back`.

        Args:
            until: when the caller stops waiting, by the monotonic clock.

        Raises:
            psycopg.Error: none can be had.
        """
        from psycopg_pool import PoolTimeout

        pool = self._opened()
        try:
            connection: psycopg.Connection[Any] = pool.getconn(
                timeout=max(0.1, min(ONE_WAIT, until - time.monotonic()))
            )
            return connection
        except PoolTimeout:
            self.connect().close()  # raises the reason, unless all connections of the pool are in use
            raise

    def give_back(self, connection: psycopg.Connection[Any]) -> None:
        """Take a connection back, whatever has become of it."""
        pool = self._pool
        if connection not in self._lives:  # in a forked child: it is the parent's
            return
        with suppress(Exception):  # the call has its result
            if pool is not None:
                return pool.putconn(connection)
        with suppress(Exception):  # its pool was closed while it was lent
            connection.close()

    def rest(self) -> None:
        """Close the connections that nobody uses; the next call opens others. One that is lent is closed when it comes back."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            _close(pool, os.getpid(), CLOSING)

    def life_of(self, connection: psycopg.Connection[Any]) -> str:
        """Return a text that another life of the server does not have; empty if it does not tell."""
        return self._lives.get(connection, "")

    def _opened(self) -> ConnectionPool[Any]:
        with self._lock:
            if self._pool is None:
                self.connect().close()  # a pool would try in the background, and not say why it fails
                self._pool = self._new_pool()
            return self._pool

    @cached_property
    def _settings(self) -> dict[str, Any]:
        given = _read(self._url)
        ours = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        theirs = given.get("options") or os.environ.get("PGOPTIONS", "")
        left = {name: value for name, value in SETTINGS.items() if name not in given}
        return left | {"options": f"{ours} {theirs}".rstrip()}

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection that is not of the pool. Raises `psycopg.Error`."""
        import psycopg

        return psycopg.connect(self._url, autocommit=True, **self._settings)

    def _new_pool(self) -> ConnectionPool[Any]:
        from psycopg_pool import ConnectionPool

        logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # a host that wants its lines has a handler
        pool = ConnectionPool(
            self._url,
            kwargs=self._settings | {"autocommit": True},  # transactions are begun and ended by hand
            configure=partial(_learn_life, self._lives),  # nothing that keeps this object alive
            min_size=IDLE_CONNECTIONS,
            max_size=MAX_CONNECTIONS,
            num_workers=1,
            reconnect_timeout=0.0,  # its own attempts are seconds apart; here the next caller makes the next one
            open=True,
        )
        weakref.finalize(self, _close, pool, os.getpid(), 0.0)
        return pool

    def leave_to_parent(self) -> None:
        """Leave all to the parent, in a forked child: nothing is sent on its connections, and they are not closed here."""
        for connection in list(self._lives):
            with suppress(Exception):  # it is closed: it has no descriptor
                detach(connection.fileno())
        if self._pool is not None:
            keep_for_ever(self._pool)  # its end would wait for threads that are not here
        self._begin_anew()


def _read(url: str) -> dict[str, Any]:
    """Return the parts of a URL. Raises `psycopg.ProgrammingError`, which quotes none of them: libpq's own errors have passwords."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    with suppress(psycopg.Error):
        parts = conninfo_to_dict(url)
        is_clear = "@" not in str(parts.get("host", "")) and re.fullmatch(r"[\d,]*", str(parts.get("port", "")))
        if is_clear and not has_stray_at(url):
            return parts
    raise psycopg.ProgrammingError(BAD_URL)


def _learn_life(
    lives: weakref.WeakKeyDictionary[psycopg.Connection[Any], str], connection: psycopg.Connection[Any]
) -> None:
    import psycopg

    lives[connection] = ""
    with suppress(psycopg.Error):  # a server that is only like PostgreSQL
        row = connection.execute(LIFE).fetchone()
        lives[connection] = "" if row is None else row[0] or ""


def keep_for_ever(thing: object) -> None:
    """Never collect what belongs to the parent, in a forked child."""
    _left.append(thing)


_left: list[object] = []


def detach(descriptor: int) -> None:
    """Point a descriptor of this process at the null device, so that a later close sends nothing to the server."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nowhere, descriptor, inheritable=False)
    finally:
        os.close(nowhere)


def _close(pool: ConnectionPool[Any], pid: int, seconds: float) -> None:
    """Close a pool, and wait so many seconds for its threads."""
    if pid == os.getpid():
        with suppress(Exception):  # called by the garbage collector or at exit, too: nobody could handle it
            pool.close(timeout=seconds)
