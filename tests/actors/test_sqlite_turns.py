"""The turns of processes in one SQLite file: rules without a clock, and two processes."""

from __future__ import annotations

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from tests.hosts.processes import started
from tests.support.scripts import WAIT
from understudy.actors.journal.run_owners import RunOwners
from understudy.actors.stores import sqlite_job, sqlite_writer
from understudy.actors.stores.runs import RunTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.sqlite_job import LONGEST, FileTurns, Job

PATIENCE = 5.0
HOLDER = """
import sys, threading
from understudy.actors.stores.sqlite_database import SQLiteDatabase

database = SQLiteDatabase(sys.argv[1])
holds = threading.Event()


def hold(sql):
    holds.set()
    threading.Event().wait(0.4)


def go_on():
    while True:
        database.write_alone(hold)


for _ in range(3):
    threading.Thread(target=go_on, daemon=True).start()
holds.wait()
print("holds", flush=True)
sys.stdin.read()
"""


def job(until: float, *, alone: bool = False) -> Job:
    made = Job(dict, patience=PATIENCE, writes=True, alone=alone)
    made.until = until
    return made


@pytest.mark.parametrize(("held", "rest"), [(0.001, 0.0), (0.02, 0.0), (0.3, 0.03), (4.0, 0.05)])
def test_a_tenth_of_the_time_of_a_long_transaction_belongs_to_others(held: float, rest: float) -> None:
    turns = FileTurns()
    turns.ended(100.0 - held, 100.0)

    assert turns.rests(100.0) == (rest > 0.0)
    assert not turns.rests(100.0 + rest + 0.001)


def test_a_job_waits_for_its_own_time_while_nothing_moves() -> None:
    turns = FileTurns()
    turns.ended(99.999, 100.0)

    assert turns.until(job(104.0), PATIENCE) == 104.0


def test_a_step_waits_on_while_transactions_end() -> None:
    turns = FileTurns()
    turns.others_ended(103.0)

    assert turns.until(job(104.0), PATIENCE) == 108.0
    turns.ended(103.0, 107.0)
    assert turns.until(job(104.0), PATIENCE) == 112.0


def test_a_step_waits_no_longer_than_the_limit() -> None:
    turns = FileTurns()
    turns.others_ended(1_000.0)

    assert turns.until(job(105.0), PATIENCE) == 100.0 + LONGEST


def test_a_transaction_that_is_shared_with_nobody_waits_for_its_own_time_alone() -> None:
    turns = FileTurns()
    turns.others_ended(103.0)

    assert turns.until(job(104.0, alone=True), PATIENCE) == 104.0


def test_a_process_whose_tools_always_have_a_transaction_lets_another_process_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_job, "LONGEST", 0.0)  # the rest alone is to be enough
    monkeypatch.setattr(sqlite_writer, "PATIENCE", 2.0)
    path = str(tmp_path / "shop.db")
    database = SQLiteDatabase(path)
    database.write(lambda sql: sql.execute("CREATE TABLE words (word TEXT)").rowcount)

    with started("-c", HOLDER, path, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        for _ in range(6):
            assert database.write(lambda sql: sql.execute("INSERT INTO words VALUES ('mine')").rowcount) == 1


def test_a_beat_tries_for_the_file_more_often_than_the_steps_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "PAUSE", 3 * WAIT)  # too long for a step
    path = str(tmp_path / "shop.db")
    database = SQLiteDatabase(path)
    RunTable(database)
    owners = RunOwners(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        beaten = pool.submit(lambda: owners.beat("7", 15.0, [1]))
        wait([beaten], timeout=0.05)
        other.execute("COMMIT")

        assert beaten.result(WAIT) == {}


def test_a_step_outlasts_others_that_take_turns_for_longer_than_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "PATIENCE", 1.5)
    path = str(tmp_path / "shop.db")
    database = SQLiteDatabase(path)
    database.write(lambda sql: sql.execute("CREATE TABLE words (word TEXT)").rowcount)
    insert = "INSERT INTO words VALUES ('one')"
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        written = pool.submit(lambda: database.write(lambda sql: sql.execute(insert).rowcount))
        for _ in range(6):  # 2.4 s in all; the file is free for an instant between two turns
            wait([written], timeout=0.4)
            other.execute(insert)
            other.execute("COMMIT")
            other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        assert written.result(WAIT) == 1
