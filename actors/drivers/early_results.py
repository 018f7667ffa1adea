"""The result of a tool call in the journal, while other calls of the same turn are under way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from understudy.vocabulary.messages import ToolResult

if TYPE_CHECKING:
    from understudy.actors.runs.agent_record import AgentRunRecord, FinishedCalls
    from understudy.actors.tools.tool_call import Executed


def write_result(record: AgentRunRecord, epoch: int, batch: FinishedCalls, executed: Executed) -> None:
    """Write the result of a call, with what it changed in the session. Blocks for the store.

    Does nothing if the run is over or in other hands, if its driver has the results already, if the call has paused, and if
    its error ends the run: the driver decides what becomes of it.

    Args:
        record: of the run, which has a journal.
        epoch: of the driver that waits for the calls.
        batch: the calls.
        executed: what came of the call.

    Raises:
        LeaseLost: another process has taken the run over.
        StoreError: the store failed.
        TypeError: JSON cannot carry a value of the session.
    """
    from understudy.actors.journal.run_rows import artifact_rows, change_of  # loads pydantic
    from understudy.orchestration.journal.agent_rows import rows_of_result

    result, changes = executed
    part = record.journal
    if part is None or not isinstance(result, ToolResult) or result.call_id in record.raised:
        return
    change = change_of(record, changes)
    with part.lock:
        with record.lock:
            machine = record.machine
            if machine is None or record.batch is not batch or not record.is_held_at(epoch):
                return
            if part.written.results.get(result.call_id) is result:  # its transaction was committed with it
                return
            rows, written = rows_of_result(machine.state, part.written, result, change)
            rows += artifact_rows(record, part)
        record.through_outage(epoch, partial(part.commit_result, rows))
        part.written = written
