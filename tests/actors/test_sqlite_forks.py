"""Forks of a process that has an SQLite store: a child has a connection of its own, or is told why not."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.hosts.forking import in_child
from tests.hosts.processes import output_of
from tests.soak.forks import fork_all
from tests.support.scripts import WAIT
from understudy import StoreError
from understudy.actors.stores import sqlite_database, sqlite_file
from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.timeout(60),
]
REFUSED = "forked while its parent had the file open"


@pytest.fixture
def database(tmp_path: Path) -> SQLiteDatabase:
    return made(str(tmp_path / "shop.db"))


def made(path: str) -> SQLiteDatabase:
    """Return a database with a table."""
    database = SQLiteDatabase(path)
    database.write(lambda sql: sql.execute("CREATE TABLE words (word TEXT PRIMARY KEY)").rowcount)
    return database


def insert(word: str) -> Callable[[Sql], int]:
    return lambda sql: sql.execute("INSERT INTO words VALUES (:word)", {"word": word}).rowcount


def words(database: SQLiteDatabase) -> list[str]:
    rows = database.read(lambda sql: sql.execute("SELECT word FROM words ORDER BY word").fetchall())
    return [word for (word,) in rows]


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as other:
        return list(other.execute("PRAGMA integrity_check")) == [("ok",)]


class Held(threading.Thread):
    """A transaction that stays open until it is told to end."""

    def __init__(self, database: SQLiteDatabase, word: str) -> None:
        super().__init__(daemon=True)
        self._database, self._word = database, word
        self._inside, self.go = threading.Event(), threading.Event()
        self.start()
        assert self._inside.wait(WAIT)

    def run(self) -> None:
        def work(sql: Sql) -> None:
            insert(self._word)(sql)
            self._inside.set()
            self.go.wait(WAIT)

        self._database.write(work)

    def ended(self) -> None:
        self.go.set()
        self.join(WAIT)
        assert not self.is_alive()


def test_no_row_is_lost_while_a_parent_closes_and_opens_the_file_and_its_children_write() -> None:
    report = fork_all(12, lambda _: None)

    assert report.forks == 12


def test_workers_of_multiprocessing_write_while_the_parent_does(database: SQLiteDatabase) -> None:
    def write(who: str) -> None:
        for number in range(20):
            assert database.write(insert(f"{who}-{number}")) == 1

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=write, args=(f"child{number}",)) for number in range(3)]
    for child in children:
        child.start()
    write("parent")
    for child in children:
        child.join(WAIT)

    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(words(database)) == 80


def test_a_fork_waits_for_the_transaction_under_way(database: SQLiteDatabase) -> None:
    held = Held(database, "held")
    threading.Timer(0.2, held.go.set).start()

    in_child(lambda: database.write(insert("child")))

    held.ended()
    assert words(database) == ["child", "held"]


def test_a_child_of_a_fork_that_waited_in_vain_refuses_the_file_and_its_parent_goes_on(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held = Held(database, "held")

    def refused() -> None:
        for use in (lambda: words(database), lambda: SQLiteDatabase(str(tmp_path / "shop.db"))):
            for _ in range(2):
                with pytest.raises(StoreError, match=REFUSED):
                    use()
        SQLiteDatabase(str(tmp_path / "other.db"))  # other files are not spoilt

    def refused_too() -> None:
        refused()
        in_child(refused)

    with monkeypatch.context() as patched:  # a busy machine needs the usual wait for all other forks
        patched.setattr(sqlite_database, "FORK_WAIT", 0.05)
        in_child(refused_too)

    held.ended()
    assert database.write(insert("after")) == 1
    in_child(lambda: database.write(insert("child")))
    assert words(database) == ["after", "child", "held"]
    assert sound(tmp_path / "shop.db")


def test_a_fork_inside_of_a_transaction_leaves_a_child_that_commits_nothing(
    database: SQLiteDatabase, tmp_path: Path
) -> None:
    children = list[int]()

    def fork(sql: Sql) -> None:
        insert("before")(sql)
        pid = os.fork()
        insert("child" if pid == 0 else "parent")(sql)  # raises in the child
        children.append(pid)

    def try_it() -> None:
        try:
            database.write(fork)
        except StoreError as error:
            with pytest.raises(StoreError, match=REFUSED):
                words(database)
            os._exit(7 if REFUSED in str(error) else 1)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join(WAIT)

    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
    assert words(database) == ["before", "parent"]
    assert sound(tmp_path / "shop.db")


def in_child_of_c(body: Callable[[], object]) -> int:
    """Fork as C does, without Python's hooks; return the exit status."""
    libc = ctypes.PyDLL(None)  # which keeps the interpreter lock, so that the child has it
    pid = int(libc.fork())
    if pid == 0:
        try:
            body()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("rule", ["refuses_an_open_file", "uses_a_closed_file"])
