"""Calls of sub-agents: the run that such a call begins, or goes on with, and what its end is to the run around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.run_view.log import Delegated
from understudy.actors.tools.results import rendered, result_of
from understudy.actors.tools.tool_call import Executed, Paused, ToolCallTask, ToolRun
from understudy.actors.waiting.graph import graph
from understudy.orchestration import Agent
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .child_runs import begun, changes_of, continued, refuse_call, saved_inner, unfinished
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.agent.state import PausedChild
    from understudy.orchestration.definitions.sub_agent import SubAgent
    from understudy.vocabulary.messages import ToolCall
    from understudy.vocabulary.tools.definition import Tool


def delegate(
    record: RunRecord,
    order: ToolCallTask,
    sub_agent: SubAgent,
    task: str,
    paused: PausedChild | None,
    under_way: dict[str, RunRecord],
) -> Executed:
    """Carry out a call of a sub-agent on this thread, which waits for the run that the call is.

    Args:
        record: the run whose call it is.
        order: the call.
        sub_agent: what it calls.
        task: what the model wants of it.
        paused: the run that the call began, if that waits to go on.
        under_way: gets the run that the call is, by the id of the call.

    Raises:
        CircularAgentCall: the sub-agent would wait for itself.
        DisallowedAgentCall: a sub-agent above does not allow it.
        UnfinishedRun: its model stopped before its answer met a criterion.
        UnderstudyError: whatever else its run ended with.
    """
    runner = sub_agent.runner
    refuse_call(record, runner)
    if paused is None:
        child = begun(record, runner, task)  # it has no conversation: each task is one of its own
    else:
        child = continued(record, runner, paused, order.scope)
    if sub_agent.permit is not None:
        child.link.permits += (sub_agent.permit,)
    under_way[order.call.id] = child
    record.log.note(Delegated(order.call.id, child.log))
    return executed(order.record, order.call, sub_agent, child, _outcome_of(record, child))


def _outcome_of(record: RunRecord, child: RunRecord) -> Outcome[object]:
    with graph.waiting(record.ancestry, child.link):
        child.host.launch(child)  # its scope is inside of the call's: it ends at the latest with that
        child.promise.wait()
    return child.promise.get()


def executed(
    record: ToolRun, call: ToolCall, tool: Tool[..., object], child: RunRecord, outcome: Outcome[object]
) -> Executed:
    """Return what a call of a sub-agent comes to whose run has this outcome."""
    match outcome:
        case Complete(output=output):
            told = child.runner.dump_output(output) if isinstance(child.runner, Agent) else output
            return result_of(call, tool, rendered(told), record), changes_of(record.session, child)
        case Incomplete():
            raise unfinished(child, outcome)
        case _:
            return Paused(call.id, saved_inner(child), outcome.pauses), None
