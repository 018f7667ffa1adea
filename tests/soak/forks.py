"""Forks of a process whose threads write to an SQLite store, which no acknowledged row may be lost by."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from understudy.actors.stores.sqlite_database import SQLiteDatabase

AT_ONCE = 4  # Children that write while the parent forks the next.
ROWS = 20  # Rows of each child.
WRITERS = 3
BOUND = 60  # Seconds after which a child that hangs is ended.
TABLE = "CREATE TABLE rows (id TEXT PRIMARY KEY, text TEXT NOT NULL)"
INSERT = "INSERT INTO rows VALUES (:id, :text)"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the rows."""

    forks: int
    acknowledged: int
    """Rows whose write returned, in the parent and in its children."""
    longest_fork: float
    """Seconds, with the wait for the transaction under way."""


def fork_all(forks: int, progress: Callable[[str], object]) -> Report:
    """Fork while threads write, have each child write too, and look for all rows.

    Raises:
        AssertionError: a row is lost, the file is damaged, or a child failed.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder:
        path = Path(folder) / "shop.db"
        database = SQLiteDatabase(str(path))
        database.write(lambda sql: sql.execute(TABLE).rowcount)
        del database
        writers = [_Writer(path, f"parent-{number}") for number in range(WRITERS)]
        children: deque[tuple[int, str]] = deque()
        names, longest = list[str](), 0.0
        try:
            for number in range(forks):
                began = time.perf_counter()
                children.append((_forked(path, f"child-{number}"), f"child-{number}"))
                longest = max(longest, time.perf_counter() - began)
                while len(children) >= AT_ONCE:
                    names.append(_ended(*children.popleft()))
                if (number + 1) % 50 == 0:
                    progress(f"{number + 1} forks, of {forks}")
            names += [_ended(*child) for child in children]
        finally:
            rows = [row for writer in writers for row in writer.ended()]
        rows += [f"{name}-{number}" for name in names for number in range(ROWS)]
        _look_for(rows, path)
        return Report(forks, len(rows), longest)


class _Writer(threading.Thread):
    """Writes rows until it is told to end; every now and then it lets go of the store and opens it again."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._path = path
        self._over = threading.Event()
        self._rows: list[str] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                _write(self._path, self.name, self._rows, len(self._rows) + ROWS)
                gc.collect()
        except BaseException as error:  # noqa: BLE001 (raised where the thread is waited for)
            self._error = error

    def ended(self) -> list[str]:
        """Return the acknowledged rows."""
        self._over.set()
        self.join(BOUND)
        if self._error is not None:
            raise AssertionError(f"{self.name} failed") from self._error
        assert not self.is_alive(), f"{self.name} hangs"
        return self._rows


def _write(path: Path, name: str, rows: list[str], until: int) -> None:
    database = SQLiteDatabase(str(path))
    while len(rows) < until:
        row = f"{name}-{len(rows)}"
        database.write(lambda sql, row=row: sql.execute(INSERT, {"id": row, "text": "x" * 500}).rowcount)  # type: ignore[misc]  # bound now
        rows.append(row)


def _forked(path: Path, name: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads, which this is about
        pid = os.fork()
    if pid:
        return pid
    signal.alarm(BOUND)
    try:
        _write(path, name, [], ROWS)
        os._exit(0)
    except BaseException:  # noqa: BLE001 (printed, and told by the exit status)
        traceback.print_exc()
    finally:
        os._exit(1)


def _ended(pid: int, name: str) -> str:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"{name} ended with {status}"
    return name


def _look_for(rows: list[str], path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        found = {row for (row,) in database.execute("SELECT id FROM rows")}
        (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
    lost = sorted(set(rows) - found)
    assert not lost, f"{len(lost)} of {len(rows)} acknowledged rows are lost, such as {lost[:3]}"
    assert verdict == "ok", f"the file is damaged: {verdict}"
