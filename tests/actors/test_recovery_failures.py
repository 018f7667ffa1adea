"""Recovery when something else fails: the store, the functions of the user, or another caller at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.killing import Effects, killed, worker
from tests.support.scripts import WAIT, finished, needs_approval
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.journal.run_owners import RunOwners
from understudy.actors.stores import sqlite_database
from understudy.actors.stores.process_locks import ProcessLocks
from understudy.actors.stores.runs import Claim, NewRun, RunRow, RunTable, StoredRun
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.errors import StoreError
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.journal.rows import JournalRow
from understudy.testing import says
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


def leave_runs(agent: us.Agent, store: str, effects: Effects, count: int = 1) -> None:
    for _ in range(count):
        effects.deadly = len(effects.noted) + 1
        assert killed(lambda: agent.run("go", system=us.ActorSystem("shop", store=store)))
    effects.deadly = 0


def results(handles: list[us.RunHandle[object]]) -> list[str]:
    return [finished(handle.result(timeout=WAIT)).text for handle in handles]


def test_a_store_that_fails_once_costs_no_run(
    effects: Effects, store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects, 3)
    claim, answers = RunTable.claim, iter([True, False, True, True])

    def fails_once(table: RunTable, left: Sequence[StoredRun], owner: str, *others: Any) -> dict[int, Claim]:
        if not next(answers):
            raise StoreError("the disk is full")
        return claim(table, left, owner, *others)

    monkeypatch.setattr(RunTable, "claim", fails_once)
    system = us.ActorSystem("shop", store=store)

    assert results(system.recover(runners=[agent])) == ["did a"]
    assert "is left as it is: StoreError: the disk is full" in caplog.text
    assert results(system.recover(runners=[agent])) == ["did a", "did a"]


def test_a_run_that_was_claimed_when_the_store_failed_is_taken_up_by_the_next_call(
    effects: Effects, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects)
    rows, answers = RunTable.rows, iter([True, False, True, True])

    def fails_once(table: RunTable, run: int) -> list[RunRow]:
        if not next(answers):
            raise StoreError("the disk is full")
        return rows(table, run)

    monkeypatch.setattr(RunTable, "rows", fails_once)
    system = us.ActorSystem("shop", store=store)

    with pytest.raises(StoreError, match="the disk is full"):
        system.recover(runners=[agent])
    assert results(system.recover(runners=[agent])) == ["did a"]


def test_only_a_named_run_goes_on_after_many_processes_have_died_of_it(effects: Effects, store: str) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects, 2)
    SQLiteDatabase(store.removeprefix("sqlite:///")).write(
        lambda sql: sql.execute("UPDATE understudy_runs SET takeovers = 50")
    )
    system = us.ActorSystem("shop", store=store)

    assert system.recover(runners=[agent]) == []
    named, other = [parked.run_id for parked in system.health().parked]
    (handle,) = system.recover(runners=[agent], run_ids=[named, "of nobody"])

    assert handle.run_id == named != other
    assert results([handle]) == ["did a"]


@pytest.mark.parametrize("run_ids", ["r-1", 5, [1]])
def test_runs_are_named_by_a_list_of_ids(run_ids: list[str], store: str) -> None:
    with pytest.raises(TypeError, match="run_ids must be"):
        us.ActorSystem("shop", store=store).recover(run_ids=run_ids)


def test_a_run_whose_deps_cannot_be_made_is_left(
    effects: Effects, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects)
    system = us.ActorSystem("shop", store=store)

    def fails(run: us.LeftRun) -> object:
        raise StoreError("no shop")

    assert system.recover(runners=[agent], deps=fails) == []
    assert "deps of recover: StoreError: no shop" in caplog.text
    assert results(system.recover(runners=[agent])) == ["did a"]


def test_deps_are_made_by_a_plain_function(store: str) -> None:
    async def deps(run: us.LeftRun) -> object:
        return run

    with pytest.raises(TypeError, match="a plain function of a run"):
        us.ActorSystem("shop", store=store).recover(deps=deps)


def test_deps_may_recover_runs_themselves(effects: Effects, store: str) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects)
    system, inside = us.ActorSystem("shop", store=store), list[us.RunHandle[object]]()

    def deps(run: us.LeftRun) -> object:
        inside.extend(system.recover(runners=[agent]))
        return run

    assert system.recover(runners=[agent], deps=deps) == []
    assert results(inside) == ["did a"]


def test_of_many_calls_at_once_each_run_goes_on_in_one(effects: Effects, store: str) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_runs(agent, store, effects, 5)
    systems, found = [us.ActorSystem("shop", store=store) for _ in range(2)], list[us.RunHandle[object]]()

    def recover(system: us.ActorSystem) -> None:
        found.extend(system.recover(runners=[agent]))

    threads = [threading.Thread(target=recover, args=(system,)) for system in systems * 3]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results(found) == ["did a"] * 5
    assert len(effects.repeated) == 5


def test_a_reconcile_that_hangs_leaves_its_call_to_a_person(effects: Effects, store: str) -> None:
    over = threading.Event()

    def hangs(key: str, arguments: us.JsonObject) -> us.Happened:
        over.wait(WAIT)
        return us.Happened("too late")

    agent = worker("clerk", effects.tool(reconcile=hangs).replace(timeout=0.05), ["a"])
    leave_runs(agent, store, effects)

    (handle,) = us.ActorSystem("shop", store=store).recover(runners=[agent])

    assert needs_approval(handle.result(timeout=WAIT)).pauses[0].in_doubt == ("c0",)
    over.set()


@pytest.mark.parametrize("result", [object(), {1}, b"sent"])
def test_a_person_gives_a_result_that_is_json(result: us.JsonValue, effects: Effects, store: str) -> None:
    agent = worker("clerk", effects.tool(), ["a"])
    leave_runs(agent, store, effects)
    system = us.ActorSystem("shop", store=store)
    (handle,) = system.recover(runners=[agent])
    waits = needs_approval(handle.result(timeout=WAIT))

    with pytest.raises(TypeError, match="must have a JSON value"):
        agent.resume(waits.token, {"c0": us.Happened(result)}, system=system)
    given = {"c0": us.Happened("sent")}
    assert finished(agent.resume(waits.token, given, system=system)).text == "sent"


def test_a_run_that_another_process_has_does_not_end_with_its_answer(tmp_path: Path) -> None:
    table, _ = journals_in(tmp_path / "runs.db")

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        (left,) = table.left("shop")
        assert table.claim([left], "another")
        return says("done")

    with pytest.raises(us.LeaseLost, match="another one took it over"):
        system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db")
        us.Agent("clerk", model=us.FunctionModel(ask)).run("go", system=system)

    assert [run.owner for run in table.left("shop")] == ["another"]


def no_locks(folder: Path) -> None:
    """Stand for a system without record locks."""


def test_a_system_without_locks_of_processes_has_no_journal(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_database, "process_locks", no_locks)
    system = us.ActorSystem("shop", store=store)

    assert finished(us.Agent("clerk", model=us.ScriptedModel([says("done")])).run("go", system=system)).text == "done"
    with pytest.raises(ValueError, match="record locks, such as Windows"):
        system.recover()


def journals_in(file: Path) -> tuple[RunTable, RunJournals]:
    database = SQLiteDatabase(str(file))
    table = RunTable(database)
    assert database.locks is not None
    return table, RunJournals(table, RunOwners(database), database.locks, "shop", 15.0)


def test_a_run_that_goes_on_is_still_driven_when_its_end_before_is_noted(tmp_path: Path) -> None:
    _, journals = journals_in(tmp_path / "runs.db")
    options = RunOptions()
    before, now = [journals.begin("r-1", Account("clerk", None, Spending())).journal for _ in range(2)]
    for journal in (before, now):
        assert journal.accept(journals.named("r-1", "clerk", options), "{}")

    journals.ended(before)

    assert journals.left() == []
    journals.ended(now)
    assert [run.run_id for run in journals.left()] == ["r-1"]


def test_rows_that_a_process_before_wrote_of_a_run_inside_go_with_it(tmp_path: Path) -> None:
    table, journals = journals_in(tmp_path / "runs.db")
    claim = table.accept(NewRun("r-1", "shop", "clerk", "gone", None, None), "{}")
    assert claim is not None
    table.commit(claim, [RunRow(path, "definition", "", "{}") for path in ("", "/0", "/0/1.c0", "/1")])
    (left,) = journals.left()
    journal = journals.claim([left])[left.run_id]
    journal.has({row.path for row in journals.rows(left)})

    journal.commit("", [], ["/0"])

    assert [row.path for row in journals.rows(left)] == ["", "/1"]
    journals.ended(journal)


def test_the_first_rows_of_a_stay_replace_those_of_the_runs_inside(tmp_path: Path) -> None:
    table, journals = journals_in(tmp_path / "runs.db")
    claim = table.accept(NewRun("r-1", "shop", "clerk", "gone", None, None), "{}")
    assert claim is not None
    table.commit(
        claim, [RunRow(path, kind, "7", "{}") for path in ("", "/0", "/0/1.c0", "/1") for kind in ("run", "line")]
    )
    (left,) = journals.left()
    journal = journals.claim([left])[left.run_id]
    journal.has({row.path for row in journals.rows(left)})

    journal.commit("/0", [JournalRow("definition", "", "{}")])
    journal.commit("/1", [JournalRow("line", "8", "{}")])

    assert [(row.path, row.kind) for row in journals.rows(left)] == [
        ("", "run"),
        ("", "line"),
        ("/1", "run"),
        ("/1", "line"),
        ("/0", "definition"),
        ("/1", "line"),
    ]
    journals.ended(journal)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_whose_lock_file_was_removed_counts_as_alive_and_makes_the_file_anew(tmp_path: Path) -> None:
    folder = tmp_path / "owners"
    locks = ProcessLocks(folder)
    name = locks.name()

    def looks() -> None:
        others = ProcessLocks(folder)
        assert others.name() != name
        assert others.lives(name)

    shutil.rmtree(folder)
    in_child(looks)

    assert locks.name() == name
    assert (folder / name).exists()
    in_child(looks)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("removed", [False, True])
def test_a_dead_process_counts_as_dead_also_when_its_lock_file_was_removed(removed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "owners"
    in_child(lambda: (tmp_path / "name").write_text(ProcessLocks(folder).name()))
    dead = (tmp_path / "name").read_text()
    if removed:
        shutil.rmtree(folder)
    locks = ProcessLocks(folder)
    locks.name()

    assert [locks.lives(dead) for _ in range(2)] == [False, False]


CANCELS = """
import atexit, sys, threading
import understudy as us
from understudy.actors.stores.runs import RunTable
from understudy.testing import says

at_exit, end, asked = threading.Event(), RunTable.end, threading.Event()

def late(*given, **options):
    at_exit.wait()
    return end(*given, **options)

def ask(given):
    asked.set()
    threading.Event().wait()

RunTable.end = late
agent = us.Agent("clerk", model=us.ScriptedModel([says("done")]), system_prompt=ask)
handle = agent.submit("go", system=us.ActorSystem("shop", store=sys.argv[1]))
asked.wait()
handle.cancel()
atexit.register(at_exit.set)
"""


def test_a_process_that_ends_first_notes_the_ends_of_its_runs(store: str) -> None:
    subprocess.run([sys.executable, "-c", CANCELS, store], check=True, timeout=WAIT)

    agent = us.Agent("clerk", model=us.ScriptedModel([says("done")]))
    assert us.ActorSystem("shop", store=store).recover(runners=[agent], adopt=True) == []
