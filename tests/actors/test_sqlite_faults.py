"""Disks, files and processes that fail under an SQLite store: what is said, what is kept, and that the next process works."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.hosts.forking import in_child
from tests.hosts.processes import started
from tests.support.scripts import WAIT
from tests.support.stores import sqlite_pauses
from understudy import PausedRun, StoreError
from understudy.actors.stores import sqlite_writer
from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.sqlite_failures import why

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.timeout(60),
]
RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="[]")


def insert(word: str) -> Callable[[Sql], int]:
    return lambda sql: sql.execute("INSERT INTO words VALUES (:word)", {"word": word}).rowcount


def opened(path: Path) -> SQLiteDatabase:
    database = SQLiteDatabase(str(path))
    database.write(lambda sql: sql.execute("CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY)").rowcount)
    return database


def words(database: SQLiteDatabase) -> set[str]:
    rows = database.read(lambda sql: sql.execute("SELECT word FROM words").fetchall())
    return {word for (word,) in rows}


def error_of(do: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        do()
    return str(caught.value)


# --- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk needs the right to mount one")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_disk_that_fills_up_loses_nothing_that_was_acknowledged_and_room_is_enough_to_go_on(small_disk: Path) -> None:
    path, filler = small_disk / "shop.db", small_disk / "filler"
    database = opened(path)
    filler.write_bytes(b"x" * 300_000)
    acknowledged = list[str]()

    numbers = count()

    def fill() -> None:
        for number in numbers:
            word = f"{number}-{'x' * 5_000}"
            database.write(insert(word))
            acknowledged.append(word)

    for _ in range(3):  # again and again
        said = error_of(fill)
        assert said.startswith(f"store sqlite:///{path}: its disk is full; nothing was changed, expected room for it")
    assert words(database) == set(acknowledged)
    assert len(acknowledged) > 20

    filler.unlink()
    assert database.write(insert("room")) == 1
    in_child(lambda: words(opened(path)) == {*acknowledged, "room"} or pytest.fail("words are lost"))


# --- damaged files


def many_words(path: Path) -> set[str]:
    database = opened(path)
    written = {f"{number}-{'x' * 500}" for number in range(200)}
    database.write(lambda sql: [insert(word)(sql) for word in written])
    return written


def test_bytes_that_were_overwritten_are_told_as_damage_and_the_store_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    many_words(path)
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(b"\xa5" * (path.stat().st_size - 8_192 - 4_096))

    def try_it() -> None:
        said = error_of(lambda: words(opened(path)))
        assert "what it holds is damaged; expected a whole SQLite database, such as a copy of an earlier day" in said

    in_child(try_it)
    size = path.stat().st_size
    in_child(try_it)
    assert path.stat().st_size == size


def test_a_file_that_was_cut_is_told_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    many_words(path)
    os.truncate(path, 4_096 * 3)

    def try_it() -> None:
        assert "what it holds is damaged" in error_of(lambda: words(opened(path)))

    in_child(try_it)


def test_a_damaged_log_costs_the_transactions_in_it_and_the_rest_is_whole(tmp_path: Path) -> None:
    path, log = tmp_path / "shop.db", tmp_path / "shop.db-wal"
    written = many_words(path)

    def die() -> None:
        database = opened(path)
        for number in range(50):
            database.write(insert(f"logged-{number}"))
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(AssertionError, match="the child ended with -9"):
        in_child(die)
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(b"\xa5" * 5_000)

    database = opened(path)
    found = words(database)
    logged = {f"logged-{number}" for number in range(len(found) - len(written))}
    assert found == written | logged
    assert 0 < len(logged) < 50
    assert database.write(insert("next")) == 1


def test_tables_that_are_gone_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    store = sqlite_pauses(str(path))
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE understudy_pauses")

    assert "its tables are gone; expected the file with which the store was opened" in error_of(lambda: store.get("a"))


# --- locks


def test_a_file_that_another_process_has_locked_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.db"
    database = opened(path)
    program = f"""
import sqlite3, sys
other = sqlite3.connect({str(path)!r}, isolation_level=None)
other.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""
    with started("-c", program, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        monkeypatch.setattr(sqlite_writer, "PATIENCE", 0.5)
        began = time.monotonic()
        assert "others have kept it locked for 0.5 s" in error_of(lambda: database.write(insert("a")))
        assert 0.4 <= time.monotonic() - began < WAIT
        monkeypatch.undo()
        assert words(database) == set()

        process.kill()
        process.wait(WAIT)
    assert database.write(insert("b")) == 1


# --- the end of processes

WRITER = """
import os, sys, threading
from understudy.actors.stores.sqlite_database import SQLiteDatabase

database = SQLiteDatabase(sys.argv[1])
database.write(lambda sql: sql.execute("CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY)").rowcount)

def write(name):
    for number in range(1_000_000):
        word = f"{os.getpid()}-{name}-{number}"
        database.write(lambda sql: sql.execute("INSERT INTO words VALUES (:word)", {"word": word}).rowcount)
        os.write(1, f"{word}\\n".encode())

threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in range(4)]
for thread in threads:
    thread.start()
sys.stdin.readline()
"""


def acknowledged(process: subprocess.Popen[str], enough: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(enough)]


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    told = set[str]()
    for enough in (1, 50, 500):
        with started("-c", WRITER, str(path), stdin=subprocess.PIPE) as process:
            told |= set(acknowledged(process, enough))
            process.kill()
            assert process.stdout is not None
            told |= {line.strip() for line in process.stdout if line.endswith("\n")}

    assert told <= words(opened(path))


def test_a_process_ends_in_the_midst_of_writes_of_daemon_threads(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    for _ in range(3):
        with started("-X", "dev", "-c", WRITER, str(path), stdin=subprocess.PIPE) as process:
            told = acknowledged(process, 50)
            out, err = process.communicate("\n", timeout=WAIT)
            # The beginning of the first line here may be lost in the buffer out of which the lines before were read.
            told += [line for line in out.splitlines(keepends=True)[1:] if line.endswith("\n")]

        assert (process.returncode, err) == (0, "")
        assert {line.strip() for line in told} <= words(opened(path))


HOLDS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("has it", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a lock")
def test_the_error_of_a_locked_file_names_the_process_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE a (b INTEGER)")
        command = [sys.executable, "-c", HOLDS, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "has it\n"
            with pytest.raises(sqlite3.OperationalError) as locked:
                database.execute("BEGIN IMMEDIATE")
            told = why(locked.value, path, 5.0)
            other.communicate("")

    assert told.startswith(f"others have kept it locked for 5 s; process {other.pid} writes now")
