"""Stores that go away for some seconds: each kind is begun by the process whose write meets it, and ends by itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.support.deadly import DeadlyDatabase
from tests.support.postgres_proxy import Proxy

SOON = 60.0  # Seconds in which the parent must have seen that it is asked.


class Outage(NamedTuple):
    """A kind of them, on the parent's side."""

    begin: Callable[[], object]
    end: Callable[[], object]


class Away:
    """One outage of the store of a trial. The child asks for it, and its parent, another process, sees to it.

    Args:
        folder: of the trial.
        kind: one of `KINDS`.
        seconds: how long it is.
        outage: what the parent does.
    """

    def __init__(self, folder: Path, kind: str, seconds: float, outage: Outage) -> None:
        self._asked, self._is_there = folder / "asked", folder / "away"
        self.kind = kind
        self.seconds = seconds
        self._outage = outage
        self._until: float | None = None

    def ask(self, database: DeadlyDatabase) -> None:
        """Have the store go away; returns when it is away. For the child."""
        if self.kind in IN_CONNECTION:
            begin, end = IN_CONNECTION[self.kind]
            database.read(lambda sql: sql.execute(begin))
            threading.Timer(self.seconds, lambda: database.read(lambda sql: sql.execute(end))).start()
            return
        self._asked.touch()
        until, pause = monotonic() + SOON, threading.Event()
        while not self._is_there.exists() and monotonic() < until:
            pause.wait(0.002)

    def attend(self) -> None:
        """Begin the outage if it is asked for, and end it if its time is over. For the parent, again and again."""
        if self._until is None and self._asked.exists():
            self._outage.begin()
            self._until = monotonic() + self.seconds
            self._is_there.touch()
        elif self._until is not None and monotonic() > self._until:
            self.end()

    def end(self) -> None:
        """End the outage, if it has begun."""
        if self._until is not None and self._until != float("inf"):
            self._outage.end()
            self._until = float("inf")


IN_CONNECTION = {
    "full": ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1073741823"),
    "read-only": ("PRAGMA query_only = 1", "PRAGMA query_only = 0"),
}
"""Kinds that the one connection of an SQLite file has in its process: SQLite says the same as of a disk."""
SQLITE_KINDS = ("locked", "moved", *IN_CONNECTION)
POSTGRES_KINDS = ("refused", "cut", "stalled")


def sqlite_outage(kind: str, path: Path) -> Outage:
    """Return what a parent does.

    Args:
        kind: one of `SQLITE_KINDS`.
        path: of the file, in a folder of its own.
    """
    if kind == "locked":
        return _locked(path)
    if kind == "moved":
        away = path.parent.with_name("moved")
        return Outage(lambda: path.parent.rename(away), lambda: away.rename(path.parent))
    return Outage(lambda: None, lambda: None)


def _locked(path: Path) -> Outage:
    held = list[sqlite3.Connection]()

    def begin() -> None:
        held.append(sqlite3.connect(path, isolation_level=None, timeout=20))
        held[0].execute("BEGIN EXCLUSIVE")

    return Outage(begin, lambda: held.pop().close())


def postgres_outage(kind: str, proxy: Proxy) -> Outage:
    """Return what a parent does; `kind` is one of `POSTGRES_KINDS`."""
    if kind == "refused":
        return Outage(proxy.close, proxy.open_again)
    if kind == "cut":
        return Outage(proxy.cut, proxy.cut)
    return Outage(proxy.flows.clear, proxy.flows.set)


def proxy_of(url: str) -> tuple[Proxy, str]:
    """Return a proxy before a server, and the URL by which it is reached."""
    parts = urlsplit(url)
    proxy = Proxy(parts.port or 5432, parts.hostname or "127.0.0.1")
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return proxy, parts._replace(netloc=f"{user}127.0.0.1:{proxy.port}").geturl()
