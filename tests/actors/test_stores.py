"""Stores of paused runs: what each must do, what SQLite adds, and what a URL means."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.hosts.forking import in_child
from tests.support.scripts import WAIT
from tests.support.stores import DictStore, sqlite_pauses
from understudy import ActorSystem, PausedRun, PauseStore, PersistentMemory, StoreError, configure
from understudy.actors.stores import sqlite_writer
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.pauses import KEPT, PauseTable

RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload='{"é": "\\u0000"}')


def second(run: PausedRun) -> PausedRun:
    return replace(run, revision=2, nonce="other", payload="[]")


@pytest.fixture(params=["dictionary", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PauseStore:
    if request.param == "dictionary":
        return DictStore()
    if request.param == "sqlite":
        return sqlite_pauses(str(tmp_path / "shop.db"))
    pauses = open_store(request.getfixturevalue("postgres_url")).pauses
    assert pauses is not None
    return pauses


# --- what every store does


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_process_that_has_the_run_puts_a_pause_again_and_in_place_of_one_that_nobody_was_told(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(url).pauses
    assert isinstance(store, PauseTable)

    assert store.put(RUN, keep=None, is_held=True)
    assert store.put(RUN, keep=None, is_held=True)  # the answer to the first one was lost
    assert store.put(second(RUN), keep=None, is_held=True)
    assert not store.put(RUN, keep=None, is_held=True)

    assert store.get(RUN.run_id) == second(RUN)


def test_a_run_comes_back_as_it_was_put(store: PauseStore) -> None:
    assert store.put(RUN, keep=None)

    assert store.get("shop-1") == RUN
    assert store.get("shop-2") is None


def test_a_run_is_taken_once_and_its_text_is_kept(store: PauseStore) -> None:
    store.put(RUN, keep=None)

    assert not store.take("shop-1", 2)
    assert not store.take("shop-2", 1)
    assert store.take("shop-1", 1)
    assert not store.take("shop-1", 1)
    assert store.get("shop-1") == replace(RUN, state="taken")


def test_a_run_that_waits_is_not_replaced(store: PauseStore) -> None:
    store.put(RUN, keep=None)

    assert not store.put(RUN, keep=None)
    assert not store.put(second(RUN), keep=None)
    assert store.get("shop-1") == RUN


def test_a_run_that_was_taken_waits_again_at_a_later_pause_only(store: PauseStore) -> None:
    store.put(RUN, keep=None)
    store.take("shop-1", 1)

    assert not store.put(RUN, keep=None)
    assert store.put(second(RUN), keep=None)
    assert store.get("shop-1") == second(RUN)


def test_a_run_that_is_over_leaves_a_mark_without_its_text(store: PauseStore) -> None:
    store.put(RUN, keep=None)

    store.close("shop-1", 2)
    store.close("shop-2", 1)
    assert store.get("shop-1") == RUN
    store.close("shop-1", 1)
    assert store.get("shop-1") == replace(RUN, state="over", payload="")
    assert not store.take("shop-1", 1)


def test_of_many_threads_one_takes_a_run(store: PauseStore) -> None:
    store.put(RUN, keep=None)
    start, taken = threading.Barrier(8), list[bool]()

    def take() -> None:
        start.wait(WAIT)
        taken.append(store.take("shop-1", 1))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    assert sorted(taken) == [False] * 7 + [True]


# --- what SQLite adds


def test_another_store_of_the_same_file_has_the_run(tmp_path: Path) -> None:
    sqlite_pauses(str(tmp_path / "shop.db")).put(RUN, keep=None)

    assert sqlite_pauses(str(tmp_path / "shop.db")).get("shop-1") == RUN


def test_the_file_is_its_owners_and_uses_a_log_of_writes(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite_pauses(str(path)).put(RUN, keep=None)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_an_application_has_already_keeps_its_tables_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE pauses (x)")
    path.chmod(0o640)

    assert sqlite_pauses(str(path)).put(RUN, keep=None)

    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM pauses").fetchone() == (0,)


def test_used_marks_and_runs_at_a_limit_are_forgotten_in_time_and_waiting_runs_never(tmp_path: Path) -> None:
    now = [1000.0]
    store = sqlite_pauses(str(tmp_path / "shop.db"), clock=lambda: now[0])
    for name, keep in (("waiting", None), ("limit", 60.0), ("taken", None), ("over", None)):
        store.put(replace(RUN, run_id=name), keep=keep)
    store.take("taken", 1)
    store.close("over", 1)

    def there(seconds: float) -> list[str]:
        now[0] = 1000.0 + seconds
        store.put(replace(RUN, run_id=f"at {seconds}"), keep=None)
        return [name for name in ("waiting", "limit", "taken", "over") if store.get(name) is not None]

    assert there(59.0) == ["waiting", "limit", "taken", "over"]
    assert there(61.0) == ["waiting", "taken", "over"]
    assert there(KEPT - 1.0) == ["waiting", "taken", "over"]
    assert there(KEPT + 1.0) == ["waiting"]


def test_a_relative_path_means_the_folder_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///shop.db").pauses
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert store is not None
    assert store.put(RUN, keep=None)

    assert (tmp_path / "shop.db").exists()
    assert list((tmp_path / "below").iterdir()) == []
    assert repr(store) == f"sqlite:///{tmp_path}/shop.db"


def test_a_path_may_hold_what_urls_escape(tmp_path: Path) -> None:
    store = sqlite_pauses(str(tmp_path / "my shop%20 é.db"))

    assert store.put(RUN, keep=None)
    assert (tmp_path / "my shop%20 é.db").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_parent_and_forked_child_write_to_one_file_and_nothing_is_lost(tmp_path: Path) -> None:
    store = sqlite_pauses(str(tmp_path / "shop.db"))
    store.put(RUN, keep=None)

    def write(who: str) -> None:
        for number in range(20):
            assert store.put(replace(RUN, run_id=f"{who}-{number}"), keep=None)

    thread = threading.Thread(target=write, args=("parent",))
    thread.start()  # the fork comes in the midst of its calls, and must wait for one to end
    in_child(partial(write, "child"))
    thread.join(WAIT)

    missing = [f"{who}-{n}" for who in ("parent", "child") for n in range(20) if store.get(f"{who}-{n}") is None]
    assert missing == []


# --- what can be wrong with the file


def error_of(do: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        do()
    return str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "shop.db"

    said = error_of(lambda: sqlite_pauses(str(path)))

    assert said == (
        f"store sqlite:///{path}: there is no folder {path.parent}; expected one in which the file can be made"
    )


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert "this is a folder; expected an SQLite file" in error_of(lambda: sqlite_pauses(str(tmp_path)))


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at " * 50)

    assert "this is no SQLite database; expected one" in error_of(lambda: sqlite_pauses(str(path)))
    assert path.read_text().startswith("not a database")


def test_text_that_is_not_utf_8_is_told_by_its_place_and_not_quoted(tmp_path: Path) -> None:
    store = sqlite_pauses(str(tmp_path / "runs.db"))
    store.put(RUN, keep=None)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        database.execute("UPDATE understudy_pauses SET payload = CAST(x'6120736563726574ff' AS TEXT)")

    with pytest.raises(StoreError) as caught:
        store.get("shop-1")

    assert "what it holds is not UTF-8, at byte 8" in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_a_file_that_was_deleted_is_missed_and_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    store = sqlite_pauses(str(path))
    path.unlink()

    assert "the file is not there" in error_of(lambda: store.put(RUN, keep=None))
    assert not path.exists()


def test_a_file_that_stays_locked_is_an_error_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "PATIENCE", 0.3)
    store = sqlite_pauses(str(tmp_path / "shop.db"))
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        assert "others have kept it locked for 0.3 s" in error_of(lambda: store.put(RUN, keep=None))

        other.execute("ROLLBACK")
    assert store.put(RUN, keep=None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_file_that_may_only_be_read_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not below pytest's, which only its owner may enter
        path = Path(folder) / "shop.db"
        sqlite_pauses(str(path)).put(RUN, keep=None)
        path.chmod(0o444)
        Path(folder).chmod(0o555)

        def try_it() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)  # for whom modes mean something
            assert "cannot be written to by this process" in error_of(lambda: sqlite_pauses(str(path)))

        try:
            in_child(try_it)
        finally:
            Path(folder).chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_disk_without_room_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    store = sqlite_pauses(str(tmp_path / "shop.db"))
    store.put(RUN, keep=None)

    def try_it() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        error_of(lambda: store.put(replace(RUN, run_id="large", payload="x" * 1_000_000), keep=None))
        assert store.get("large") is None
        assert store.take("shop-1", 1)

    in_child(try_it)


# --- what users say


@pytest.mark.parametrize("nothing", [None, "memory:"])
def test_memory_is_no_store(nothing: str | None) -> None:
    assert open_store(nothing).pauses is None


def test_a_store_of_ones_own_is_taken_as_it_is() -> None:
    mine = DictStore()

    assert open_store(mine).pauses is mine


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "expected 'memory:', 'sqlite:///shop.db'"),
        ("shop.db", "expected 'memory:', .* a file 'shop.db' is 'sqlite:///shop.db'"),
        ("/var/lib/shop.db", "a file '/var/lib/shop.db' is 'sqlite:////var/lib/shop.db'"),
        ("mysql://shop", "expected 'memory:', 'sqlite:///shop.db'"),
        ("sqlite:shop.db", "three slashes and a path"),
        ("sqlite://shop.db", "three slashes and a path"),
        ("sqlite:///", "three slashes and a path"),
        ("sqlite:///:memory:", "a database in memory is nobody else's"),
        ("postgresql:ada:pencil@db/shop", "expected postgresql://USER@HOST/DATABASE"),
        ("sqlite:///shop.db?timeout=3", "there is one option, durability=normal or durability=full"),
        ("sqlite:///shop.db?durability=safe", "there is one option"),
        ("sqlite:///shop.db?durability=full&timeout=3", "there is one option"),
        ("sqlite:///shop.db?", "there is one option"),
        ("sqlite:///?durability=full", "three slashes and a path"),
        ("sqlite:///shop.db?key=pencil", "there is one option"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        open_store(url)
    with pytest.raises(ValueError, match=says):
        PersistentMemory(url)

    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize(("option", "level"), [("", 1), ("?durability=normal", 1), ("?durability=full", 2)])
def test_a_url_may_say_how_safe_transactions_are(option: str, level: int, tmp_path: Path) -> None:
    database = open_store(f"sqlite:///{tmp_path}/shop.db{option}").database
    assert database is not None

    assert database.write(lambda sql: sql.execute("PRAGMA synchronous").fetchone()) == (level,)
    assert os.listdir(tmp_path)[0].startswith("shop.db")


@pytest.mark.parametrize("given", [7, object(), DictStore, Path("shop.db")])
def test_what_is_no_store_is_a_type_error(given: object) -> None:
    with pytest.raises(TypeError, match="store must be"):
        open_store(given)  # type: ignore[arg-type]  # the mistake under test


class AsyncTake(DictStore):
    async def take(self, run_id: str, revision: int) -> bool:  # type: ignore[override]  # the mistake under test
        return super().take(run_id, revision)


class AsyncPut(DictStore):
    async def put(self, paused: PausedRun, *, keep: float | None) -> bool:  # type: ignore[override]  # the mistake
        return super().put(paused, keep=keep)


@pytest.mark.parametrize(("given", "method"), [(AsyncTake(), "take"), (AsyncPut(), "put")])
def test_a_store_with_coroutine_functions_is_refused(given: PauseStore, method: str) -> None:
    with pytest.raises(TypeError, match=rf"store DictStore has {method}\(\) as async def"):
        ActorSystem("shop", store=given)
    with pytest.raises(TypeError, match=rf"store DictStore has {method}\(\) as async def"):
        configure(store=given)
