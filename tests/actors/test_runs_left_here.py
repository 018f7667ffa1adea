"""Runs that a process has left while it lives, because the store failed: it goes on with them itself, after growing pauses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import understudy as us
from understudy.actors.journal.driven_runs import DrivenRuns
from understudy.actors.journal.neighbours import Neighbour, Neighbours
from understudy.actors.journal.run_journal import RunJournal
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.journal.run_owners import RunOwners
from understudy.actors.stores.database import Database
from understudy.actors.stores.process_locks import NOBODY, HasLocks
from understudy.actors.stores.runs import Claim, NewRun, RunTable, StoredRun
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.orchestration.definitions.port import RunOptions
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending


class Names:
    """The name of this process, and names of others, whose locks are free."""

    def name(self) -> str:
        return "here"

    def lives(self, name: str) -> bool:
        return name == "here"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SQLiteDatabase(str(tmp_path / "runs.db"))
    from understudy.actors.stores.postgres.database import PostgresDatabase

    return PostgresDatabase(request.getfixturevalue("postgres_url"))


def leave_run(journals: RunJournals, run_id: str) -> None:
    journal = journals.begin(run_id, Account("clerk", None, Spending())).journal
    assert journal.accept(journals.named(run_id, "clerk", RunOptions()), "{}")
    journals.ended(journal)


def test_only_a_run_of_another_process_is_taken_over(database: Database) -> None:
    table = RunTable(database)
    journals = RunJournals(table, RunOwners(database), Names(), "shop", 15.0)
    leave_run(journals, "own")
    table.accept(NewRun("of-another", "shop", "clerk", "gone", None, None), "")

    for _ in range(2):
        for left in journals.left():
            journal = journals.claim([left])[left.run_id]
            journals.ended(journal)

    assert {run.run_id: (run.takeovers, run.epoch) for run in table.left("shop")} == {
        "own": (0, 3),
        "of-another": (1, 3),
    }


def test_runs_that_are_claimed_at_once_pass_each_to_the_first_process(database: Database) -> None:
    table = RunTable(database)
    for run_id, owner in (("r-1", "gone"), ("r-2", "gone"), ("r-3", "lost")):
        table.accept(NewRun(run_id, "shop", "clerk", owner, None, None), "")
    one, two, three = left = table.left("shop")

    assert table.claim([two], "first").keys() == {two.run}
    assert table.claim(left, "second") == {run.run: Claim(run.run, 2) for run in (one, three)}

    assert [(run.owner, run.epoch, run.takeovers) for run in table.left("shop")] == [
        ("second", 2, 1),
        ("first", 2, 1),
        ("second", 2, 1),
    ]


def test_a_run_that_is_given_back_is_nobodys_and_its_claim_is_refused(database: Database) -> None:
    table = RunTable(database)
    journals = RunJournals(table, RunOwners(database), Names(), "shop", 15.0)
    table.accept(NewRun("r-1", "shop", "clerk", "7", None, None), "")
    (left,) = journals.left()
    journal = journals.claim([left])["r-1"]

    journals.give_back([(left, journal)])

    (now,) = journals.left()
    assert (now.owner, now.takeovers) == (NOBODY, left.takeovers)
    assert not table.commit(Claim(left.run, left.epoch), [])
    with pytest.raises(us.LeaseLost):
        journal.commit("", [])
    assert isinstance(database, HasLocks)
    assert database.locks is not None
    assert not database.locks.lives(NOBODY)
    neighbours = RunJournals(table, RunOwners(database), database.locks, "shop", 15.0).neighbours()
    assert neighbours.gone() == [Neighbour(NOBODY, 1)]
    assert neighbours.left_by(Neighbour(NOBODY, 1)) == [now]


def test_a_run_that_this_process_had_left_is_left_here_again_when_it_is_given_back(tmp_path: Path) -> None:
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    table = RunTable(database)
    journals = RunJournals(table, RunOwners(database), Names(), "shop", 15.0)
    leave_run(journals, "r-1")
    (left,) = journals.left()

    journals.give_back([(left, journals.claim([left])["r-1"])])

    assert [run.owner for run in table.left("shop")] == ["here"]
    assert DrivenRuns(repr(table), "shop").left()["r-1"].tries == 1


@pytest.mark.parametrize("failing", ["claim", "give_back"])
def test_a_run_that_this_process_may_have_when_its_store_has_failed_is_left_here(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    table = RunTable(database)
    journals = RunJournals(table, RunOwners(database), Names(), "shop", 15.0)
    table.accept(NewRun("r-1", "shop", "clerk", "7", None, None), "")
    (left,) = journals.left()
    claim = RunTable.claim

    def fails_late(table: RunTable, left: Sequence[StoredRun], owner: str, *others: object) -> None:
        if failing == "claim":
            claim(table, left, owner)
        raise us.StoreError("nobody knows whether it was done")

    monkeypatch.setattr(RunTable, failing, fails_late)
    if failing == "claim":
        with pytest.raises(us.StoreError):
            journals.claim([left])
    else:
        journals.give_back([(left, journals.claim([left])["r-1"])])

    neighbours = journals.neighbours()
    assert neighbours.gone() == [Neighbour("here", 1)]
    assert [run.run_id for run in neighbours.left_by(Neighbour("here", 1))] == ["r-1"]


def test_a_journal_knows_how_often_its_process_has_gone_on_with_the_run(tmp_path: Path) -> None:
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    journals = RunJournals(RunTable(database), RunOwners(database), Names(), "shop", 15.0)
    leave_run(journals, "r-1")
    tries: list[int] = []

    for _ in range(3):
        (left,) = journals.left()
        journal = journals.claim([left])[left.run_id]
        tries.append(journal.tries)
        journals.ended(journal)

    assert tries == [1, 2, 3]


def test_a_run_is_driven_here_also_after_another_caller_came_too_late_with_its_token(tmp_path: Path) -> None:
    table = RunTable(SQLiteDatabase(str(tmp_path / "runs.db")))
    driven = DrivenRuns(repr(table), "shop")
    first, late, next_one = [RunJournal(table, "r-1") for _ in range(3)]
    first.owner = next_one.owner = "here"
    driven.add(first)

    driven.add(late)
    driven.remove(late)
    is_driven = "r-1" in driven
    driven.add(next_one)
    driven.remove(first)
    driven.remove(first)

    assert is_driven and "r-1" in driven
    assert driven.left() == {}
    driven.remove(next_one)
    assert "r-1" not in driven
    assert driven.left().keys() == {"r-1"}


class LeftRun:
    """A run that this process has left, and a look at it on a simulated clock."""

    def __init__(self, database: Database) -> None:
        self.now = 0.0
        self.table = RunTable(database)
        self.table.accept(NewRun("r-1", "shop", "clerk", "here", None, None), "")
        self.driven = DrivenRuns(repr(self.table), "shop", clock=lambda: self.now)
        self.neighbours = Neighbours(
            self.table, RunOwners(database), Names(), self.driven, "shop", lease=15.0, clock=lambda: self.now
        )

    def leave(self, tries: int) -> None:
        journal = RunJournal(self.table, "r-1")
        journal.owner, journal.tries = "here", tries
        self.driven.add(journal)
        self.driven.remove(journal)

    def pause(self) -> float:
        """Look once a second until the run may go on, and return how long that took."""
        began = self.now
        while not self.neighbours.gone():
            self.now += 1.0
        return self.now - began


@pytest.fixture
def run(tmp_path: Path) -> LeftRun:
    return LeftRun(SQLiteDatabase(str(tmp_path / "runs.db")))


def test_a_run_that_is_left_again_and_again_goes_on_at_once_and_then_after_growing_pauses(run: LeftRun) -> None:
    pauses: list[float] = []
    for tries in range(9):
        run.leave(tries)
        pauses.append(run.pause())

    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_run_that_is_over_is_not_left(run: LeftRun) -> None:
    journal = RunJournal(run.table, "r-1")
    journal.owner, journal.over = "here", True
    run.driven.add(journal)
    run.driven.remove(journal)

    assert run.driven.left() == {}


def test_a_run_that_goes_on_here_is_not_taken_from_the_name_that_this_process_had_before(run: LeftRun) -> None:
    run.table.accept(NewRun("r-2", "shop", "clerk", "here-before", None, None), "")
    run.driven.add(RunJournal(run.table, "r-2"))

    (gone,) = run.neighbours.gone()

    assert gone == Neighbour("here-before", 1)
    assert run.neighbours.left_by(gone) == []


def test_a_run_whose_pause_is_not_over_waits_beside_one_that_goes_on(run: LeftRun) -> None:
    run.table.accept(NewRun("r-2", "shop", "clerk", "here", None, None), "")
    first = RunJournal(run.table, "r-2")
    first.owner = "here"
    run.driven.add(first)
    run.driven.remove(first)
    run.leave(tries=3)

    (gone,) = run.neighbours.gone()

    assert gone == Neighbour("here", 1)
    assert [each.run_id for each in run.neighbours.left_by(gone)] == ["r-2"]
