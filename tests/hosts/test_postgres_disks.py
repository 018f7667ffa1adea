"""A PostgreSQL server whose disk is full, whose tables are locked, or that takes no writes: what is said, and what is kept."""

from __future__ import annotations

import os
import random
import shutil
import string
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.support.postgres import Server, programs
from understudy import ConversationKey, PausedRun, StoreError
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.postgres import connections
from understudy.actors.stores.postgres import database as postgres_database
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

pytestmark = pytest.mark.timeout(180)

KEY = ConversationKey("shop", "ada", "c-1")
ALL = Window(turns=None, tokens=None)
MIB = 1 << 20


class SmallDisk:
    """A disk of its own with a server on it.

    Args:
        folder: where it is mounted.
        server: all of its data are there.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self._folder = folder
        self._filler = folder / "filler"

    def fill(self, left: int) -> None:
        """Leave so many bytes."""
        found = os.statvfs(self._folder)
        with self._filler.open("ab") as filler:
            filler.write(b"x" * max(0, found.f_bavail * found.f_frsize - left))

    def make_room(self) -> None:
        self._filler.unlink()

    def end(self) -> None:
        """End the server, if it has not died."""
        with suppress(AssertionError):
            self.server.kill()


@contextmanager
def mounted(mebibytes: int) -> Generator[Path]:
    """Mount a small disk, which PostgreSQL's user may enter."""
    with tempfile.TemporaryDirectory(prefix="understudy-disk-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=755", "none", folder]
        try:
            done = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            done = False
        if not done:
            pytest.skip("a small disk needs the right to mount one")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def bin() -> Path:
    pytest.importorskip("psycopg")
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return found


@pytest.fixture
def small_disk(bin: Path) -> Iterator[SmallDisk]:
    """A server all of whose data are on a small disk."""
    with mounted(128) as folder:
        server = Server(folder, bin)
        server.start()
        disk = SmallDisk(folder, server)
        yield disk
        disk.end()


@pytest.fixture
def small_log(bin: Path) -> Iterator[SmallDisk]:
    """A server whose log alone is on a small disk."""
    with mounted(64) as folder, tempfile.TemporaryDirectory(prefix="understudy-postgres-") as data:
        server = Server(Path(data), bin)
        log = Path(data) / "data" / "pg_wal"
        shutil.copytree(log, folder / "log")
        shutil.rmtree(log)
        log.symlink_to(folder / "log")
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "postgres", str(folder / "log")], check=True)
        server.start()
        disk = SmallDisk(folder, server)
        yield disk
        disk.end()


def said_by(table: ConversationTable, texts: Iterator[str], acknowledged: list[str]) -> str:
    """Append turns until one is refused; returns what the error says after the name of the store."""
    with pytest.raises(StoreError) as caught:
        for text in texts:
            table.append(KEY, [user_message(text)], f"run-{text[:12]}")
            acknowledged.append(text)
    return str(caught.value).partition(": ")[2]


def kept(database: PostgresDatabase) -> list[str]:
    return [message.text for message in ConversationTable(database).load(KEY, ALL).messages]


def long_texts() -> Iterator[str]:
    """Return texts that cannot be compressed."""
    chance = random.Random(7)
    for number in count():
        yield f"{number:012}" + "".join(chance.choices(string.ascii_letters, k=100_000))


def test_a_disk_that_fills_up_loses_nothing_that_was_acknowledged_and_room_is_enough_to_go_on(
    small_disk: SmallDisk,
) -> None:
    database = PostgresDatabase(small_disk.server.new_database())
    table, texts, acknowledged = ConversationTable(database), long_texts(), list[str]()
    small_disk.fill(left=3 * MIB)

    for _ in range(3):  # again and again
        said = said_by(table, texts, acknowledged)
        assert said.startswith("the disk of its server is full; nothing was changed (")
    assert len(acknowledged) > 5
    assert kept(database) == acknowledged

    small_disk.make_room()
    for text in ("room", "more room"):
        table.append(KEY, [user_message(text)], text)
    assert kept(PostgresDatabase(database_url(small_disk, database))) == [*acknowledged, "room", "more room"]


def database_url(disk: SmallDisk, database: PostgresDatabase) -> str:
    return disk.server.url(repr(database).rpartition("/")[2])


def test_a_server_that_dies_of_a_full_log_has_all_that_was_acknowledged_when_there_is_room(
    small_log: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "PATIENCE", 1.0)
    database = PostgresDatabase(small_log.server.new_database())
    table, texts, acknowledged = ConversationTable(database), long_texts(), list[str]()
    small_log.fill(left=4 * MIB)

    refused = said_by(table, texts, acknowledged)
    assert refused.startswith(DEAD)
    assert len(acknowledged) > 5

    small_log.make_room()
    small_log.end()
    small_log.server.start()
    found = kept(database)
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + ("nobody knows" in refused)
    table.append(KEY, [user_message("room")], "room")
    assert kept(database) == [*found, "room"]


DEAD = (
    "its server could not be reached for 1 s; expected one that answers (",
    "the connection was lost at the commit, and nobody knows whether it was done (",
)


# --- locks, and a server that only takes reads

RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="{}")


def test_a_table_that_somebody_has_locked_is_waited_for_and_then_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(postgres_database, "PATIENCE", 0.5)
    monkeypatch.setitem(connections.SESSION, "lock_timeout", "500")
    table = PauseTable(PostgresDatabase(postgres_url))
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE understudy_pauses")
        for do in (lambda: table.put(RUN, keep=None), lambda: table.get("shop-1")):
            with pytest.raises(StoreError, match="others were in the way for 0.5 s; expected them to be done sooner"):
                do()

    assert table.put(RUN, keep=None)


def test_a_database_that_only_takes_reads_is_told_and_still_read(postgres_server: Server) -> None:
    import psycopg

    url = postgres_server.new_database()
    name = url.rpartition("/")[2]
    table = PauseTable(PostgresDatabase(url))
    table.put(RUN, keep=None)
    with psycopg.connect(postgres_server.url(), autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))

    with pytest.raises(StoreError, match="its server only takes reads; expected one that can be written to"):
        table.take("shop-1", 1)
    assert table.get("shop-1") == RUN
