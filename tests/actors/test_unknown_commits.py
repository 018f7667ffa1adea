"""What remains in a store when a commit was done and its caller was told that nobody knows: the table in docs/stores.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from tests.support.tools import refund
from understudy.actors.stores.database import OpenSql, Row, Rows, Sql, SqlValue
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.orchestration.runs.lines import line_of
from understudy.testing import ScriptedModel, calls, says

T = TypeVar("T")

DAY = 86_400.0
UNKNOWN = "the connection was lost at the commit, and nobody knows whether it was done"
KEY = us.ConversationKey("shop", "ada", "c-42")


class Unsure(SQLiteDatabase):
    """A database that commits a transaction and then says that nobody knows, once for each time it is told to.

    Attributes:
        doubts: how the statement begins whose transaction is the next one; empty for none.
        doubts_tool: whether the next one is the transaction of a tool.
    """

    doubts = ""
    doubts_tool = False

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        is_doubted = False

        def watched(sql: Sql) -> T:
            seen = _Seen(sql, self.doubts)
            done = work(seen)
            nonlocal is_doubted
            is_doubted = seen.has_come
            return done

        value = super().write(watched, durable=durable)
        if is_doubted:
            self.doubts = ""
            raise us.StoreError(UNKNOWN, store="")
        return value

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        value = super().write_alone(work)
        if self.doubts_tool:
            self.doubts_tool = False
            raise us.StoreError(UNKNOWN, store="")
        return value

    def rows(self, statement: str) -> list[Row]:
        return self.read(lambda sql: sql.execute(statement).fetchall())


class _Seen:
    def __init__(self, sql: Sql, doubts: str) -> None:
        self._sql = sql
        self._doubts = doubts
        self.has_come = False

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        self.has_come = self.has_come or bool(self._doubts and statement.strip().startswith(self._doubts))
        return self._sql.execute(statement, values)


@pytest.fixture
def database(tmp_path: Path) -> Unsure:
    return Unsure(str(tmp_path / "shop.db"))


@pytest.fixture
def system(database: Unsure) -> Generator[us.ActorSystem]:
    with us.ActorSystem("shop", store=Store(database)) as made:
        yield made


def look(order: str) -> str:
    return f"order {order}"


def clerk(*turns: us.ModelTurn, max_iterations: int = 10, memory: us.Memory | None = None) -> us.Agent:
    model = ScriptedModel(turns)
    return us.Agent("clerk", model=model, tools=[refund, look], max_iterations=max_iterations, memory=memory)


ASKS = calls("refund", order="7", cents=1200)


def test_an_append_that_is_sent_again_stands_once(database: Unsure, system: us.ActorSystem) -> None:
    places = list[list[int]]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        bodies = [
            body for (body,) in database.rows("SELECT body FROM understudy_run_rows WHERE kind = 'line' ORDER BY name")
        ]
        lines = [entry for body in bodies for entry in line_of(body.partition("\n")[2])]
        places.append([entry.seq for entry in lines])
        database.doubts = "INSERT INTO understudy_run_rows"  # the next append, of calls that begin
        return says("done") if request.turn == 4 else calls("look", order=str(request.turn))

    agent = us.Agent("clerk", model=us.FunctionModel(answer), tools=[look])

    assert finished(agent.run("Look", system=system)).text == "done"
    assert [each == list(range(len(each))) for each in places] == [True] * 4
    assert 0 < len(places[1]) < len(places[2]) < len(places[3])


def test_a_pause_is_stored_again_and_has_one_token(database: Unsure, system: us.ActorSystem) -> None:
    database.doubts = "INSERT INTO understudy_pauses"

    waits = needs_approval(clerk(ASKS).run("Refund", system=system))

    assert database.doubts == ""
    assert database.rows("SELECT state, revision, forget_at FROM understudy_pauses") == [("waiting", 1, None)]
    assert [each.token for each in system.pending()] == [waits.token]


def test_a_pause_without_a_journal_stays_in_the_store_and_nobody_has_its_token(database: Unsure) -> None:
    database.doubts = "INSERT INTO understudy_pauses"
    system = us.ActorSystem("shop", store=Store(database), journal=False)

    with pytest.raises(us.StoreError, match="nobody knows") as caught:
        clerk(ASKS).run("Refund", system=system)

    assert (caught.value.token, caught.value.run_id) == ("", "")
    assert database.rows("SELECT state, forget_at FROM understudy_pauses") == [("waiting", None)]


def test_a_run_at_a_limit_is_stored_again_for_30_days(database: Unsure, system: us.ActorSystem) -> None:
    database.doubts = "INSERT INTO understudy_pauses"

    with pytest.raises(us.MaxIterationsExceeded) as caught:
        clerk(calls("look", order="7"), max_iterations=0).run("Look", system=system)

    assert [each.token for each in system.pending()] == [caught.value.token]
    ((state, forget_at),) = database.rows("SELECT state, forget_at FROM understudy_pauses")
    assert (state, round((forget_at - time.time()) / DAY)) == ("waiting", 30)


def test_a_token_that_was_taken_is_used_and_its_run_is_not_done(database: Unsure, system: us.ActorSystem) -> None:
    token = needs_approval(clerk(ASKS).run("Refund", system=system)).token
    database.doubts = "UPDATE understudy_pauses SET state = 'taken'"

    with pytest.raises(us.StoreError, match="nobody knows"):
        clerk().resume(token, us.Approve(), system=system)
    with pytest.raises(us.TokenUsed):
        clerk().resume(token, us.Approve(), system=system)

    ((state, payload, forget_at),) = database.rows("SELECT state, payload, forget_at FROM understudy_pauses")
    assert (state, bool(payload), round((forget_at - time.time()) / DAY)) == ("taken", True, 30)


def test_values_of_a_session_are_stored_once_and_nobody_is_told_what_they_replaced(
    database: Unsure, system: us.ActorSystem
) -> None:
    def keep(ctx: us.ToolContext) -> str:
        if ctx.deps == "late":  # another run is first, and this one has not seen it
            agent("early").run("go", system=system, user_id="ada", deps="early")
            database.doubts = "UPDATE understudy_values"
        ctx.session["user:n"] = str(ctx.deps)
        return "kept"

    def agent(id: str) -> us.Agent:
        return us.Agent(id, model=ScriptedModel([calls("keep"), says("ok")]), tools=[us.tool(keep)])

    agent("first").run("go", system=system, user_id="ada", deps="first")
    handle = agent("late").submit("go", system=system, user_id="ada", deps="late")

    assert finished(handle.result()).text == "ok"
    assert not [event for event in handle.events() if isinstance(event, us.SessionNotSaved | us.SessionOverwritten)]
    assert database.doubts == ""
    assert database.rows("SELECT value FROM understudy_values") == [('"late"',)]


def test_a_turn_of_a_conversation_is_stored_once_also_when_it_is_stored_again(
    database: Unsure, system: us.ActorSystem
) -> None:
    memory = us.PersistentMemory()
    database.doubts = "INSERT INTO understudy_turns"

    outcome = clerk(says("hi"), memory=memory).run("hello", system=system, user_id="ada", conversation_id="c-42")
    by_hand = us.PersistentMemory(Store(database))
    by_hand.append(KEY, outcome.messages, outcome.run_id)

    assert database.doubts == ""
    assert [turn.run_id for turn in by_hand.read(KEY)] == [outcome.run_id]


def test_a_ticket_is_taken_again_in_place_of_the_one_in_doubt(database: Unsure, system: us.ActorSystem) -> None:
    agent = clerk(says("hi"), says("hi"), memory=us.PersistentMemory())
    database.doubts = "INSERT INTO understudy_tickets"

    for _ in range(2):
        handle = agent.submit("hello", system=system, user_id="ada", conversation_id="c-42")
        assert finished(handle.result(timeout=WAIT)).text == "hi"

    assert database.doubts == ""
    assert database.rows("SELECT * FROM understudy_tickets") == []


def test_a_ticket_in_doubt_is_given_back_by_the_next_beat(database: Unsure) -> None:
    database.doubts = "INSERT INTO understudy_tickets"
    system = us.ActorSystem("shop", store=Store(database), store_patience=0.0)

    with pytest.raises(us.StoreError, match="nobody knows"):
        clerk(memory=us.PersistentMemory()).run("hello", system=system, user_id="ada", conversation_id="c-42")

    assert database.doubts == ""
    eventually(lambda: database.rows("SELECT * FROM understudy_tickets") == [], "the ticket is given back")


def test_a_transactional_tool_is_not_called_again_and_the_next_process_reads_its_result(
    database: Unsure, system: us.ActorSystem
) -> None:
    database.write(lambda sql: sql.execute("CREATE TABLE shelf (units INTEGER)").rowcount)
    attempts = list[str]()

    def book(ctx: us.ToolContext) -> str:
        attempts.append(ctx.call_key)
        with ctx.transaction() as sql:
            sql.execute("INSERT INTO shelf VALUES (1)")
        return "booked"

    booker = us.Agent(
        "booker",
        model=ScriptedModel([calls("book"), says("done")]),
        tools=[us.tool(transactional=True, retries=3)(book)],
    )
    database.doubts_tool = True

    with pytest.raises(us.StoreError, match="nobody knows"):
        booker.run("go", system=system)
    (left,) = system.recover(runners=[booker])

    assert finished(left.result()).text == "done"
    assert (len(attempts), database.rows("SELECT units FROM shelf")) == (1, [(1,)])
