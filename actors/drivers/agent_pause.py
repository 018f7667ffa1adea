"""Outcomes of an agent's run that is not over: it waits for a person, or for its next turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.orchestration.agent.pauses import paused_by
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.context.budget import in_dollars
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.messages import JsonValue, Message, Usage
from understudy.vocabulary.runs.outcomes import MoreTurns, NeedsApproval, NeedsInput


def paused_outcome(record: AgentRunRecord) -> NeedsInput | NeedsApproval:
    """Return the outcome of a run that its machine has paused; it has no token yet."""
    machine = record.machine
    assert machine is not None
    return replace(paused_by(machine.pauses), **_so_far(record))


def turn_outcome(record: AgentRunRecord) -> MoreTurns:
    """Return the outcome of a turn after which another one is due; it has no token yet."""
    return MoreTurns(completion_reason="its next turn is due", **_so_far(record))


class _SoFar(TypedDict):
    """The values of all outcomes of a run that is not over."""

    run_id: str
    agent_id: str
    iterations: int
    turns: int
    usage: Usage
    cost_usd: float | None
    messages: tuple[Message, ...]
    session: Mapping[str, JsonValue]
    artifacts: Mapping[str, Artifact]
    model: str
    response_id: str
    request_id: str


def _so_far(record: AgentRunRecord) -> _SoFar:
    machine = record.machine
    assert machine is not None
    state = machine.state
    return {
        "run_id": record.run_id,
        "agent_id": record.agent.id,
        "iterations": state.iterations,
        "turns": state.turns,
        "usage": state.usage,
        "cost_usd": in_dollars(state.cost),
        "messages": machine.new_messages,
        "session": lasting(record.session),
        "artifacts": record.artifacts.snapshot(),
        "model": state.model,
        "response_id": state.response_id,
        "request_id": state.request_id,
    }
