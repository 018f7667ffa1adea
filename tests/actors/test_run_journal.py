"""The journal of a run and of the runs inside of it: whose rows are written and removed when, and whose pauses are kept."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import WAIT
from understudy.actors.journal import run_journal
from understudy.actors.journal.run_journal import JournalPart, RunJournal
from understudy.actors.stores.database import Sql
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.runs import AT_ONCE, NewRun, RunTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.threads.pool import Runnable
from understudy.orchestration.journal.rows import LINE, RUN, JournalRow
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending

ROWS = [JournalRow(RUN, "", "{}")]
ACCOUNT = Account("clerk", None, Spending())


class Rows:
    """A journal in a file."""

    def __init__(self, folder: Path) -> None:
        self.table = RunTable(SQLiteDatabase(str(folder / "runs.db")))
        journal = RunJournal(self.table, "shop-1")
        assert journal.accept(NewRun("shop-1", "shop", "panel", "owner", None, None), "{}")
        self.outer = JournalPart(journal, ACCOUNT)

    def paths(self) -> list[str]:
        (run,) = self.table.left("shop")
        return sorted({row.path for row in self.table.rows(run.run) if row.kind == RUN})


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def test_rows_of_a_run_inside_stay_until_those_of_the_run_around_it_have_its_result(rows: Rows) -> None:
    lead, other = rows.outer.inside("0", ACCOUNT), rows.outer.inside("1", ACCOUNT)
    below = lead.inside("2.c1", ACCOUNT)
    for part in (rows.outer, lead, other, below):
        part.commit(ROWS)

    lead.closed("2.c1")
    other.commit(ROWS, other.take_closed())  # a sibling writes before the lead does

    assert rows.paths() == ["", "/0", "/0/2.c1", "/1"]
    lead.commit(ROWS, lead.take_closed())
    assert rows.paths() == ["", "/0", "/1"]


def test_rows_of_a_run_inside_go_with_all_that_is_inside_of_it(rows: Rows) -> None:
    lead = rows.outer.inside("1", ACCOUNT)
    for part in (rows.outer, lead, lead.inside("2.c1", ACCOUNT), rows.outer.inside("10", ACCOUNT)):
        part.commit(ROWS)

    rows.outer.closed("1")
    rows.outer.commit(ROWS, rows.outer.take_closed())

    assert rows.paths() == ["", "/10"]


def test_what_was_closed_after_rows_were_made_goes_with_the_next_ones(rows: Rows) -> None:
    rows.outer.inside("0", ACCOUNT).commit(ROWS)
    made_before = rows.outer.take_closed()
    rows.outer.closed("0")
    rows.outer.commit(ROWS, made_before)

    assert rows.paths() == ["", "/0"]
    rows.outer.commit(ROWS, rows.outer.take_closed())
    assert rows.paths() == [""]


@pytest.mark.parametrize("count", [1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
def test_any_number_of_rows_is_written_in_order_and_the_newest_of_one_name_stays(rows: Rows, count: int) -> None:
    written = [JournalRow(LINE, str(number), f"body {number}") for number in range(count)]
    rows.outer.commit([JournalRow(LINE, "0", "older"), *written])

    (run,) = rows.table.left("shop")

    of_line = [row for row in rows.table.rows(run.run) if row.kind == LINE]
    assert [(row.name, row.body) for row in of_line] == [(row.key, row.body) for row in written]


def test_events_that_no_thread_can_write_wait_for_the_next_write(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cell: Runnable) -> None:
        cell.refused(RuntimeError("no thread"))

    monkeypatch.setattr(run_journal, "submit", refuse)

    with rows.outer.lock:  # as where the result of a call is written
        rows.outer.flush()

    assert not rows.outer.is_flushing  # the next event asks for a thread again


PAUSED = us.PausedRun(run_id="shop-1", revision=1, nonce="n", payload="{}")


class Pause:
    """A run of one process, its pause, and another process that takes the run over."""

    def __init__(self, url: str) -> None:
        store = open_store(url)
        assert store.runs is not None and isinstance(store.pauses, PauseTable)
        self.table, self.pauses = store.runs, store.pauses
        self.journal = RunJournal(self.table, "shop-1")
        assert self.journal.accept(NewRun("shop-1", "shop", "clerk", "owner", None, None), "{}")

    def take_over(self) -> us.PausedRun | None:
        """Take the run over, and return the pause that is found then."""
        (left,) = self.table.left("shop")
        assert self.table.claim([left], "another")
        return self.pauses.get("shop-1")


def test_a_run_is_not_taken_over_while_its_pause_is_being_stored(url: str) -> None:
    """A server goes on with the transaction of a process that was killed."""
    pause = Pause(url)
    entered, looked = threading.Event(), threading.Event()

    def check(sql: Sql) -> None:
        pause.journal.check_held(sql)
        entered.set()
        looked.wait(0.5)

    storing = threading.Thread(target=pause.pauses.put, args=(PAUSED,), kwargs={"keep": None, "check": check})
    storing.start()
    assert entered.wait(WAIT)
    found = pause.take_over()
    looked.set()
    storing.join(WAIT)

    assert found == PAUSED


def test_a_process_neither_stores_nor_closes_a_pause_of_a_run_that_another_one_took_over(url: str) -> None:
    pause = Pause(url)
    pause.pauses.put(PAUSED, keep=None)
    assert pause.take_over() == PAUSED

    with pytest.raises(us.LeaseLost):
        pause.pauses.close("shop-1", 1, check=pause.journal.check_held)
    pause.pauses.take("shop-1", 1)
    with pytest.raises(us.LeaseLost):
        pause.pauses.put(replace(PAUSED, revision=2), keep=None, check=pause.journal.check_held)

    assert pause.pauses.get("shop-1") == replace(PAUSED, state="taken")
