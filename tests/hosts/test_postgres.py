"""A store in PostgreSQL under many writers, forks, and a server that is killed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.postgres import Server, running
from tests.support.scripts import eventually
from understudy import ActorSystem, Agent, FunctionModel, PausedRun, StoreError, says
from understudy.actors.stores.database import Part as StorePart
from understudy.actors.stores.database import Sql, prepare
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.postgres import database as postgres_database
from understudy.actors.stores.postgres import doubt
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.postgres.failures import shown_url, statement_of
from understudy.actors.stores.sqlite_database import SQLiteDatabase

from .forking import in_child
from .processes import WAIT, output, output_of

pytestmark = pytest.mark.timeout(120)

COUNTS = StorePart("counts", ["CREATE TABLE counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL)"])
RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="{}")


def add_one(name: str, sql: Sql) -> int:
    """Read a number and write the next one, as a part does that compares and sets."""
    row = sql.execute("SELECT number FROM counts WHERE name = :name", {"name": name}).fetchone()
    number = 1 if row is None else row[0] + 1
    statement = "INSERT INTO counts VALUES (:name, :number) ON CONFLICT (name) DO UPDATE SET number = excluded.number"
    sql.execute(statement, {"name": name, "number": number})
    return number


def number_of(database: PostgresDatabase, name: str) -> int:
    row = database.read(lambda sql: sql.execute("SELECT number FROM counts WHERE name = :n", {"n": name}).fetchone())
    return 0 if row is None else int(row[0])


def in_threads(many: int, do: Callable[[], object]) -> list[Exception]:
    """Call a function in several threads at once, and return what they raised."""
    raised: list[Exception] = []

    def call() -> None:
        try:
            do()
        except (StoreError, AssertionError) as error:
            raised.append(error)

    threads = [threading.Thread(target=call) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    return raised


def test_no_update_of_many_threads_is_lost_and_none_is_made_twice(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)
    numbers: list[int] = []

    def add() -> None:
        for _ in range(5):
            numbers.append(database.write(partial(add_one, "a")))

    assert in_threads(8, add) == []
    assert sorted(numbers) == list(range(1, 41))


def test_no_update_of_several_processes_is_lost(postgres_url: str) -> None:
    prepare(PostgresDatabase(postgres_url), COUNTS)
    program = f"""
        from functools import partial
        from tests.hosts.test_postgres import PostgresDatabase, add_one, in_threads

        database = PostgresDatabase("{postgres_url}")
        def add():
            for _ in range(5):
                database.write(partial(add_one, "a"))
        print(in_threads(4, add))
    """
    said: list[str] = []
    assert in_threads(3, lambda: said.append(output(program))) == []

    assert [each.strip() for each in said] == ["[]"] * 3
    assert number_of(PostgresDatabase(postgres_url), "a") == 60


def test_a_refused_transaction_waits_for_one_of_another_process_that_was_refused_before(postgres_url: str) -> None:
    import psycopg

    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)
    attempts = list[bool]()

    def let_go() -> None:
        eventually(lambda: locks_waited_for(database) == 1, "the second attempt waits")
        is_free.append(True)
        refused_before.commit()

    is_free, letting_go = list[bool](), threading.Thread(target=let_go)

    def work(sql: Sql) -> None:
        add_one("a", sql)
        attempts.append(bool(is_free))
        if len(attempts) == 1:
            letting_go.start()
            raise psycopg.errors.SerializationFailure

    with psycopg.connect(postgres_url, autocommit=True) as refused_before:
        refused_before.execute(doubt.BEGIN_IN_LANE)
        database.write(work)
        letting_go.join(WAIT)

    assert attempts == [False, True]
    assert number_of(database, "a") == 1


def locks_waited_for(database: PostgresDatabase) -> int:
    row = database.read(lambda sql: sql.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone())
    return 0 if row is None else int(row[0])


def test_processes_that_open_a_new_database_at_once_make_its_tables_once(postgres_url: str) -> None:
    opened: list[PauseTable] = []

    assert in_threads(6, lambda: opened.append(PauseTable(PostgresDatabase(postgres_url)))) == []
    assert opened[0].put(RUN, keep=None)
    assert opened[-1].get("shop-1") == RUN


@pytest.fixture
def opened(postgres_url: str) -> Iterator[Callable[[], int]]:
    """Returns how many connections to the database are open."""
    import psycopg

    statement = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    with psycopg.connect(postgres_url, autocommit=True) as watcher:

        def count() -> int:
            row = watcher.execute(statement).fetchone()
            return 0 if row is None else int(row[0])

        yield count


def test_a_system_that_has_stopped_has_no_connection_but_its_lock_until_it_is_asked_again(
    postgres_url: str, opened: Callable[[], int]
) -> None:
    system = ActorSystem("shop", store=postgres_url)
    outcome = Agent("clerk", model=FunctionModel(lambda request: says("hi"))).run("go", system=system)
    assert opened() > 1

    system.stop()

    eventually(lambda: opened() == 1, "the pool is closed")
    assert system.handle(outcome.run_id).status().phase == "over"
    assert opened() > 1


@pytest.mark.parametrize("opens_anew", [False, True])
def test_a_connection_that_is_lent_while_the_others_are_closed_is_closed_when_it_comes_back(
    opens_anew: bool, postgres_url: str, opened: Callable[[], int]
) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)

    def work(sql: Sql) -> int:
        database.rest()
        if opens_anew:
            number_of(database, "b")
        return add_one("a", sql)

    assert database.write(work) == 1

    database.rest()
    eventually(lambda: opened() == 0, "the connection that was lent is closed")
    assert number_of(database, "a") == 1


def test_what_the_work_raises_undoes_what_it_did(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)

    def fail(sql: Sql) -> None:
        add_one("a", sql)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        database.write(fail)
    assert number_of(database, "a") == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own_and_leaves_the_parents_alone(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)
    inside, forked = threading.Event(), threading.Event()

    def slow(sql: Sql) -> int:
        number = add_one("a", sql)
        inside.set()
        assert forked.wait(WAIT)
        return number

    thread = threading.Thread(target=partial(database.write, slow))
    thread.start()
    assert inside.wait(WAIT)
    in_child(lambda: database.write(partial(add_one, "b")))  # and its end closes nothing of the parent's
    forked.set()
    thread.join(WAIT)

    assert (number_of(database, "a"), number_of(database, "b")) == (1, 1)


@pytest.fixture
def own_server() -> Iterator[Server]:
    with running() as server:
        yield server


def test_a_server_that_is_killed_and_started_again_has_all_that_was_acknowledged(own_server: Server) -> None:
    database = PostgresDatabase(own_server.new_database())
    prepare(database, COUNTS)
    acknowledged, unknown, stop = [0], [0], threading.Event()

    def add() -> None:
        while not stop.is_set():
            try:
                acknowledged[0] = database.write(partial(add_one, "a"))
            except StoreError as error:
                assert "nobody knows whether it was done" in str(error)
                unknown[0] += 1

    writer = threading.Thread(target=add)
    writer.start()
    for _ in range(3):
        before = acknowledged[0]
        while acknowledged[0] < before + 20 and writer.is_alive():
            stop.wait(0.01)
        own_server.kill()
        own_server.start()
    stop.set()
    writer.join(WAIT)

    assert not writer.is_alive()
    assert acknowledged[0] <= number_of(database, "a") <= acknowledged[0] + unknown[0]


def test_a_server_that_is_not_there_is_an_error_that_names_it_and_not_the_password(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "PATIENCE", 1.0)
    database = PostgresDatabase(own_server.url().replace("postgres@", "postgres:pencil@"))
    own_server.kill()

    with pytest.raises(
        StoreError, match="its server could not be reached for 1 s; expected one that answers"
    ) as caught:
        database.read(lambda sql: sql.execute("SELECT 1"))

    assert str(caught.value).startswith(f"store postgresql://127.0.0.1:{own_server.port}/postgres: ")
    assert "pencil" not in str(caught.value)
    own_server.start()
    database.read(lambda sql: sql.execute("SELECT 1"))


def test_a_database_that_is_not_there_is_an_error_at_once(postgres_server: Server) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        PostgresDatabase(postgres_server.url("nowhere"))


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("UPDATE a SET b = :b WHERE c = :c_1", "UPDATE a SET b = %(b)s WHERE c = %(c_1)s"),
        ("SELECT a::text LIKE 'x%'", "SELECT a::text LIKE 'x%%'"),
    ],
)
def test_a_statement_is_written_once_for_both_databases(statement: str, read: str) -> None:
    assert statement_of(statement) == read


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:pencil@db:5433/shop?sslmode=require", "postgresql://db:5433/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
        ("postgres://ada@[::1]:5433,other/shop", "postgresql://[::1]:5433,other/shop"),
        ("postgresql://ada:pen/cil?#@db/shop", "postgresql://…"),
        ("postgresql://ada:1/pencil@db/shop", "postgresql://…"),
        ("postgresql://ada:a@pencil@db/shop", "postgresql://…"),
        ("postgresql://ada:1?pencil@db/shop", "postgresql://db/shop"),
        ("postgresql://db:x/shop", "postgresql://…"),
    ],
)
def test_a_url_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    assert shown_url(url) == shown


# --- figures


def test_figures_tell_calls_transactions_repetitions_waits_and_the_last_error(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)
    before, inside, done = database.figures(), threading.Event(), threading.Event()

    def hold(sql: Sql) -> None:
        add_one("a", sql)
        inside.set()
        assert done.wait(WAIT)

    holder = threading.Thread(target=partial(database.write, hold))
    holder.start()
    assert inside.wait(WAIT)
    during = database.figures()
    database.write(partial(add_one, "b"))
    done.set()
    holder.join(WAIT)
    with pytest.raises(StoreError) as caught:
        database.write(lambda sql: sql.execute("SELECT nothing"))
    after = database.figures()

    assert during.busy_for is not None
    assert (after.calls - before.calls, after.transactions - before.transactions) == (3, 2)
    assert (after.failed, after.waiting, after.busy_for) == (1, 0, None)
    assert after.high_water >= 1
    assert after.last_error == str(caught.value)


def test_the_health_of_a_system_has_the_figures_of_its_connections(postgres_url: str) -> None:
    with ActorSystem("shop", store=postgres_url) as system:
        store = system.health().store

    assert store is not None
    assert store.store == shown_url(postgres_url)
    assert (store.calls > 0, store.failed, store.repeated, store.last_error) == (True, 0, 0, "")


# --- texts and options


def test_a_name_with_a_lone_surrogate_is_the_error_that_it_is_in_a_file(postgres_url: str, tmp_path: Path) -> None:
    said: list[str] = []
    for database in (PostgresDatabase(postgres_url), SQLiteDatabase(str(tmp_path / "shop.db"))):
        with pytest.raises(StoreError) as caught:
            PauseTable(database).get("shop-\ud800")
        said.append(str(caught.value).removeprefix(f"store {database!r}: "))

    assert said[0] == said[1]


def test_a_name_that_no_index_holds_is_an_error_that_says_how_long_it_may_be(postgres_url: str) -> None:
    table = PauseTable(PostgresDatabase(postgres_url))
    name = "".join([chr(0x4E00 + number * 7919 % 20_000) for number in range(9_000)])

    with pytest.raises(StoreError, match="too long for an index; expected at most 2600 bytes"):
        table.put(PausedRun(run_id=name, revision=1, nonce="secret", payload="{}"), keep=None)


def test_options_of_the_url_count_beside_the_stores_own(postgres_url: str) -> None:
    database = PostgresDatabase(f"{postgres_url}?options=-csearch_path%3Dpg_temp&application_name=desk")

    def shown(name: str) -> object:
        return database.read(lambda sql: sql.execute(f"SHOW {name}").fetchone())

    names = ("search_path", "application_name", "enable_seqscan")
    assert [shown(name) for name in names] == [("pg_temp",), ("desk",), ("off",)]


def test_without_psycopg_a_url_of_postgresql_says_what_to_install() -> None:
    said = output("""
        import sys
        sys.modules["psycopg"] = None
        import understudy as us

        try:
            us.ActorSystem("shop", store="postgresql://ada@db/shop")
        except ImportError as error:
            print(error)
    """)

    assert said.startswith("a store in PostgreSQL needs psycopg: pip install 'understudy[postgres]'")


ONE_RUN = """
import sys
import understudy as us
from understudy.testing import ScriptedModel, says

clerk = us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=us.PersistentMemory())
with us.ActorSystem("shop", store=sys.argv[1]) as system:
    clerk.run("hello", system=system, user_id="ada", conversation_id="c-42")
"""


def test_a_process_that_ends_gives_back_its_conversations_while_the_database_is_open(postgres_url: str) -> None:
    done = output_of("-c", ONE_RUN, postgres_url)

    left = PostgresDatabase(postgres_url).read(
        lambda sql: sql.execute("SELECT owner FROM understudy_owners").fetchall()
    )
    assert (done, left) == ("", [])
