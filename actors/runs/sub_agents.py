"""Calls of sub-agents: each begins a run, or goes on with one, and the end of that run is the result of the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from understudy.actors.run_view.log import Delegated
from understudy.actors.tools.results import rendered, result_of
from understudy.actors.tools.tool_call import Executed, Paused, ToolCallTask, ToolRun
from understudy.errors import UnderstudyError
from understudy.orchestration import Agent
from understudy.orchestration.journal.places import place_of_call
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .child_runs import begun, changes_of, continued, is_stopped, refuse_call, saved_inner, take_delegated, unfinished
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.agent.run import AgentRun
    from understudy.orchestration.agent.state import PausedChild
    from understudy.orchestration.definitions.sub_agent import SubAgent
    from understudy.vocabulary.messages import ToolCall
    from understudy.vocabulary.tools.definition import Tool


class DelegatedRuns(dict[str, RunRecord]):
    """Id of a call of a sub-agent -> the run that the call is, until the agent's machine has the result of the call."""

    __slots__ = ()

    def has_stopped(self) -> bool:
        """Whether one of the runs is over, did not come to its end, and can go on."""
        return any(is_stopped(child) for child in list(self.values()))

    def stopped_by(
        self, results: Sequence[Executed], raised: dict[str, BaseException]
    ) -> tuple[str, UnderstudyError] | None:
        """Return the first call whose error ends the run around it, and whose own run can go on; forget the other runs.

        Args:
            results: of calls that are done.
            raised: call id -> the exception of the tool; loses the one that is returned.
        """
        stop: tuple[str, UnderstudyError] | None = None
        for came, _ in results:
            child, error = self.get(came.call_id), raised.get(came.call_id)
            if stop is None and child is not None and isinstance(error, UnderstudyError) and is_stopped(child):
                stop = (came.call_id, error)
                raised.pop(came.call_id)
            else:
                self.pop(came.call_id, None)
        return stop

    def settle(self, record: ToolRun, machine: AgentRun, take: Callable[[Sequence[Executed]], object]) -> None:
        """Tell the machine how each run stands when the run around it has ended, and forget the runs.

        Args:
            record: the run around them.
            machine: that run's machine.
            take: feeds the machine the result of a call.
        """
        for call_id, child in list(self.items()):
            came = _settled(record, machine, call_id, child)
            if came is not None:
                take([came])
            self.pop(call_id, None)


def _settled(record: ToolRun, machine: AgentRun, call_id: str, child: RunRecord) -> Executed | None:
    """Tell the machine how the run of a pending call stands; returns the result of the call if the run has one."""
    round_ = machine.state.round
    call = None if round_ is None else next((call for call in round_.pending() if call.id == call_id), None)
    outcome = None if call is None else take_delegated(machine, call, child)
    if call is None or outcome is None:
        return None
    return executed(record, call, record.agent.tools_by_name[call.name], child, outcome)


def run_of_call(
    record: RunRecord,
    order: ToolCallTask,
    sub_agent: SubAgent,
    task: str,
    paused: PausedChild | None,
    under_way: DelegatedRuns,
) -> RunRecord:
    """Return the run that a call of a sub-agent is, which has not begun here.

    Args:
        record: the run whose call it is.
        order: the call.
        sub_agent: the sub-agent that it calls.
        task: the model's words to the sub-agent.
        paused: the run that the call began, if that waits to go on.
        under_way: gets the run that the call is, by the id of the call.

    Raises:
        CircularAgentCall: the sub-agent would wait for itself.
        DisallowedAgentCall: a sub-agent above does not allow it.
        RunError: too many runs would wait for one another, or have begun one another.
    """
    runner = sub_agent.runner
    refuse_call(record, runner)
    place = place_of_call(record.turns, order.call.id)
    if paused is None:
        child = begun(record, runner, task, place)  # it has no conversation: each task is one of its own
    else:
        child = continued(record, runner, paused, order.scope, place)
    if sub_agent.permit is not None:
        child.link.permits += (sub_agent.permit,)
    under_way[order.call.id] = child
    record.log.note(Delegated(order.call.id, child.log))
    return child


def executed(
    record: ToolRun, call: ToolCall, tool: Tool[..., object], child: RunRecord, outcome: Outcome[object]
) -> Executed:
    """Return the result of a call of a sub-agent whose run has this outcome, or its pauses."""
    match outcome:
        case Complete(output=output):
            told = child.runner.dump_output(output) if isinstance(child.runner, Agent) else output
            return result_of(call, tool, rendered(told), record), changes_of(record.session, child)
        case Incomplete():
            raise unfinished(child, outcome)
        case _:
            return Paused(call.id, saved_inner(child), outcome.pauses), None
