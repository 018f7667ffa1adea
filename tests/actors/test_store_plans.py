"""What a run asks of a store is found by indexes: its cost does not grow with the runs and users before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from understudy import ConversationKey, PausedRun
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.database import VERSIONS, Rows, Sql, SqlValue
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.maps.map_table import MapTable
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.runs import NewRun, RunTable
from understudy.actors.stores.sessions import SessionChange, SessionTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.vocabulary.context.session_values import owners
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

T = TypeVar("T")

KEY = ConversationKey("shop", "ada", "c-1")
RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="{}")


class Explained(SQLiteDatabase):
    """A file that tells for each statement how SQLite finds the rows.

    Attributes:
        plans: statement -> the steps of its plan.
    """

    plans: dict[str, list[str]]

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        return super().write(lambda sql: work(_Explaining(sql, self.plans)), durable=durable)

    def read(self, work: Callable[[Sql], T]) -> T:
        return super().read(lambda sql: work(_Explaining(sql, self.plans)))


class _Explaining:
    def __init__(self, sql: Sql, plans: dict[str, list[str]]) -> None:
        self._sql = sql
        self._plans = plans

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        if not statement.lstrip().startswith(("CREATE", "ALTER")):
            steps = self._sql.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            self._plans[statement] = [step[3] for step in steps]
        return self._sql.execute(statement, values)


@pytest.fixture
def database(tmp_path: Path) -> Explained:
    found = Explained(str(tmp_path / "shop.db"))
    found.plans = {}
    return found


def sessions(database: Explained) -> None:
    table = SessionTable(database)
    found = owners("shop", "ada", "c-1")
    table.load(found)
    for run_id, is_removed in (("one", False), ("two", True)):
        table.commit(run_id, [SessionChange(found[0], "a", 1, is_removed, seen=0)])


def conversations(database: Explained) -> None:
    table = ConversationTable(database)
    for run_id in ("one", "two"):
        table.append(KEY, [user_message(run_id)], run_id, keep=1.0)
    table.summarize(KEY, 1, [user_message("short")], "three")
    table.load(KEY, Window(turns=20, tokens=None))


def tickets(database: Explained) -> None:
    grants = Grants(database, 10.0)
    claim, ticket, _ = grants.take(KEY, "one")
    grants.has_come(KEY, claim, ticket)
    grants.give_back(claim)


def pauses(database: Explained) -> None:
    table = PauseTable(database)
    table.put(RUN, keep=None)
    table.lease(RUN.run_id, 1, "ada", 60)
    table.get(RUN.run_id)
    table.release(RUN.run_id, 1, "ada")
    table.take(RUN.run_id, 1)
    table.close(RUN.run_id, 1)


def runs(database: Explained) -> None:
    table = RunTable(database)
    table.accept(NewRun("one", "shop", "clerk", "gone", "ada", None), "")
    left = table.left("shop", "gone")
    table.claim(left, "process")
    table.give_back(left, "process")


def maps(database: Explained) -> None:
    RunTable(database)
    table = MapTable(database)
    claim = table.claim(table.made("shop", "nightly", "clerk", "ada"), "process")
    assert claim is not None
    table.write(lambda sql: table.assign(sql, claim, "input", "one", ""))
    table.write(lambda sql: table.assign(sql, claim, "input", "two", "one"))
    table.write(table.keeping("two", "result"))
    table.item(claim, "input")
    table.release(claim)
    table.erase("ada", "shop")


@pytest.mark.parametrize("play", [sessions, conversations, tickets, pauses, runs, maps])
def test_no_statement_of_a_run_reads_a_whole_table(play: Callable[[Explained], None], database: Explained) -> None:
    play(database)

    del database.plans[VERSIONS]  # all eight rows, once for each part that is opened
    scans = {each: plan for each, plan in database.plans.items() if any(step.startswith("SCAN u") for step in plan)}
    assert len(database.plans) > 4
    assert scans == {}
