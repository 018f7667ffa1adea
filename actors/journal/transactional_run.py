"""An agent's run whose tools have transactions: whether it can have them, and what is written at the end of one."""

from __future__ import annotations

import threading
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

from understudy.actors.stores.transactions.served_transaction import Undone
from understudy.vocabulary.messages import ToolResult

from .run_rows import JournaledRun, artifact_rows, early_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.actors.stores.database import OpenSql
    from understudy.actors.stores.turn_hold import TurnHold
    from understudy.actors.tools.tool_call import Executed
    from understudy.orchestration.agent.run import AgentRun
    from understudy.vocabulary.context.ancestry import Link
    from understudy.vocabulary.runs.handles import RunPhase

    from .run_journal import JournalPart

GIVEN_UP = "the call was given up"


class TransactionalRun(JournaledRun, Protocol):
    """An agent's run, as far as the transactions of its calls need it."""

    lock: threading.Lock
    phase: RunPhase
    machine: AgentRun | None
    journal: JournalPart | None
    last_turn: float
    turn_hold: TurnHold | None

    @property
    def link(self) -> Link: ...


def why_no_journal(record: TransactionalRun) -> str:
    """Say why a run has none, and what to do."""
    if record.link.begun_in:
        return "this run was begun by code of another one: make its runner a sub-agent"
    if record.turn_hold is not None or record.last_turn != inf:
        return "this one goes turn by turn: use run or submit"
    return (
        "this one has none: give the system a durable store, as in us.ActorSystem('shop', store='sqlite:///shop.db'), without "
        "journal=False, and use run or submit; in a test, a file in a temporary folder will do"
    )


class RowsOfResult:
    """The rows of a call that is done, written in the transaction of the call; nothing else of its run is written meanwhile."""

    def __init__(self, record: TransactionalRun, part: JournalPart, executed: Executed) -> None:
        result, changes = executed
        assert isinstance(result, ToolResult), "only calls of sub-agents pause"
        self._record = record
        self._part = part
        self._came = early_result(record, result, changes)
        self._note: Callable[[], object] | None = None

    def write(self, sql: OpenSql) -> None:
        """Write them, unless the run is over or the call has another result already."""
        record, part, call_id = self._record, self._part, self._came.result.call_id
        with record.lock:
            machine, texts = record.machine, part.texts
            round_ = None if machine is None else machine.state.round
            is_pending = round_ is not None and any(call.id == call_id for call in round_.pending())
            if machine is None or record.phase != "running" or not is_pending:
                raise Undone(GIVEN_UP)
            rows, count = part.line.rows(machine.spec, early=self._came)
            rows += artifact_rows(record, part)
            texts, part.texts = part.texts, texts
        self._note = partial(self._take, count, texts)
        part.commit_in(sql, rows)

    def _take(self, count: int, texts: dict[str, str]) -> None:
        self._part.line.written(count, self._came)
        self._part.texts = texts
        self._part.note_committed()

    def note_written(self) -> None:
        """Note that they are committed."""
        assert self._note is not None, "they were written before"
        self._note()
