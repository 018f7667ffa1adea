"""A step of a store: one row of 1 KB, written and committed in an SQLite file, next to the same with sqlite3 alone."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase

from .batch import Batch, Round, timed, warmed
from .measure import Measure, Side
from .sizes import Sizes

THREADS = 16
TABLE = "CREATE TABLE steps (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"
INSERT = "INSERT INTO steps (text) VALUES (:text)"
VALUES = {"text": "x" * 1024}

ALONE, DURABLE, MAIN = "on a thread of its own", "the same, on the disk (durability=full)", "on the main thread"
RAW, RAW_DURABLE = "sqlite3: BEGIN IMMEDIATE, INSERT, COMMIT", "sqlite3, on the disk (synchronous=FULL)"
TOGETHER, ONE_LOCK = "16 threads, one store", "16 threads, one sqlite3 connection, one lock"
AFTER_EACH_OTHER = "one thread, sqlite3"


def _step(sql: Sql) -> None:
    sql.execute(INSERT, VALUES)


def _raw_step(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INSERT, VALUES)
    connection.execute("COMMIT")


@contextmanager
def _files() -> Generator[tuple[SQLiteDatabase, Callable[[str], sqlite3.Connection]]]:
    """Give a store, and a function that opens a raw connection; each has a file of its own on the disk of temporary files."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        database = SQLiteDatabase(str(Path(folder) / "store.db"))
        database.write(lambda sql: sql.execute(TABLE).rowcount)
        opened: list[sqlite3.Connection] = []

        def raw(synchronous: str) -> sqlite3.Connection:
            path = Path(folder) / f"raw-{len(opened)}.db"
            opened.append(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
            for statement in ("PRAGMA journal_mode=WAL", f"PRAGMA synchronous={synchronous}", TABLE):
                opened[-1].execute(statement)
            return opened[-1]

        yield database, raw
        for connection in opened:
            connection.close()


def _elsewhere(sample: Callable[[int], Batch], calls: int) -> Batch:
    """Take a batch on a thread that is not the main one."""
    taken: list[Batch] = []
    thread = threading.Thread(target=lambda: taken.append(sample(calls)), daemon=True)
    thread.start()
    thread.join()
    return taken[0]


def in_threads(step: Callable[[], object], steps: int) -> None:
    """Do so many steps in each of several threads at once."""

    def work() -> None:
        for _ in range(steps):
            step()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _alone(sizes: Sizes) -> Generator[Round]:
    with _files() as (database, raw):
        sides = {
            ALONE: partial(_elsewhere, partial(timed, lambda: database.write(_step))),
            DURABLE: partial(_elsewhere, partial(timed, lambda: database.write(_step, durable=True))),
            MAIN: partial(timed, lambda: database.write(_step)),
            RAW: partial(timed, partial(_raw_step, raw("NORMAL"))),
            RAW_DURABLE: partial(timed, partial(_raw_step, raw("FULL"))),
        }
        yield warmed(sides, sizes.calls)


@contextmanager
def _together(sizes: Sizes) -> Generator[Round]:
    with _files() as (database, raw):
        shared, single, lock = raw("NORMAL"), raw("NORMAL"), threading.Lock()

        def locked() -> None:
            with lock:
                _raw_step(shared)

        def in_a_row() -> None:
            for _ in range(THREADS * sizes.calls):
                _raw_step(single)

        sides = {
            TOGETHER: partial(timed, lambda: in_threads(lambda: database.write(_step), sizes.calls)),
            AFTER_EACH_OTHER: partial(timed, in_a_row),
            ONE_LOCK: partial(timed, lambda: in_threads(locked, sizes.calls)),
        }
        yield warmed(sides, sizes.samples)


STEP = Measure(
    name="store-step",
    title=lambda _: "one step of a store in SQLite: a row of 1 KB and a commit, alone",
    ours=(Side(label=ALONE, target_ratio=3.0), Side(label=DURABLE), Side(label=MAIN)),
    references=(Side(label=RAW), Side(label=RAW_DURABLE)),
    prepare=_alone,
)

STEPS = Measure(
    name="store-steps",
    title=lambda sizes: (
        f"{THREADS * sizes.calls} steps of a store in SQLite: {THREADS} threads, {sizes.calls} steps each"
    ),
    ours=(Side(label=TOGETHER, target_ratio=4.0),),
    references=(Side(label=AFTER_EACH_OTHER), Side(label=ONE_LOCK)),
    prepare=_together,
)