def test_a_child_of_a_fork_in_c_refuses_an_open_file_and_uses_a_closed_one(rule: str, tmp_path: Path) -> None:
    """The parent is a process of its own: the interpreter lock of such a child is broken if other threads waited for it."""
    path = tmp_path / "shop.db"
    output_of("-c", f"from tests.actors import test_sqlite_forks as tests; tests.{rule}({str(path)!r})")

    assert sound(path)


def refuses_an_open_file(path: str) -> None:
    database = made(path)

    def refused() -> None:
        with pytest.raises(StoreError, match=REFUSED):
            threadless(database)
        with pytest.raises(StoreError, match=REFUSED):
            threadless(database)

    assert words(database) == []
    assert in_child_of_c(refused) == 0
    assert database.write(insert("after")) == 1


def uses_a_closed_file(path: str) -> None:
    database = made(path)
    in_child(lambda: None)  # closes it, as any fork does

    assert in_child_of_c(lambda: threadless(database)) == 0
    assert words(database) == ["c"]


def threadless(database: SQLiteDatabase) -> None:
    """Write from a thread of its own: the pool, which knows of no fork in C, has none in the child."""
    errors = list[BaseException]()

    def write() -> None:
        try:
            database.write(insert("c"))
        except StoreError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(WAIT)
    if errors:
        raise errors[0]


def test_two_threads_that_fork_at_once_leave_the_file_free(database: SQLiteDatabase) -> None:
    def fork() -> None:
        for _ in range(4):
            in_child(lambda: None)

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()

    assert database.write(insert("after")) == 1


def test_a_second_fork_that_comes_while_one_has_the_file_neither_takes_nor_frees_it(database: SQLiteDatabase) -> None:
    file = database._writer.file  # pyright: ignore[reportPrivateUsage]  # the hooks of two threads, one inside of the other
    file.before_fork(time.monotonic() + WAIT)

    def other() -> None:
        file.before_fork(time.monotonic())
        file.after_fork_in_parent()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(WAIT)
    late = threading.Thread(target=lambda: database.write(insert("late")))
    late.start()
    assert late.is_alive()

    file.after_fork_in_parent()
    late.join(WAIT)
    assert words(database) == ["late"]


def test_a_fork_waits_until_a_file_without_a_store_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_database, "FORK_WAIT", 0.05)
    database = SQLiteDatabase(str(tmp_path / "shop.db"))
    closing_it, go = threading.Event(), threading.Event()
    close = sqlite_file.SQLiteFile.close
    slow = id(database._writer.file)  # pyright: ignore[reportPrivateUsage]  # a fork closes files of other tests too

    def slowly(file: sqlite_file.SQLiteFile) -> None:
        if id(file) == slow:
            closing_it.set()
            go.wait(WAIT)
        close(file)

    monkeypatch.setattr(sqlite_file.SQLiteFile, "close", slowly)
    stores = [database]
    del database
    thread = threading.Thread(target=stores.clear)
    thread.start()
    assert closing_it.wait(WAIT)
    began = time.monotonic()
    in_child(lambda: None)
    waited = time.monotonic() - began

    go.set()
    thread.join(WAIT)
    assert waited >= 0.05
