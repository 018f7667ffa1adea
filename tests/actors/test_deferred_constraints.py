"""Constraints of a tool's own tables that the database checks at the commit: the call fails, and its run goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import contents_of, finished
from tests.support.shelf import Shelf, caller
from understudy.actors.stores.database import Violated
from understudy.actors.stores.sqlite_database import SQLiteDatabase, writer_of


@pytest.fixture
def server(postgres_url: str) -> Iterator[Shelf]:
    yield Shelf(postgres_url)
    gc.collect()  # the connections of the systems, of which the server has few


TABLES = {
    "UniqueViolation": "CREATE TABLE held (bell INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED)",
    "ForeignKeyViolation": "CREATE TABLE held (bell INTEGER REFERENCES bells DEFERRABLE INITIALLY DEFERRED)",
}


@pytest.mark.parametrize("error", TABLES)
def test_a_deferred_constraint_fails_the_call_once_and_the_model_reads_why(error: str, server: Shelf) -> None:
    server.ask("CREATE TABLE bells (bell INTEGER PRIMARY KEY)")
    server.ask(TABLES[error])
    made = list[str]()

    @us.tool(transactional=True)
    def hold(ctx: us.ToolContext) -> str:
        """Hold a bell twice."""
        made.append(ctx.call_key)
        with ctx.transaction() as sql:
            sql.executemany("INSERT INTO held VALUES (?)", [(1,), (1,)])
        return "held"

    with server.system() as system:
        (answer,) = contents_of(finished(caller(hold).run("go", system=system)))

    assert f"its transaction was undone: the check before its commit failed: {error}: " in answer
    assert "violates" in answer
    assert (len(made), server.ask("SELECT * FROM held")) == (1, [])


def test_a_deferred_constraint_in_a_file_refuses_the_commit_and_the_file_goes_on(tmp_path: Path) -> None:
    path = f"{tmp_path}/shop.db"
    database = SQLiteDatabase(path)
    with writer_of(path).file.lent() as connection:
        connection.execute("PRAGMA foreign_keys=ON")
    database.write(lambda sql: sql.execute("CREATE TABLE bells (bell INTEGER PRIMARY KEY)"))
    database.write(
        lambda sql: sql.execute("CREATE TABLE held (bell INTEGER REFERENCES bells DEFERRABLE INITIALLY DEFERRED)")
    )

    with pytest.raises(Violated, match="FOREIGN KEY constraint failed"):
        database.write_alone(lambda sql: sql.execute_given("INSERT INTO held VALUES (1)", (), lambda: 1.0))

    assert database.read(lambda sql: sql.execute("SELECT * FROM held").fetchall()) == []
