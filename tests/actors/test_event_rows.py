"""The rows of events in the table of runs: how long they are kept, and how a reader asks for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from understudy.actors.run_view.event_count import next_seq
from understudy.actors.run_view.log import Finished, RunLog, RunLogEntry
from understudy.actors.run_view.log_reader import LogReader
from understudy.actors.run_view.progress import Report
from understudy.actors.stores.database import Database, Sql, SqlValue
from understudy.actors.stores.events.pages import PAGE, READ, EventPage, read_events
from understudy.actors.stores.events.rows import EVENT, EVENTS_KEPT
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.runs import FORGOTTEN, KEPT, NewRun, RunRow, RunTable
from understudy.actors.system.stored_events import LONGEST, SHORTEST, StoredEvents
from understudy.orchestration.journal.event_text import event_text, key_of_event

DAY = 86_400.0


def row(seq: int, kind: str = EVENT, path: str = "") -> RunRow:
    return RunRow(path, kind, key_of_event(seq), event_text(us.TurnStarted(turn=1, seq=seq)))


class Table:
    """A table of runs whose clock stands."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = 1000.0
        self.runs = RunTable(database, clock=lambda: self.now)

    def accept(
        self, run_id: str, *, keeps_events: bool = True, also: Callable[[Sql], bool] | None = None
    ) -> int | None:
        """Have a process drive a run; returns the number of its next event, if it has some."""
        run = NewRun(run_id, "shop", "clerk", "owner", "ada", None)
        self.claim = self.runs.accept(run, "", keeps_events=keeps_events, also=also)
        assert self.claim is not None
        return self.claim.next_event

    def end(self, *rows: RunRow) -> None:
        assert self.claim is not None
        assert self.runs.end(self.claim, "complete", rows=rows)

    def page(self, run_id: str = "r-1", after: str = "") -> EventPage:
        found = read_events(self.database, run_id, after)
        assert found is not None
        return found

    def numbers(self, run_id: str = "r-1", after: str = "") -> list[int]:
        return [int(key) for key, _ in self.page(run_id, after).rows]


@pytest.fixture
def table(url: str) -> Table:
    database = open_store(url).database
    assert database is not None
    return Table(database)


def test_events_outlive_the_end_of_their_run_by_an_hour(table: Table) -> None:
    table.accept("r-1")
    table.end(row(0), row(1))
    table.now += EVENTS_KEPT - 1
    table.accept("r-2", keeps_events=False)
    assert table.numbers() == [0, 1]

    table.now += 1
    table.accept("r-3", keeps_events=False)

    assert table.page() == EventPage(is_going=False, ending="complete", are_kept=False, rows=[])


def test_the_other_rows_of_a_run_go_with_its_end(table: Table) -> None:
    table.accept("r-1")
    assert table.claim is not None
    table.runs.commit(table.claim, [row(0), row(0, "head"), row(0, "head", "/0")])

    table.end(row(1))

    assert table.runs.rows(table.claim.run) == []
    assert table.numbers() == [0, 1]


def test_events_are_kept_for_as_long_as_their_run_is_under_way(table: Table) -> None:
    table.accept("r-1")
    assert table.claim is not None
    table.runs.commit(table.claim, [row(0)])
    table.now += KEPT

    table.accept("r-2")

    assert table.numbers() == [0]
    assert table.page().is_going


def test_a_run_that_goes_on_keeps_its_events_and_counts_on(table: Table) -> None:
    table.accept("r-1")
    table.end(row(0), row(1))
    table.now += EVENTS_KEPT / 2

    assert table.accept("r-1") == 2
    table.now += EVENTS_KEPT
    table.accept("r-2")

    assert table.numbers() == [0, 1]


def test_a_run_that_goes_on_after_its_events_are_gone_has_no_number_in_the_store(table: Table) -> None:
    table.accept("r-1")
    table.end(row(0))
    table.now += EVENTS_KEPT

    assert table.accept("r-1") is None


def test_nothing_is_left_of_a_run_that_ended_long_ago(table: Table) -> None:
    table.accept("r-1")
    table.end(row(0))
    table.now += KEPT + DAY

    table.accept("r-2")

    assert read_events(table.database, "r-1", "") is None
    assert table.database.read(lambda sql: sql.execute("SELECT * FROM understudy_run_rows").fetchall()) == []


def test_a_process_that_takes_a_run_over_hears_the_number_of_the_next_event(table: Table) -> None:
    table.accept("r-1")
    assert table.claim is not None
    table.runs.commit(table.claim, [row(0), row(11)])
    (left,) = table.runs.left("shop")

    claims = table.runs.claim([left], "other")

    assert claims[left.run].next_event == 12


def test_rows_of_a_definition_that_is_replaced_go_and_those_of_events_stay(table: Table) -> None:
    table.accept("r-1")
    assert table.claim is not None
    table.runs.commit(table.claim, [row(0), row(0, "head")])

    table.runs.commit(table.claim, [row(1)], [""])

    assert table.runs.rows(table.claim.run) == []
    assert table.numbers() == [0, 1]


