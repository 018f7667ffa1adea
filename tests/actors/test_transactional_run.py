"""The rows of a call that is done, when they are written: a result for which the run has no use undoes the transaction."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast

import pytest

import understudy as us
from tests.support.journal_lines import results_in
from understudy.actors.journal.run_journal import JournalPart
from understudy.actors.journal.transactional_run import RowsOfResult, TransactionalRun
from understudy.actors.journal.unwritten_line import UnwrittenLine
from understudy.actors.stores.database import OpenSql
from understudy.actors.stores.transactions.served_transaction import Undone
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.journal.rows import LINE, JournalRow
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.runs.handles import RunPhase

SQL = cast(OpenSql, None)


@us.tool
def book() -> str:
    """Book."""
    return "booked"


def under_way() -> AgentRun:
    """Return a run with a call that is under way."""
    run = AgentRun(us.Agent("clerk", model=us.ScriptedModel([]), tools=[book]).run_spec, "go")
    run.next_step()
    run.model_response(us.ModelTurn((us.ToolCall("c1", "book", {}),)))
    run.next_step()
    return run


class Part:
    """A journal that keeps the rows it was given."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.line = UnwrittenLine(Account("clerk", None, Spending()))
        self.is_committed = False
        self.rows: list[JournalRow] = []

    def commit_in(self, sql: OpenSql, rows: list[JournalRow]) -> None:
        self.rows += rows

    def note_committed(self) -> None:
        self.is_committed = True


def rows_of(call_id: str, part: Part, machine: AgentRun | None, phase: RunPhase = "running") -> RowsOfResult:
    record = SimpleNamespace(lock=threading.Lock(), phase=phase, machine=machine, artifacts=Artifacts(), run_id="r-1")
    result = us.ToolResult(call_id, "booked", name="book")
    return RowsOfResult(cast(TransactionalRun, record), cast(JournalPart, part), (result, None))


def test_the_result_of_a_call_under_way_is_written_and_noted_after_the_commit() -> None:
    part = Part()
    rows = rows_of("c1", part, under_way())

    rows.write(SQL)
    before = part.line.has_early("c1") or part.is_committed
    rows.note_written()

    assert [came.result.content for came in results_in(row.body for row in part.rows if row.kind == LINE)] == ["booked"]
    assert (before, part.line.has_early("c1"), part.is_committed) == (False, True, True)


def test_a_result_for_which_the_run_has_no_use_is_refused() -> None:
    part, answered = Part(), under_way()
    answered.tool_results([us.ToolResult("c1", "timed out", name="book")])
    for rows in (
        rows_of("c1", part, None),
        rows_of("c1", part, under_way(), "cancelled"),
        rows_of("c1", part, answered),
        rows_of("c2", part, under_way()),
    ):
        with pytest.raises(Undone, match="the call was given up"):
            rows.write(SQL)
    assert part.rows == []
