"""The actor of a run, new or saved, by the kind of its runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.actors.runs.host import RunHost
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.stored_session import StoredSession
from understudy.orchestration import Agent
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.saving.machines import Orchestrator, begun, loaded
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.messages import Part

from .group_actor import GroupRunActor
from .run_actor import AgentRunActor

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun
    from understudy.vocabulary.context.scope import Scope


def new_record(
    run_id: str,
    runner: Runner[object],
    input: str | Sequence[Part],
    options: RunOptions,
    scope: Scope,
    host: RunHost[RunRecord],
    cell: ActorCell,
) -> RunRecord:
    """Return the record of a new run; a mistake in the definition is raised here, and not in the run."""
    if isinstance(runner, Agent):
        if options.parameters is not None:
            raise ValueError(f"{runner.id!r} takes no parameters; a Workflow does")
        _ = runner.run_spec
        return AgentRunActor(run_id, runner, input, options, scope, host, cell)
    group = _orchestrator(runner)
    if options.history is not None:
        raise ValueError(f"history is for an agent's run; {runner.id!r} only runs others")
    machine = begun(group, input, options.parameters)
    machine.state.spending.budget = options.budget
    return GroupRunActor(run_id, group, options, scope, host, cell, machine)


def loaded_record(
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
        ValueError: the text is not a saved run, or a run of another runner.
    """
    if saved.runner_id != runner.id:
        raise ValueError(f"run {saved.run_id} belongs to {saved.runner_id!r}, not to {runner.id!r}")
    options = RunOptions(
        session=saved.session,
        user_id=saved.user_id,
        conversation_id=saved.conversation_id,
        deps=deps,
        history=() if saved.own_history else None,
        of_map=saved.of_map,
    )
    record: RunRecord
    if isinstance(runner, Agent):
        machine = AgentRun.from_json(saved.machine, runner.run_spec, adopt=adopt)
        agents = AgentRunActor(saved.run_id, runner, saved.input, options, scope, host, cell, machine)
        agents.unfed = saved.unfed
        if saved.unfed is not None:
            machine.is_prepaid(saved.unfed)
        record = agents
    else:
        group = _orchestrator(runner)
        made = loaded(group, saved.machine, adopt=adopt)
        record = GroupRunActor(saved.run_id, group, options, scope, host, cell, made)
    record.stored = StoredSession(saved.seen, saved.unsaved)
    record.artifacts = Artifacts(saved.artifacts)
    record.log.first_seq = saved.events
    record.by_error = saved.by_error
    record.keeps_events = saved.keeps_events
    return record


def _orchestrator(runner: Runner[object]) -> Orchestrator:
    if not isinstance(runner, (Group, Workflow)):
        raise TypeError(f"expected an agent, a group or a workflow, got {runner!r}")
    return runner
