"""The journal of runs: what a step costs, and how many bytes a long run is in the store, next to sqlite3 and to what was said.

A round of one tool call is two steps: its beginning, and its result with the model's next request.
"""

from __future__ import annotations

import random
import sqlite3
import string
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import understudy as us
from understudy.actors.stores.database import Sql, SqlValue
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.testing import FunctionModel, calls, says

from . import postgres
from .batch import Batch, Round, timing_itself, warmed
from .measure import Measure, Side
from .sizes import Sizes

T = TypeVar("T")

RUNS = 16
STEPS_OF_A_ROUND = 2
LETTERS = random.Random(7).choices(string.ascii_letters, k=20_000)

ALONE, WHOLE = "a step of the journal, alone", "a step, with all that the run does beside it"
TOGETHER = f"a step of {RUNS} runs at once, with all that they do"
RAW = "sqlite3: as many transactions of as many bytes"
CONTENT, HANDED = "the tools' arguments and results", "handed to the store"
IN_SQLITE, IN_POSTGRES = "in the SQLite file", "in PostgreSQL"


class Handed:
    """Counts the bytes of the texts that statements are given, and the transactions."""

    def __init__(self) -> None:
        self.bytes = 0
        self.transactions = 0

    def within(self, work: Callable[[Sql], T]) -> Callable[[Sql], T]:
        """Return the work of a transaction, counted."""

        def counted(sql: Sql) -> T:
            self.transactions += 1
            return work(_CountedSql(sql, self))

        return counted


class _CountedSql:
    def __init__(self, sql: Sql, handed: Handed) -> None:
        self._sql = sql
        self._handed = handed

    def execute(self, statement: str, values: Mapping[str, SqlValue] | None = None, /) -> Any:
        given: Mapping[str, SqlValue] = {} if values is None else values
        self._handed.bytes += sum([len(each.encode()) for each in given.values() if isinstance(each, str)])
        return self._sql.execute(statement, given)


class _CountedFile(SQLiteDatabase):
    def __init__(self, path: Path) -> None:
        self.handed = Handed()
        super().__init__(str(path))

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        return super().write(self.handed.within(work), durable=durable)


def _agent(rounds: int, size: int, at_the_end: Callable[[], object] = int) -> us.Agent[str]:
    """Return an agent that calls a tool so many times, one call a turn; its results have so many characters each."""

    def look(number: int) -> str:
        """Look something up."""
        begin = number * 37 % (len(LETTERS) - size)
        return "".join(LETTERS[begin : begin + size])

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn <= rounds:
            return calls("look", number=request.turn)
        at_the_end()
        return says("done")

    model, most = FunctionModel(answer), rounds + 1
    return us.Agent("clerk", model=model, tools=[look], max_turns=most, max_iterations=most)


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


@contextmanager
def _raw(folder: str, size: int) -> Generator[Callable[[int], object]]:
    """Give transactions of sqlite3 alone, any number of them, that insert so many bytes each."""
    connection = sqlite3.connect(f"{folder}/raw.db", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "CREATE TABLE steps (text TEXT)"):
        connection.execute(statement)
    text = "x" * size

    def step() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO steps VALUES (?)", (text,))
        connection.execute("COMMIT")

    def steps(number: int) -> None:
        for _ in range(number):
            step()

    yield steps
    connection.close()


def _size_of_a_step(agent: us.Agent[str], path: Path) -> int:
    """Return how many bytes a step of the agent's runs hands to the store."""
    file = _CountedFile(path)
    with us.ActorSystem("counted", store=Store(file)) as system:
        before, transactions = file.handed.bytes, file.handed.transactions
        agent.run("go", system=system)
        return (file.handed.bytes - before) // (file.handed.transactions - transactions)


