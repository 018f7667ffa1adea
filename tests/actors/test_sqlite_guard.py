"""What statements of a tool may do on the connection to a file, which others use later."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from understudy.actors.stores.database import OpenSql
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.sqlite_job import Guard
from understudy.errors import StoreError

THEIRS = "tables whose names begin with understudy_ are the runtime's"
LATER = "which others use later"
TABLES = ("CREATE TABLE understudy_rows (row TEXT)", "CREATE TABLE shelf (sku TEXT, understudy_id TEXT)")


@pytest.fixture
def database(tmp_path: Path) -> SQLiteDatabase:
    made = SQLiteDatabase(f"{tmp_path}/shop.db")
    made.write(lambda sql: [sql.execute(table) for table in TABLES])
    return made


def given(*statements: str) -> Callable[[OpenSql], None]:
    def work(sql: OpenSql) -> None:
        for statement in statements:
            sql.execute_given(statement, (), lambda: 1.0)

    return work


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("COMMIT", LATER),
        ("SAVEPOINT here", LATER),
        ("ATTACH ':memory:' AS other", LATER),
        ("EXPLAIN PRAGMA secure_delete=OFF", LATER),
        ("CREATE TEMP TABLE scratch (a)", LATER),
        ("CREATE TABLE temp.scratch (a)", LATER),
        ("CREATE TABLE temp.understudy_rows (a)", LATER),
        ("CREATE TEMPORARY VIEW scratch AS SELECT 1", LATER),
        ("CREATE TEMP TRIGGER seen AFTER INSERT ON shelf BEGIN SELECT 1; END", LATER),
        ("INSERT INTO understudy_rows VALUES ('a')", THEIRS),
        ("UPDATE Understudy_Rows SET row = 'a'", THEIRS),
        ("DELETE FROM main.understudy_rows", THEIRS),
        ("DROP TABLE understudy_rows", THEIRS),
        ("ALTER TABLE understudy_rows RENAME TO rows", THEIRS),
        ("CREATE INDEX fast ON understudy_rows (row)", THEIRS),
        ("CREATE TRIGGER seen AFTER INSERT ON understudy_rows BEGIN SELECT 1; END", THEIRS),
    ],
)
def test_what_belongs_to_others_is_refused(statement: str, words: str, database: SQLiteDatabase) -> None:
    with pytest.raises(ValueError, match=words):
        database.write_alone(given("INSERT INTO shelf VALUES ('bell', '1')", statement))

    assert database.read(lambda sql: sql.execute("SELECT * FROM shelf").fetchall()) == []


def test_a_trigger_of_a_tool_cannot_change_the_tables_of_the_runtime(database: SQLiteDatabase) -> None:
    trigger = "CREATE TRIGGER seen AFTER INSERT ON shelf BEGIN DELETE FROM understudy_rows; END"
    database.write_alone(given(trigger))

    with pytest.raises(ValueError, match=THEIRS):
        database.write_alone(given("INSERT INTO shelf VALUES ('bell', '1')"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM understudy_rows",
        "SELECT name FROM pragma_table_info('shelf')",
        "UPDATE shelf SET understudy_id = '2'",
        "CREATE TABLE copied AS SELECT * FROM shelf ORDER BY sku",
        "CREATE INDEX fast ON shelf (sku)",
        "CREATE VIEW seen AS SELECT sku FROM shelf",
        "ALTER TABLE shelf ADD COLUMN units INTEGER",
        "ALTER TABLE shelf RENAME TO stock",
        "ALTER TABLE shelf RENAME COLUMN sku TO kind",
        "ALTER TABLE shelf DROP COLUMN understudy_id",
        "CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, before INTEGER REFERENCES counted)",
        "CREATE TRIGGER seen AFTER INSERT ON shelf BEGIN DELETE FROM shelf; END",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
        "DROP TABLE shelf",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n",
    ],
)
def test_a_tool_does_what_it_likes_with_its_own_tables(
    statement: str, database: SQLiteDatabase, tmp_path: Path
) -> None:
    statements = ("INSERT INTO shelf VALUES ('bell', '1')", statement)

    database.write_alone(given(*statements))

    with closing(sqlite3.connect(tmp_path / "shop.db")) as seen, closing(sqlite3.connect(":memory:")) as unguarded:
        for each in (*TABLES, *statements):
            unguarded.execute(each)
        assert list(seen.iterdump()) == list(unguarded.iterdump())


def test_the_runtime_writes_its_rows_in_the_transaction_of_a_tool_and_after_it(database: SQLiteDatabase) -> None:
    insert = "INSERT INTO understudy_rows VALUES ('a')"

    def work(sql: OpenSql) -> None:
        given("INSERT INTO shelf VALUES ('bell', '1')")(sql)
        sql.end_given()
        sql.execute(insert)

    database.write_alone(work)
    with pytest.raises(ValueError, match=THEIRS):
        database.write_alone(given(insert))
    database.write(lambda sql: sql.execute(insert))

    assert database.read(lambda sql: sql.execute("SELECT * FROM understudy_rows").fetchall()) == [("a",), ("a",)]


def test_a_statement_that_ends_the_transaction_is_found_out(
    database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allow(*asked: object) -> int:
        return sqlite3.SQLITE_OK

    monkeypatch.setattr(Guard, "judge", allow)

    with pytest.raises(StoreError, match="a statement ended the transaction"):
        database.write_alone(given("COMMIT"))
