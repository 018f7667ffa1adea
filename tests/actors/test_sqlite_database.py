"""Transactions in one SQLite file: shared by threads, alone with their errors, and never for ever."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.hosts.forking import in_child
from tests.support.paths import ROOT
from tests.support.scripts import WAIT, eventually
from tests.support.threads import no_threads
from understudy import ActorSystem, StoreError
from understudy.actors.stores import sqlite_file, sqlite_writer
from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.sqlite_file import SQLiteFile
from understudy.actors.stores.sqlite_job import Job, next_turn
from understudy.actors.stores.sqlite_writer import SQLiteWriter

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
TABLE = "CREATE TABLE words (word TEXT PRIMARY KEY)"


@pytest.fixture
def database(tmp_path: Path) -> SQLiteDatabase:
    database = SQLiteDatabase(str(tmp_path / "shop.db"))
    database.write(lambda sql: sql.execute(TABLE).rowcount)
    return database


def insert(word: str) -> Callable[[Sql], int]:
    return lambda sql: sql.execute("INSERT INTO words VALUES (:word)", {"word": word}).rowcount


def words(database: SQLiteDatabase) -> list[str]:
    rows = database.read(lambda sql: sql.execute("SELECT word FROM words ORDER BY word").fetchall())
    return [word for (word,) in rows]


class Caller(threading.Thread):
    """Calls the database, and keeps what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 (kept, for the test to look at)
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(WAIT)
        assert not self.is_alive()
        return self.error


@contextmanager
def held(database: SQLiteDatabase) -> Generator[None]:
    """Keep a transaction open in the block, so that all calls in it share the next one; at the end, wait for it."""
    inside, go = threading.Event(), threading.Event()

    def hold(sql: Sql) -> None:
        inside.set()
        go.wait(WAIT)

    leader = Caller(lambda: database.write(hold))
    assert inside.wait(WAIT)
    try:
        yield
    finally:
        go.set()
        assert leader.ended() is None


def calls_at_once(database: SQLiteDatabase, *works: Callable[[Sql], object]) -> list[Caller]:
    """Have one transaction do all of them, in this order."""
    callers = list[Caller]()
    with held(database):
        for work in works:
            callers.append(Caller(lambda work=work: database.write(work)))  # type: ignore[misc]  # a default binds it now
            eventually(lambda: database.figures().waiting == len(callers), "the calls wait")
    return callers


# --- one transaction for many


