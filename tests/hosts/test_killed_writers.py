"""A process that is killed at any statement of a write: the next process finds all of it or nothing, and does it again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from understudy import ConversationKey, PausedRun
from understudy.actors.journal.run_owners import RUN_OWNERS, RunOwners
from understudy.actors.stores.conversation_rows import CONVERSATIONS
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.database import SCHEMA, TABLES, Database, OpenSql, Rows, Sql, SqlValue, prepare
from understudy.actors.stores.maps.map_table import MAPS, MapTable
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.owners import OWNERS
from understudy.actors.stores.pauses import PAUSES, PauseTable
from understudy.actors.stores.runs import RUNS, NewRun, RunTable
from understudy.actors.stores.sessions import SESSIONS, SessionChange, SessionTable
from understudy.actors.stores.tickets import TICKETS
from understudy.vocabulary.context.session_values import SessionOwner
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

from .forking import in_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.timeout(120),
]

T = TypeVar("T")

KEY = ConversationKey("shop", "ada", "c-1")
ADA = SessionOwner("user", ("shop", "ada"))
ALL = Window(turns=None, tokens=None)


class Killing:
    """A database whose process kills itself at a moment: before each statement and each commit, and after each commit.

    Args:
        database: the real one.
        moment: the number of that moment.
    """

    def __init__(self, database: Database, moment: int) -> None:
        self._database = database
        self._left = moment

    def pass_moment(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    @property
    def words(self) -> Mapping[str, str]:
        return self._database.words

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        def watched(sql: Sql) -> T:
            done = work(_Watched(sql, self))
            self.pass_moment()
            return done

        returned = self._database.write(watched, durable=durable)
        self.pass_moment()
        return returned

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        return self._database.write_alone(work)

    def read(self, work: Callable[[Sql], T]) -> T:
        return self._database.read(work)

    def drop_remains(self) -> None:
        self._database.drop_remains()


class _Watched:
    def __init__(self, sql: Sql, database: Killing) -> None:
        self._sql = sql
        self._database = database

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        self._database.pass_moment()
        return self._sql.execute(statement, values)


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return the URL of a new, empty database at each call."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        return lambda: str(server.new_database())
    numbers = count()
    return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"


def database_of(url: str) -> Database:
    database = open_store(url).database
    assert database is not None
    return database


def kill_at_each_moment(
    url: Callable[[], str], begin: Callable[[Database], object], do: Callable[[Database], object]
) -> list[str]:
    """Have a process killed at each moment of what it does; returns the databases that are left."""
    left: list[str] = []
    while True:
        left.append(url())

        def act() -> None:
            database = database_of(left[-1])
            begin(database)
            do(Killing(database, len(left) - 1))

        try:
            in_child(act)
        except AssertionError as error:
            assert str(error) == "the child ended with -9"
        else:
            assert len(left) > 4
            return left


# --- a summary and a turn


def begin_conversation(database: Database) -> None:
    table = ConversationTable(database)
    for run_id in ("run-1", "run-2"):
        table.append(KEY, [user_message(run_id)], run_id)


def compact(database: Database) -> None:
    """Store what a run with a compaction stores at its end."""
    table = ConversationTable(database)
    table.summarize(KEY, 2, [user_message("short")], "run-3")
    table.append(KEY, [user_message("run-3")], "run-3")


def test_a_process_that_is_killed_as_it_stores_a_summary_loses_no_turn_and_leaves_no_half(
    new_url: Callable[[], str],
) -> None:
    for url in kill_at_each_moment(new_url, begin_conversation, compact):
        table = ConversationTable(database_of(url))
        known = table.load(KEY, ALL)
        shown = [message.text for message in known.messages]
        assert shown in (["run-1", "run-2"], ["short"], ["short", "run-3"])
        assert known.upto == (2 if known.summary else 0)

        compact(database_of(url))
        assert [message.text for message in table.load(KEY, ALL).messages] == ["short", "run-3"]
        kept = [(turn.kind, turn.run_id) for turn in table.read(KEY, 0, 10)]
        assert kept == [("turn", "run-1"), ("turn", "run-2"), ("summary", "run-3"), ("turn", "run-3")]


# --- values of a session


def change(run_id: str) -> list[SessionChange]:
    return [SessionChange(ADA, key, run_id, is_removed=False, seen=0) for key in ("a", "b")]


def save_session(database: Database) -> None:
    SessionTable(database).commit("run-2", change("run-2"))


def test_a_process_that_is_killed_as_it_stores_a_session_leaves_all_values_or_none(new_url: Callable[[], str]) -> None:
    for url in kill_at_each_moment(
        new_url, lambda database: SessionTable(database).commit("run-1", change("run-1")), save_session
    ):
        table = SessionTable(database_of(url))
        by = {key: each.value for key, each in table.load([ADA]).items()}
        assert by in ({"a": "run-1", "b": "run-1"}, {"a": "run-2", "b": "run-2"})

        told = table.commit("run-3", change("run-3"))
        assert [each.other_run_id for each in told] == [by["a"]] * 2


# --- tables

PARTS = (PAUSES, CONVERSATIONS, SESSIONS, OWNERS, TICKETS, RUNS, RUN_OWNERS, MAPS)
RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="[]")


def unprepared(url: str) -> Database:
    """Return a database without tables."""
    if url.startswith("sqlite"):
        from understudy.actors.stores.sqlite_database import SQLiteDatabase

        return SQLiteDatabase(url.removeprefix("sqlite:///"))
    from understudy.actors.stores.postgres.database import PostgresDatabase

    return PostgresDatabase(url)


def versions(database: Database) -> dict[str, int]:
    rows = database.read(lambda sql: sql.execute("SELECT part, version FROM understudy_schema").fetchall())
    return {row[0]: row[1] for row in rows}


def use(url: str) -> None:
    """Use each part of a store."""
    database = database_of(url)
    pauses = PauseTable(database)
    assert pauses.put(RUN, keep=None)
    assert pauses.lease("shop-1", 1, "worker", 60)
    begin_conversation(database)
    save_session(database)
    grants = open_store(url).grants
    assert grants is not None
    claim, _, is_first = grants.take(KEY, "run-1")
    assert is_first
    grants.give_back(claim)
    runs = RunTable(database)
    driven = runs.accept(NewRun("shop-2", "shop", "clerk", "owner", None, None), "{}")
    assert driven is not None
    assert runs.end(driven, "complete")
    RunOwners(database).beat("owner", 15.0)
    assert MapTable(database).made("shop", "nightly", "clerk", "ada").runner_id == "clerk"


def test_the_tables_that_are_emptied_are_those_that_the_parts_make() -> None:
    made = [name for part in PARTS for each in part.tables for name in re.findall(r"CREATE TABLE (\w+)", each)]

    assert sorted([*made, "understudy_schema"]) == sorted(TABLES)


def test_a_process_that_is_killed_as_it_makes_tables_leaves_all_or_none(new_url: Callable[[], str]) -> None:
    moment = 0
    while True:
        url = new_url()
        try:
            in_child(lambda: prepare(Killing(unprepared(url), moment), PAUSES))  # noqa: B023 (called at once)
        except AssertionError as error:
            assert str(error) == "the child ended with -9"
        else:
            break  # it was over before
        use(url)
        assert versions(database_of(url)) == {each.name: SCHEMA for each in PARTS}
        moment += 1
    assert moment > 4
