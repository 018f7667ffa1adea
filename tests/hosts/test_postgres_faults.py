"""What each part of a store in PostgreSQL does when the server, a connection or another client fails in mid-write."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.postgres import Server, running
from tests.support.postgres_proxy import Lost, Proxy
from understudy import PausedRun, StoreError
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.database import Database, Rows, Sql, SqlValue, prepare
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.postgres import connections
from understudy.actors.stores.postgres import database as postgres_database
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.sessions import SessionChange, SessionTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.vocabulary.context.session_values import SessionOwner
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.memory import ConversationKey

from .processes import WAIT, started
from .test_postgres import COUNTS, add_one, number_of

pytestmark = pytest.mark.timeout(180)

T = TypeVar("T")

KEY = ConversationKey("shop", "ada", "c-1")
ADA = SessionOwner("user", ("shop", "ada"))
RUN = PausedRun(run_id="shop-1-1", revision=1, nonce="secret", payload='{"user_id": "ada"}')


def now() -> float:
    return 1_000.0


def pauses(database: Database) -> list[object]:
    table = PauseTable(database, clock=now)
    put = [table.put(RUN, keep=None), table.put(RUN, keep=None)]
    took = [table.take(RUN.run_id, 1), table.take(RUN.run_id, 1)]
    table.close(RUN.run_id, 1)
    return [put, took, table.get(RUN.run_id)]


def sessions(database: Database) -> list[object]:
    table = SessionTable(database, clock=now)
    told = [
        table.commit(run_id, [SessionChange(ADA, "n", run_id, is_removed=False, seen=0)])
        for run_id in ("one", "two", "three")
    ]
    table.commit("four", [SessionChange(ADA, "gone", None, is_removed=True, seen=0)])
    return [told, table.load([ADA]), table.erase("ada", None)]


def conversations(database: Database) -> list[object]:
    table = ConversationTable(database, clock=now)
    for run_id in ("one", "two"):
        table.append(KEY, [user_message(run_id)], run_id, keep=10.0)
    table.summarize(KEY, 1, [user_message("short")], "three")
    read = [(turn.number, turn.kind, turn.run_id, turn.messages) for turn in table.read(KEY, 0, 10)]
    return [read, table.erase("ada", "shop")]


def tickets(database: Database) -> list[object]:
    grants = Grants(database, 10.0)
    claim, ticket, is_first = grants.take(KEY, "one")
    other, other_ticket, is_other_first = grants.take(KEY, "two")
    ConversationTable(database, clock=now).append(
        KEY, [user_message("a")], "one", fence=grants.fence(KEY, ticket, "one")
    )
    grants.give_back(claim)
    came = grants.has_come(KEY, other, other_ticket)
    grants.give_back(other)
    left = database.read(lambda sql: sql.execute("SELECT count(*) FROM understudy_tickets").fetchone())
    return [is_first, is_other_first, came, left]


Play = Callable[[Database], list[object]]
PLAYS = [pauses, sessions, conversations, tickets]


class Ending(PostgresDatabase):
    """A store that does something to the connection before one of its statements, and only once.

    Attributes:
        statements: how many came.
        number: before which one.
    """

    statements, number = 0, -1

    def harm(self, sql: Sql) -> None:
        """Have the server end the connection."""
        sql.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        return super().write(lambda sql: work(_Watched(sql, self)), durable=durable)

    def read(self, work: Callable[[Sql], T]) -> T:
        return super().read(lambda sql: work(_Watched(sql, self)))


class _Watched:
    def __init__(self, sql: Sql, database: Ending) -> None:
        self._sql = sql
        self._database = database

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        number, self._database.statements = self._database.statements, self._database.statements + 1
        if number == self._database.number:
            self._database.harm(self._sql)
        return self._sql.execute(statement, values)


@pytest.fixture
def expected(play: Play, tmp_path: Path) -> list[object]:
    """What a play returns where nothing fails."""
    return play(SQLiteDatabase(str(tmp_path / "shop.db")))


@pytest.mark.parametrize("play", PLAYS)
def test_a_connection_that_the_server_ends_before_any_statement_costs_nobody_anything(
    play: Play, expected: list[object], postgres_server: Server
) -> None:
    whole = Ending(postgres_server.new_database())
    assert play(whole) == expected

    for number in range(whole.statements):
        database = Ending(postgres_server.new_database())
        database.number = number
        assert play(database) == expected, f"before statement {number}"
        assert database.figures().repeated >= 1  # again while the server still ends the transaction that was lost


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("play", PLAYS)
def test_a_connection_that_is_lost_at_any_commit_costs_nobody_anything(
    play: Play, when: Lost, expected: list[object], postgres_server: Server
) -> None:
    proxy = Proxy(postgres_server.port)
    number = 0
    while proxy.commits >= number:  # else all of them were lost once
        url = postgres_server.new_database().replace(f":{postgres_server.port}/", f":{proxy.port}/")
        database = PostgresDatabase(url)
        proxy.lose(number, when)
        assert play(database) == expected, f"at commit {number}"
        assert database.figures().repeated <= 1
        number += 1
    proxy.close()
    assert number > 5


@pytest.fixture
def own_server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.mark.parametrize("play", PLAYS)
def test_a_server_that_is_killed_in_mid_write_and_started_again_costs_nobody_anything(
    play: Play, expected: list[object], own_server: Server
) -> None:
    class Killed(Ending):
        def harm(self, sql: Sql) -> None:
            own_server.kill()
            own_server.start()

    database = Killed(own_server.new_database())
    database.number = 9

    assert play(database) == expected
    assert database.statements > 10


def test_a_server_that_was_killed_has_another_life_in_which_a_number_proves_nothing(own_server: Server) -> None:
    lives = [life(own_server.url()), life(own_server.url())]
    own_server.kill()
    own_server.start()

    assert lives[0] == lives[1]
    assert life(own_server.url()) != lives[0]


def test_a_server_one_of_whose_processes_crashed_has_another_life_too(own_server: Server) -> None:
    import psycopg

    before = life(own_server.url())
    with psycopg.connect(own_server.url()) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    PostgresDatabase(own_server.url())  # waits until the others have come back

    assert life(own_server.url()) != before


def life(url: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(connections.LIFE).fetchone()
    assert row is not None
    return str(row[0])


def test_a_commit_after_which_the_server_stays_away_is_an_error_that_says_that_nobody_knows(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(own_server.port)
    database = PostgresDatabase(own_server.url().replace(f":{own_server.port}/", f":{proxy.port}/"))
    prepare(database, COUNTS)
    monkeypatch.setattr(postgres_database, "PATIENCE", 1.0)

    proxy.goes_away = True
    proxy.lose(0, "after")
    with pytest.raises(StoreError, match="lost at the commit, and nobody knows whether it was done"):
        database.write(partial(add_one, "a"))
    assert number_of(PostgresDatabase(own_server.url()), "a") == 1


FREEZES = """
    import os, signal
    from functools import partial
    from tests.hosts.test_postgres import PostgresDatabase, add_one

    frozen = []
    def freeze(sql):
        number = add_one("a", sql)
        if not frozen:
            frozen.append(True)
            print("inside", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return number
    print(PostgresDatabase("{url}").write(freeze))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system cannot freeze a process")
def test_a_process_that_is_frozen_in_a_transaction_costs_the_others_time_and_no_error(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    prepare(database, COUNTS)
    database.write(partial(add_one, "a"))
    with started("-c", textwrap.dedent(FREEZES.format(url=postgres_url))) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        assert database.write(partial(add_one, "a")) == 2
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=WAIT)[0] == "3\n"