def test_a_reader_gets_what_comes_after_its_place_page_by_page(table: Table) -> None:
    table.accept("r-1")
    assert table.claim is not None
    table.runs.commit(table.claim, [row(seq) for seq in range(PAGE + 5)])

    assert table.numbers() == list(range(PAGE))
    assert table.numbers(after=key_of_event(PAGE - 1)) == list(range(PAGE, PAGE + 5))


def test_a_reader_of_more_than_a_page_waits_for_nothing(table: Table) -> None:
    table.accept("r-1")
    end = RunRow("", EVENT, key_of_event(2 * PAGE), event_text(us.RunFailed(error=us.RunError("x"), seq=2 * PAGE)))
    table.end(*[row(seq) for seq in range(2 * PAGE)], end)

    stored = StoredEvents("r-1", lambda after: read_events(table.database, "r-1", after), wait=refuse)

    assert [event.seq for event in stored.until_over(0, None)] == list(range(2 * PAGE + 1))


def refuse(seconds: float) -> None:
    raise AssertionError(f"waited {seconds:g} s")


# --- how often a reader asks


class Looks:
    """What a store has at each look of a reader, and how long the reader waits between them."""

    def __init__(self, *looks: list[int], ends: bool = True) -> None:
        self._looks = list(looks)
        self._ends = ends
        self.waits: list[float] = []
        self.now = 0.0

    def read(self, after: str) -> EventPage:
        seqs = self._looks.pop(0) if self._looks else []
        rows = [(key_of_event(seq), event_text(us.TurnStarted(turn=1, seq=seq))) for seq in seqs]
        return EventPage(is_going=bool(self._looks) or not self._ends, ending="complete", are_kept=True, rows=rows)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def told(self, timeout: float | None = None) -> list[int]:
        stored = StoredEvents("r-1", self.read, clock=lambda: self.now, wait=self.wait)
        return [event.seq for event in stored.until_over(0, timeout)]


def test_a_reader_asks_less_often_the_longer_nothing_comes() -> None:
    looks = Looks([], [], [], [], [], [], [])

    assert looks.told() == []

    assert looks.waits[0] == SHORTEST
    assert looks.waits == sorted(looks.waits)
    assert looks.waits[-1] == LONGEST


def test_a_reader_asks_often_again_once_events_come() -> None:
    looks = Looks([], [], [0], [], ends=False)

    with pytest.raises(TimeoutError, match="r-1 told no event in 0.5 s"):
        looks.told(timeout=0.5)

    assert looks.waits[3:4] == [SHORTEST] or looks.waits[2:3] == [SHORTEST]
    assert looks.now == pytest.approx(SHORTEST + SHORTEST * 1.5 + 0.5)


def test_a_run_that_is_over_without_its_last_event_says_so() -> None:
    with pytest.raises(us.StoreError, match="does not have its last event"):
        Looks([0]).told()


# --- what a journal reads of a log


CALL = us.ToolCall("c1", "look")
FACTS: list[RunLogEntry] = [
    1,
    (1, us.ModelTurn((CALL,))),
    CALL,
    Report(CALL, "half", None, None),
    Finished(CALL, us.ToolResult("c1", "x")),
    Report(CALL, "too late", None, None),
    2,
    (2, us.ModelTurn((us.TextPart("Yes."),))),
]


def test_a_journal_counts_events_as_it_tells_them_after_each_fact() -> None:
    log = RunLog("r", "clerk")
    log.first_seq = 5
    reader = LogReader(log, ("clerk",), None)
    told: list[int] = []

    for fact in FACTS:
        log.note(fact)
        told += [event.seq for event in reader.read()]
        assert reader.next_seq == next_seq(log, is_inner=False) == 5 + len(told)

    assert told == list(range(5, 5 + len(told)))
    assert not log.has_listeners


def test_a_sealed_log_takes_nothing_but_its_end_until_it_is_opened_again() -> None:
    log = RunLog("r", "clerk")
    log.seal()
    log.note(1)
    log.unseal()
    log.note(2)
    log.seal()
    log.end(us.RunError("x"))
    log.unseal()
    log.note(3)

    assert [type(fact) for fact in log.facts] == [int, us.RunError]


def test_tables_are_looked_at_by_indexes_alone(tmp_path: Path) -> None:
    database = open_store(f"sqlite:///{tmp_path}/runs.db").database
    assert database is not None

    def steps(statement: str, **values: SqlValue) -> list[str]:
        rows = database.read(lambda sql: sql.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall())
        return [row[3] for row in rows]

    assert not [step for step in steps(READ, run_id="r-1", after="") if "SCAN" in step]
    assert not [step for step in steps(FORGOTTEN, now=1.0) if "SCAN" in step]
