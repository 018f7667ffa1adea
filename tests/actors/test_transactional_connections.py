"""What a tool's statements would change of a connection: later users of it, and the runtime itself, never notice."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import understudy as us
from tests.support.scripts import contents_of, finished
from tests.support.shelf import Shelf, caller, take
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.errors import StoreError
from understudy.testing import says

SETTING = "SELECT current_setting('default_transaction_read_only'), current_setting('search_path')"
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711"
CHANGES = [
    "SELECT set_config('default_transaction_read_only', 'on', false)",
    "SELECT pg_advisory_lock(4711)",
    "CREATE TEMP TABLE scratch (k TEXT)",
    "CREATE TEMP TABLE understudy_run_rows AS SELECT * FROM understudy_run_rows",
    "SELECT set_config('search_path', 'elsewhere', false)",
]


@pytest.fixture
def server(postgres_url: str) -> Iterator[Shelf]:
    yield Shelf(postgres_url)
    gc.collect()  # the connections of the systems, of which the server has few


@pytest.mark.parametrize("returns", [True, False])
def test_a_connection_is_as_it_was_when_a_tool_had_it(returns: bool, server: Shelf) -> None:
    @us.tool(transactional=True)
    def change(ctx: us.ToolContext) -> str:
        """Change the connection."""
        with ctx.transaction() as sql:
            take(sql)
            for statement in CHANGES:
                sql.execute(statement)
            if not returns:
                raise LookupError("no such bell")
        return "changed"

    @us.tool(transactional=True)
    def look(ctx: us.ToolContext) -> list[object]:
        """Look at the connection."""
        with ctx.transaction() as sql:
            temporary = sql.execute("SELECT relname FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'")
            return [temporary.fetchall(), sql.execute(SETTING).fetchone(), sql.execute(LOCKS).fetchone()]

    with server.system() as system:
        (changed,) = contents_of(finished(caller(change).run("go", system=system)))
        (seen,) = contents_of(finished(caller(look).run("go", system=system)))

    assert seen == '[[], ["off", "\\"$user\\", public"], [0]]'
    assert (changed == "changed", server.units) == (returns, 6 if returns else 7)


def test_a_temporary_table_never_takes_the_result_of_the_call(server: Shelf) -> None:
    seen = list[str]()

    @us.tool(transactional=True)
    def hide(ctx: us.ToolContext) -> str:
        """Hide the rows of runs."""
        with ctx.transaction() as sql:
            sql.execute(CHANGES[-2])
        return "hidden"

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return us.ModelTurn((us.ToolCall("one", "hide", {}),))
        seen.extend(server.results())
        return says("done")

    with server.system() as system:
        finished(us.Agent("clerk", model=us.FunctionModel(next_turn), tools=[hide]).run("go", system=system))

    assert seen == ["one"]


@pytest.mark.parametrize("statement", ["COMMIT", "COMMIT; BEGIN"])
def test_a_statement_that_ends_the_transaction_is_found_out(statement: str, server: Shelf) -> None:
    with pytest.raises(StoreError, match="a statement ended the transaction"):
        PostgresDatabase(server.url).write_alone(lambda sql: sql.execute_given(statement, (), lambda: 1.0))
