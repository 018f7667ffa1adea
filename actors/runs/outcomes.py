"""The outcome of a run of an agent, a group or a workflow; and how the run of a group ends with it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from understudy.orchestration.agent.pauses import paused_by
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.steps import Done
from understudy.orchestration.definitions.agent import Agent
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.saving.machines import loaded, runner_at
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.context.budget import in_dollars
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.messages import JsonValue, Message, Usage
from understudy.vocabulary.runs.outcomes import (
    Complete,
    Incomplete,
    MoreTurns,
    NeedsApproval,
    NeedsInput,
    Outcome,
    Pause,
    stamp,
)

from .agent_record import AgentRunRecord
from .group_record import GroupRunRecord
from .ownership import Stale
from .record import RunRecord
from .turn_checks import with_output

# --- of an agent's run


def paused_agent(record: AgentRunRecord) -> NeedsInput | NeedsApproval:
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


# --- of the run of a group or workflow


def done_outcome(record: GroupRunRecord, outcome: Complete[str] | Incomplete) -> Complete[str] | Incomplete:
    """Return the outcome of a run that its machine has ended."""
    if isinstance(outcome, Incomplete) and not outcome.last_text:
        outcome = replace(outcome, last_text=_last_text(record))
    spending = record.account.spending
    told = replace(
        outcome,
        turns=record.turns,
        usage=spending.usage,
        cost_usd=in_dollars(spending.cost),
        children=record.outcomes.at_the_end(),
    )
    stamp(told, record.run_id, lasting(record.session), record.artifacts.snapshot())
    return told


def _last_text(record: GroupRunRecord) -> str:
    """Return what the first child that is incomplete said last."""
    for position, child in enumerate(record.machine.state.children):
        ending = record.endings.get(position)
        if isinstance(ending, Incomplete):
            return ending.last_text
        if (
            ending is None and child.is_incomplete and child.paused is not None
        ):  # it ended before the run was kept as text
            return _said_last(record.runner_at(position), child.paused.saved)
    return ""


def _said_last(runner: Runner[object], saved: str) -> str:
    """Return what a run that is incomplete said last, by its text."""
    from understudy.orchestration.saving.saved_run import SavedRun  # loads pydantic

    text = SavedRun.from_json(saved).machine
    if isinstance(runner, Agent):
        return AgentRun.from_json(text, runner.run_spec, adopt=True).state.text
    assert isinstance(runner, (Group, Workflow))
    machine = loaded(runner, text, adopt=True)
    if isinstance(machine.outcome, Incomplete) and machine.outcome.last_text:
        return machine.outcome.last_text
    inside = [(at, each.paused) for at, each in enumerate(machine.state.children) if each.is_incomplete]
    return next((_said_last(runner_at(runner, machine, at), each.saved) for at, each in inside if each is not None), "")


def paused_group(record: GroupRunRecord, pauses: tuple[Pause, ...]) -> NeedsInput | NeedsApproval:
    """Return the outcome of a run that its machine has paused; it has no token yet."""
    spending = record.account.spending
    return replace(
        paused_by(pauses),
        run_id=record.run_id,
        agent_id=record.group.id,
        iterations=record.iterations,
        turns=record.turns,
        usage=spending.usage,
        cost_usd=in_dollars(spending.cost),
        session=lasting(record.session),
        artifacts=record.artifacts.snapshot(),
        tasks=record.machine.tasks if isinstance(record.machine, GraphRun) else {},
        children=record.outcomes.at_the_end(),
    )


# --- of a run that was loaded from its text


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
        else paused_group(record, record.machine.pauses)
    )


def _of_agent(record: AgentRunRecord) -> Outcome[object]:
    assert record.machine is not None, "a run that was loaded has begun"
    step = record.machine.next_step()
    if not isinstance(step, Done):
        return paused_agent(record)
    outcome = with_output(record, step.outcome, None)
    stamp(outcome, record.run_id, lasting(record.session), record.artifacts.snapshot())
    return outcome


# --- the end of the run of a group, for the work that holds `epoch`; callbacks hear of it first


def end_done(record: GroupRunRecord, epoch: int, outcome: Complete[str] | Incomplete) -> None:
    """End a run that its machine has ended."""
    record.lay_changes(epoch)
    told = done_outcome(record, outcome)
    record.tell_ending(epoch, told)
    record.end_children(epoch)
    record.host.endings.complete(record, told, epoch)


def end_paused(record: GroupRunRecord, epoch: int, pauses: tuple[Pause, ...]) -> None:
    """End the stay of a run that waits for a person."""
    paused = paused_group(record, pauses)
    record.tell_ending(epoch, paused)
    record.host.endings.park(record, paused, epoch)


def end_failed(record: GroupRunRecord, epoch: int, error: Exception) -> None:
    """End a run with an error."""
    with contextlib.suppress(Stale):  # the run has ended, or was taken over
        record.end_children(epoch)  # first: the number of the next event is stored with the run
        if record.group.callbacks and record.left_error is None:
            record.host.endings.give_token(record, error, epoch)  # first: callbacks see the error with it
        if record.left_error is None:
            record.tell_ending(epoch, error)
        record.host.endings.fail(record, error, epoch)