@contextmanager
def _stage(rounds: int) -> Generator[tuple[Callable[[], object], Callable[[], object], Callable[[int], object]]]:
    """Give a run with a journal, one without, and raw transactions of as many bytes each as a step of the first one."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        agent, file = _agent(rounds, 1_024), SQLiteDatabase(f"{folder}/store.db")
        size = _size_of_a_step(agent, Path(folder) / "counted.db")  # apart: the counting takes time
        with (
            us.ActorSystem("bench", store=Store(file)) as system,
            us.ActorSystem("plain") as plain,
            _raw(folder, size) as raw,
        ):
            yield lambda: agent.run("go", system=system), lambda: agent.run("go", system=plain), raw


@contextmanager
def _alone(sizes: Sizes) -> Generator[Round]:
    steps = STEPS_OF_A_ROUND * sizes.calls
    with _stage(sizes.calls) as (journaled, plain, raw):
        sides: dict[str, Callable[[int], Batch]] = {
            ALONE: partial(timing_itself, lambda: (_seconds(journaled) - _seconds(plain)) / steps),
            WHOLE: partial(timing_itself, lambda: _seconds(journaled) / steps),
            RAW: partial(timing_itself, lambda: _seconds(partial(raw, steps)) / steps),
        }
        yield warmed(sides, sizes.samples)


@contextmanager
def _together(sizes: Sizes) -> Generator[Round]:
    steps = STEPS_OF_A_ROUND * sizes.calls
    with _stage(sizes.calls) as (journaled, _, raw):

        def at_once() -> None:
            threads = [threading.Thread(target=journaled, daemon=True) for _ in range(RUNS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        sides: dict[str, Callable[[int], Batch]] = {
            TOGETHER: partial(timing_itself, lambda: _seconds(at_once) / (RUNS * steps)),
            RAW: partial(timing_itself, lambda: _seconds(partial(raw, steps)) / steps),
        }
        yield warmed(sides, sizes.samples)


def _content(rounds: int, size: int) -> int:
    return sum([size + len(f'{{"number":{number}}}') for number in range(1, rounds + 1)])


def _run_to_the_end(store: Store, rounds: int, size_of: Callable[[], int]) -> float:
    """Run a long run, and return how many bytes the store has of it before its last answer."""
    found: list[int] = []
    agent = _agent(rounds, 5_000, lambda: found.append(size_of()))
    with us.ActorSystem("bench", store=store) as system:
        agent.run("go", system=system)
    return float(found[0])


def _in_file(rounds: int, what: Callable[[_CountedFile, Path], int]) -> Batch:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        path = Path(folder) / "store.db"
        file = _CountedFile(path)
        store = Store(file)  # makes the tables
        before = what(file, path)
        return Batch((_run_to_the_end(store, rounds, lambda: what(file, path) - before),), 0.0)


def _on_disk(file: _CountedFile, path: Path) -> int:
    file.drop_remains()  # the log goes into the file
    return path.stat().st_size


def _in_postgres(rounds: int) -> Batch:
    from understudy.actors.stores.postgres.database import PostgresDatabase

    database = PostgresDatabase(postgres.URL)
    store = Store(database)  # makes the tables
    database.write(lambda sql: sql.execute("TRUNCATE understudy_run_rows, understudy_runs").rowcount)
    size = "SELECT pg_total_relation_size('understudy_run_rows') + pg_total_relation_size('understudy_runs')"

    def measured() -> int:
        found: int = database.read(lambda sql: sql.execute(size).fetchall())[0][0]
        return found

    before = measured()
    return Batch((_run_to_the_end(store, rounds, lambda: measured() - before),), 0.0)


@contextmanager
def _bytes(sizes: Sizes) -> Generator[Round]:
    rounds = 3 if sizes.quick else 1_000

    def one_round(number: int) -> Mapping[str, Batch]:
        found = {
            HANDED: _in_file(rounds, lambda file, _: file.handed.bytes),
            IN_SQLITE: _in_file(rounds, _on_disk),
            CONTENT: Batch((float(_content(rounds, 5_000)),), 0.0),
        }
        return found | ({IN_POSTGRES: _in_postgres(rounds)} if postgres.URL else {})

    yield one_round


STEP = Measure(
    name="journal-step",
    title=lambda sizes: (
        f"one step of a run's journal in SQLite: one of {sizes.calls} rounds of one call, results of 1 KB"
    ),
    ours=(Side(label=ALONE, target=150e-6), Side(label=WHOLE)),
    references=(Side(label=RAW),),
    prepare=_alone,
)

STEPS = Measure(
    name="journal-steps",
    title=lambda sizes: f"one step of {RUNS} such runs at once",
    ours=(Side(label=TOGETHER, target=1 / 3_000),),
    references=(Side(label=RAW),),
    prepare=_together,
)

SIZE = Measure(
    name="journal-bytes",
    title=lambda sizes: f"bytes of a run of {3 if sizes.quick else 1_000:,} tool calls, results of 5 KB",
    ours=(
        Side(label=HANDED, target_ratio=1.2),
        Side(label=IN_SQLITE, target_ratio=1.1),
        *([Side(label=IN_POSTGRES, target_ratio=1.3)] if postgres.URL else []),
    ),
    references=(Side(label=CONTENT),),
    prepare=_bytes,
    unit="bytes",
)

MEASURES = (STEP, STEPS, SIZE)
