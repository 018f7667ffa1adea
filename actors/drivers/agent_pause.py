"""The outcome of an agent's run that waits for a person."""

from __future__ import annotations

from dataclasses import replace

from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.orchestration.agent.pauses import paused_by
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.context.prices import in_dollars
from understudy.vocabulary.runs.outcomes import NeedsApproval, NeedsInput


def paused_outcome(record: AgentRunRecord) -> NeedsInput | NeedsApproval:
    """Return what a run that its machine has paused ends its stay with; it has no token yet."""
    machine = record.machine
    assert machine is not None
    state = machine.state
    return replace(
        paused_by(machine.pauses),
        run_id=record.run_id,
        agent_id=record.agent.id,
        iterations=state.iterations,
        turns=state.turns,
        usage=state.usage,
        cost_usd=in_dollars(state.cost),
        messages=machine.new_messages,
        session=lasting(record.session),
        artifacts=record.artifacts.snapshot(),
    )
