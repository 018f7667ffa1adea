"""A paused run's record as text and back, in this process or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.orchestration.port import RunOptions
from understudy.orchestration.run import AgentRun
from understudy.session import lasting

from .record import Record

if TYPE_CHECKING:
    from understudy.orchestration import Agent
    from understudy.orchestration.saved import SavedRun
    from understudy.scope import Scope

    from .actorcell import ActorCell
    from .runs import Runs


def save(record: Record) -> str:
    """Return a paused run as text; its `deps` are left out, and whoever goes on with it gives them again.

    Raises:
        TypeError: a value of the session is none that JSON can carry.
    """
    return saved_run(record).to_json()


def saved_run(record: Record) -> SavedRun:
    """Return what `save` returns the text of."""
    from understudy.orchestration.saved import SavedRun

    assert record.machine is not None
    return SavedRun(
        run_id=record.run_id,
        runner_id=record.agent.id,
        input=record.context.input,
        machine=record.machine.to_json(),
        session=lasting(record.session),
        user_id=record.options.user_id,
        conversation_id=record.options.conversation_id,
        own_history=record.options.history is not None,
    )


def load(
    saved: SavedRun,
    agent: Agent[object],
    deps: object,
    scope: Scope,
    runs: Runs,
    cell: ActorCell,
    *,
    adopt: bool = False,
) -> Record:
    """Return the record with which a saved run goes on.

    Raises:
        SpecChanged: the run was saved with another definition of the agent, and `adopt` is false.
        ValueError: what was saved is no run, or one of another agent.
    """
    if saved.runner_id != agent.id:
        raise ValueError(f"run {saved.run_id} belongs to agent {saved.runner_id!r}, not to {agent.id!r}")
    machine = AgentRun.from_json(saved.machine, agent.run_spec, adopt=adopt)
    options = RunOptions(
        session=saved.session,
        user_id=saved.user_id,
        conversation_id=saved.conversation_id,
        deps=deps,
        history=() if saved.own_history else None,
    )
    return Record(saved.run_id, agent, saved.input, options, scope, runs, cell, machine)
