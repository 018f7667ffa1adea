"""The table of maps with a name: who may give an input a run, and when it gets another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.actors.stores.database import Database
from understudy.actors.stores.maps.map_table import Item, MapClaim, MapTable
from understudy.actors.stores.runs import Claim, NewRun, RunTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase

NOW = 1_000.0


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return SQLiteDatabase(f"{tmp_path}/runs.db")


@pytest.fixture
def runs(database: Database) -> RunTable:
    return RunTable(database, clock=lambda: NOW)


@pytest.fixture
def maps(database: Database, runs: RunTable) -> MapTable:
    return MapTable(database, clock=lambda: NOW)


def claimed(maps: MapTable, owner: str) -> MapClaim:
    claim = maps.claim(maps.made("shop", "nightly", "clerk", "ada"), owner)
    assert claim is not None
    return claim


def begun(runs: RunTable, run_id: str) -> Claim:
    claim = runs.accept(NewRun(run_id, "shop", "clerk", "p1", "ada", None), "go")
    assert claim is not None
    return claim


def assign(database: Database, maps: MapTable, claim: MapClaim, run_id: str, before: str = "") -> bool:
    return database.write(lambda sql: maps.assign(sql, claim, "a", run_id, before))


def test_of_two_processes_that_look_at_a_map_one_has_it(database: Database, maps: MapTable) -> None:
    found = maps.made("shop", "nightly", "clerk", "ada")
    first = maps.claim(found, "p1")
    assert first is not None

    assert maps.claim(found, "p2") is None
    second = claimed(maps, "p2")

    assert database.read(lambda sql: (maps.is_held(sql, first), maps.is_held(sql, second))) == (False, True)
    maps.release(first)
    assert database.read(lambda sql: maps.is_held(sql, second))


def test_an_input_has_one_run_and_another_one_only_if_that_is_over_without_a_result(
    database: Database, runs: RunTable, maps: MapTable
) -> None:
    claim, first = claimed(maps, "p1"), begun(runs, "run-1")
    assert assign(database, maps, claim, "run-1")

    assert not assign(database, maps, claim, "run-2")
    assert not assign(database, maps, claim, "run-2", before="run-1"), "it goes on"
    runs.end(first, "failed")
    assert not assign(database, maps, claim, "run-3", before="run-0"), "the input has another run by now"
    assert assign(database, maps, claim, "run-2", before="run-1")

    database.write(maps.keeping("run-2", "the result"))
    assert not assign(database, maps, claim, "run-3", before="run-2"), "it has a result"
    assert maps.item(claim, "a") == Item("run-2", "the result", None)