def test_what_a_job_raises_undoes_that_job_alone(database: SQLiteDatabase) -> None:
    def fail(sql: Sql) -> None:
        insert("lost")(sql)
        raise KeyError("mine")

    callers = calls_at_once(database, insert("first"), fail, insert("first"), insert("last"))

    first, failed, doubled, last = [caller.ended() for caller in callers]
    assert (first, last) == (None, None)
    assert isinstance(failed, KeyError)
    assert isinstance(doubled, StoreError)
    assert "UNIQUE constraint failed" in str(doubled)
    assert words(database) == ["first", "last"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
def test_whatever_kind_a_job_raises_its_caller_gets_it_and_others_go_on(
    kind: type[BaseException], database: SQLiteDatabase
) -> None:
    def fail(sql: Sql) -> None:
        raise kind("mine")

    failing, fine = calls_at_once(database, fail, insert("fine"))

    assert isinstance(failing.ended(), kind)
    assert fine.ended() is None
    with pytest.raises(kind):
        database.write(fail)
    assert words(database) == ["fine"]


def test_a_job_that_costs_the_others_their_transaction_leaves_them_one_of_their_own(database: SQLiteDatabase) -> None:
    def roll_back(sql: Sql) -> None:
        sql.execute("INSERT OR ROLLBACK INTO words VALUES ('first')")

    first, rolled_back, last = calls_at_once(database, insert("first"), roll_back, insert("last"))

    assert (first.ended(), last.ended()) == (None, None)
    assert isinstance(rolled_back.ended(), StoreError)
    assert words(database) == ["first", "last"]


@needs_fork
def test_an_error_of_the_commit_is_an_error_of_every_job_but_those_with_their_own(database: SQLiteDatabase) -> None:
    def fail(sql: Sql) -> None:
        raise KeyError("mine")

    def try_it() -> None:
        words(database)
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
        callers = calls_at_once(database, insert("a" * 100_000), fail, insert("b" * 100_000))
        first, failed, last = [caller.ended() for caller in callers]
        assert isinstance(failed, KeyError)
        for error in (first, last):
            assert isinstance(error, StoreError)
            assert "could not be read or written, and nothing was changed" in str(error)
        assert words(database) == []
        assert database.write(insert("small")) == 1

    in_child(try_it)


def test_a_fault_of_the_leaders_ends_every_job_of_its_transaction_and_no_other(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **__: object) -> object:
        raise MemoryError

    with held(database):
        callers = [Caller(lambda: database.write(insert("lost"))), Caller(lambda: words(database))]
        eventually(lambda: database.figures().waiting == 2, "the calls wait")
        monkeypatch.setattr(SQLiteFile, "lent", no_memory)
    assert [type(caller.ended()) for caller in callers] == [MemoryError, MemoryError]

    monkeypatch.undo()
    assert database.write(insert("next")) == 1
    assert words(database) == ["next"]


def test_a_job_that_calls_its_database_is_told_so_at_once_and_may_go_on(database: SQLiteDatabase) -> None:
    def nested(sql: Sql) -> None:
        for call in (lambda: words(database), lambda: database.write(insert("inner"))):
            with pytest.raises(RuntimeError, match="work called the store that it works in"):
                call()
        insert("outer")(sql)

    database.write(nested)  # the main thread's, on a lent thread
    assert Caller(lambda: database.write(lambda sql: sql.execute("DELETE FROM words").rowcount)).ended() is None
    assert Caller(lambda: database.write(nested)).ended() is None

    assert words(database) == ["outer"]


def test_statements_and_rows_are_of_no_use_after_their_transaction(database: SQLiteDatabase) -> None:
    kept = list[Sql]()
    database.write(insert("a"))

    def keep(sql: Sql) -> object:
        kept.append(sql)
        return sql.execute("SELECT word FROM words")

    rows = database.read(keep)

    with pytest.raises(RuntimeError, match="after the end of its transaction"):
        kept[0].execute("SELECT 1")
    with pytest.raises(sqlite3.ProgrammingError):
        rows.fetchone()  # type: ignore[attr-defined]  # the mistake under test


# --- files that others have locked


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep writers out, as another process does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_reads_go_on_while_another_process_writes(database: SQLiteDatabase, tmp_path: Path) -> None:
    database.write(insert("a"))
    with locked(tmp_path / "shop.db"):
        writer = Caller(lambda: database.write(insert("b")))
        for _ in range(10):
            assert words(database) == ["a"]
        assert writer.is_alive()

    assert writer.ended() is None
    assert words(database) == ["a", "b"]


def test_of_calls_that_wait_for_a_locked_file_each_waits_for_its_own_time(
    database: SQLiteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(tmp_path / "shop.db"):
        monkeypatch.setattr(sqlite_writer, "PATIENCE", 0.2)
        first = Caller(lambda: database.write(insert("first")))
        monkeypatch.setattr(sqlite_writer, "PATIENCE", WAIT)
        second = Caller(lambda: database.write(insert("second")))
        assert "others have kept it locked" in str(first.ended())
        assert second.is_alive()
        assert words(database) == []

    assert second.ended() is None
    assert words(database) == ["second"]


def test_a_call_that_nobody_begins_ends_in_time_and_does_nothing(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(database):
        monkeypatch.setattr(sqlite_writer, "PATIENCE", 0.05)
        late = Caller(lambda: database.write(insert("late")))
        assert "a transaction of this process has kept it busy for 0.05 s" in str(late.ended())
        assert database.figures().waiting == 0

    assert words(database) == []


# --- the main thread


def test_a_signal_handler_may_write_while_its_own_thread_does(database: SQLiteDatabase) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        database.write(insert("handler"))

    def work(sql: Sql) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        insert("work")(sql)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        database.write(work)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert words(database) == ["handler", "work"]


def test_without_a_thread_to_lend_the_main_thread_writes_itself(database: SQLiteDatabase) -> None:
    with no_threads():
        assert database.write(insert("a")) == 1
        assert words(database) == ["a"]


def test_a_main_thread_without_a_lent_one_waits_for_the_others_as_long_as_for_a_locked_file(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "PATIENCE", 0.05)
    with (
        held(database),
        no_threads(),
        pytest.raises(StoreError, match="a transaction of this process has kept it busy"),
    ):
        database.write(insert("a"))


# --- what is on the disk


def level(database: SQLiteDatabase, *, durable: bool = False) -> int:
    """Return SQLite's word for how safe a transaction is: 1 for NORMAL, 2 for FULL."""
    found = database.write(lambda sql: sql.execute("PRAGMA synchronous").fetchone(), durable=durable)
    assert found is not None
    return int(found[0])


def test_a_transaction_is_forced_to_the_disk_if_it_or_its_store_asks_for_it(tmp_path: Path) -> None:
    normal, full = SQLiteDatabase(str(tmp_path / "a.db")), SQLiteDatabase(str(tmp_path / "a.db"), durable=True)

    assert [level(normal), level(normal, durable=True), level(normal), level(full)] == [1, 2, 1, 2]


def test_one_job_that_asks_for_it_has_its_whole_transaction_forced_to_the_disk(database: SQLiteDatabase) -> None:
    found = list[int]()
    with held(database):
        callers = [
            Caller(lambda: found.append(level(database))),
            Caller(lambda: found.append(level(database, durable=True))),
        ]
        eventually(lambda: database.figures().waiting == 2, "the calls wait")

    assert [caller.ended() for caller in callers] == [None, None]
    assert found == [2, 2]


# --- the file


def opened(path: Path) -> int:
    """Return how often this process has the file open."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sum(os.path.exists(link) and os.path.realpath(link) == str(path) for link in links)


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc/self/fd")


@needs_proc
def test_stores_of_one_file_share_a_connection_which_is_closed_after_the_last_of_them(tmp_path: Path) -> None:
    path, link = tmp_path / "shop.db", tmp_path / "link.db"
    first = SQLiteDatabase(str(path))
    link.symlink_to(path)
    second = SQLiteDatabase(str(link), durable=True)
    assert opened(path) == 1

    del first
    gc.collect()
    assert second.write(lambda sql: sql.execute(TABLE).rowcount) == -1
    assert opened(path) == 1

    del second
    gc.collect()
    assert opened(path) == 0
    assert sorted(tmp_path.iterdir()) == [link, path]


@needs_proc
def test_a_connection_is_closed_before_a_fork_whatever_kept_the_rows_of_a_statement(database: SQLiteDatabase) -> None:
    kept = list[object]()
    for number in range(3):
        database.write(insert(str(number)))

    def keep(sql: Sql) -> None:
        kept.append(sql.execute("SELECT word FROM words"))
        raise KeyError

    with pytest.raises(KeyError) as caught:
        database.read(keep)
    path = Path(repr(database).removeprefix("sqlite:///"))
    assert opened(path) == 1

    in_child(lambda: opened(path) == 0 or pytest.fail("the child has the parent's connection"))
    assert caught.value is not None
    assert words(database) == ["0", "1", "2"]


def test_another_file_in_its_place_is_refused_and_keeps_its_log_until_it_is_opened(
    database: SQLiteDatabase, tmp_path: Path
) -> None:
    path, other = tmp_path / "shop.db", tmp_path / "other.db"
    database.write(insert("old"))
    program = f"""
import os, sqlite3
other = sqlite3.connect({str(other)!r}, isolation_level=None)
other.execute("PRAGMA journal_mode=WAL")
other.execute({TABLE!r})
os.replace({str(other)!r}, {str(path)!r})
os.replace({str(other) + "-wal"!r}, {str(path) + "-wal"!r})
os.replace({str(other) + "-shm"!r}, {str(path) + "-shm"!r})
other.execute("INSERT INTO words VALUES ('new')")
os._exit(0)  # so that the row is in the log alone
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)

    for _ in range(2):
        with pytest.raises(StoreError, match="another file stands in its place"):
            database.write(insert("lost"))
    in_child(lambda: None)  # which closes a connection

    assert words(SQLiteDatabase(str(path))) == ["new"]
    assert database.write(insert("more")) == 1
    assert words(database) == ["more", "new"]


def test_a_connection_is_opened_anew_after_an_error_of_the_disk(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sql: Sql) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    connections = list[sqlite3.Connection]()
    connect = sqlite_file.connect

    def counted(path: Path) -> sqlite3.Connection:
        connections.append(connect(path))
        return connections[-1]

    monkeypatch.setattr(sqlite_file, "connect", counted)
    with pytest.raises(StoreError, match="it could not be read or written, and nothing was changed"):
        database.write(fail)
    assert words(database) == []

    assert len(connections) == 1


# --- figures


def test_figures_tell_calls_transactions_waits_and_the_last_error(database: SQLiteDatabase) -> None:
    before = database.figures()
    with held(database):
        callers = [Caller(lambda: database.write(insert("a"))) for _ in range(2)]
        eventually(lambda: database.figures().waiting == 2, "the calls wait")
        during = database.figures()
    errors = [type(caller.ended()) for caller in callers]
    after = database.figures()

    assert during.busy_for is not None
    assert during.busy_for > 0.0
    assert sorted(kind.__name__ for kind in errors) == ["NoneType", "StoreError"]
    assert (after.calls - before.calls, after.transactions - before.transactions) == (3, 2)
    assert (after.failed, after.waiting, after.high_water, after.busy_for) == (1, 0, 2, None)
    assert after.last_error.endswith("UNIQUE constraint failed: words.word")


def test_the_health_of_a_system_has_the_figures_of_its_file(tmp_path: Path) -> None:
    with ActorSystem("shop", store=f"sqlite:///{tmp_path}/shop.db") as system, ActorSystem("other") as other:
        store = system.health().store

        assert store is not None
        assert store.store == f"sqlite:///{tmp_path}/shop.db"
        assert (store.calls > 0, store.failed, store.last_error) == (True, 0, "")
        assert other.health().store is None


def _nothing(sql: Sql) -> None:
    """Do nothing."""


def waiting_jobs(writer: SQLiteWriter, kinds: str) -> list[Job]:
    """Return jobs that wait: `a` shares no transaction, `s` does."""
    return [writer.job(_nothing, writes=True, alone=kind == "a") for kind in kinds]


@pytest.mark.parametrize(
    ("waiting", "was_alone", "turn"),
    [("sss", False, [0, 1, 2]), ("asas", False, [0]), ("asas", True, [1, 3]), ("sa", False, [0]), ("aa", True, [0])],
)
def test_jobs_that_share_no_transaction_take_turns_with_the_others(
    waiting: str, was_alone: bool, turn: list[int], tmp_path: Path
) -> None:
    jobs = waiting_jobs(SQLiteWriter(tmp_path / "a.db"), waiting)

    now, later = next_turn(jobs, was_alone=was_alone)

    assert now == [jobs[number] for number in turn]
    assert later == [job for job in jobs if job not in now]
