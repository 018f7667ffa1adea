"""Runs that a process has left while it lives, because the store failed: it goes on with them itself, after growing pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.actors.journal.driven_runs import DrivenRuns
from understudy.actors.journal.neighbours import Neighbour, Neighbours
from understudy.actors.journal.run_journal import RunJournal
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.journal.run_owners import RunOwners
from understudy.actors.stores.database import Database
from understudy.actors.stores.runs import NewRun, RunTable
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
            journal = journals.claim(left)
            assert journal is not None
            journals.ended(journal)

    assert {run.run_id: (run.takeovers, run.epoch) for run in table.left("shop")} == {
        "own": (0, 3),
        "of-another": (1, 3),
    }


def test_a_journal_knows_how_often_its_process_has_gone_on_with_the_run(tmp_path: Path) -> None:
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    journals = RunJournals(RunTable(database), RunOwners(database), Names(), "shop", 15.0)
    leave_run(journals, "r-1")
    tries: list[int] = []

    for _ in range(3):
        (left,) = journals.left()
        journal = journals.claim(left)
        assert journal is not None
        tries.append(journal.tries)
        journals.ended(journal)

    assert tries == [1, 2, 3]


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
