"""A paused run's record as text and back, in this process or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.run_view.event_reader import next_seq
from understudy.orchestration import Agent
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.saving.machines import loaded
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.session import lasting

from .agent_record import AgentRunRecord
from .group_record import GroupRunRecord
from .host import RunHost
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun
    from understudy.vocabulary.context.scope import Scope


def save(record: RunRecord) -> str:
    """Return a paused run as text; its `deps` are left out, and whoever goes on with it gives them again.

    Raises:
        TypeError: a value of the session is none that JSON can carry.
    """
    return saved_run(record).to_json()


def saved_run(record: RunRecord) -> SavedRun:
    """Return what `save` returns the text of."""
    from understudy.orchestration.saving.saved_run import SavedRun

    return SavedRun(
        run_id=record.run_id,
        runner_id=record.runner.id,
        input=record.input_text,
        machine=record.saved_machine(),
        session=lasting(record.session),
        user_id=record.options.user_id,
        conversation_id=record.options.conversation_id,
        own_history=record.options.history is not None,
        artifacts=tuple(record.artifacts.snapshot().values()),
        # A run that others wait for is saved before it pauses, which is one event more; one inside of a run, after that.
        events=next_seq(record.story, is_inner=record.is_inner) + (0 if record.is_inner else 1),
    )


def load(
    saved: SavedRun,
    runner: Runner[object],
    deps: object,
    scope: Scope,
    host: RunHost[RunRecord],
    cell: ActorCell,
    *,
    adopt: bool = False,
) -> RunRecord:
    """Return the record with which a saved run goes on.

    Raises:
        SpecChanged: the run was saved with another definition of the runner, and `adopt` is false.
        ValueError: what was saved is no run, or one of another runner.
    """
    if saved.runner_id != runner.id:
        raise ValueError(f"run {saved.run_id} belongs to {saved.runner_id!r}, not to {runner.id!r}")
    options = RunOptions(
        session=saved.session,
        user_id=saved.user_id,
        conversation_id=saved.conversation_id,
        deps=deps,
        history=() if saved.own_history else None,
    )
    if isinstance(runner, Agent):
        machine = AgentRun.from_json(saved.machine, runner.run_spec, adopt=adopt)
        record = AgentRunRecord(saved.run_id, runner, saved.input, options, scope, host, cell, machine)
        record.artifacts = Artifacts(saved.artifacts)
        record.story.first_seq = saved.events
        return record
    if not isinstance(runner, (Group, Workflow)):
        raise TypeError(f"expected an agent, a group or a workflow, got {runner!r}")
    machine_of_group = loaded(runner, saved.machine, adopt=adopt)
    group = GroupRunRecord(saved.run_id, runner, options, scope, host, cell, machine_of_group)
    group.artifacts = Artifacts(saved.artifacts)
    group.story.first_seq = saved.events
    return group
