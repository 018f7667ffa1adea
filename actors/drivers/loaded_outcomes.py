"""The outcome of a run that was loaded from its text and has nothing to do: it is complete, or waits."""

from __future__ import annotations

from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.record import RunRecord
from understudy.orchestration.agent.steps import Done
from understudy.orchestration.group.group_run import GroupDone
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.runs.outcomes import Outcome, stamp

from .agent_pause import paused_outcome as paused_agent
from .group_outcomes import done_outcome, paused_outcome
from .turn_checks import with_output


def outcome_of(record: RunRecord) -> Outcome[object]:
    """Return the outcome of a run that is complete or waits, without its token. Nobody drives the run.

    Raises:
        InvalidOutput: its answer does not fit the agent's output type, which has changed since.
    """
    if isinstance(record, AgentRunRecord):
        return _of_agent(record)
    assert isinstance(record, GroupRunRecord)
    step = record.machine.next_step()
    return (
        done_outcome(record, step.outcome)
        if isinstance(step, GroupDone)
        else paused_outcome(record, record.machine.pauses)
    )


def _of_agent(record: AgentRunRecord) -> Outcome[object]:
    assert record.machine is not None, "a run that was loaded has begun"
    step = record.machine.next_step()
    if not isinstance(step, Done):
        return paused_agent(record)
    outcome = with_output(record, step.outcome, None)
    stamp(outcome, record.run_id, lasting(record.session), record.artifacts.snapshot())
    return outcome
