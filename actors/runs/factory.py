"""What depends on the kind of a runner: the record of its run, and who drives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.orchestration import Agent
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.saving.machines import begun
from understudy.vocabulary.messages import Part

from .agent_driver import AgentDriver
from .agent_record import AgentRunRecord
from .group_driver import GroupDriver
from .group_record import GroupRunRecord
from .host import RunHost
from .record import RunDriver, RunRecord

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
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
    """Return the record of a run that begins; what is wrong with the definition is raised here, and not by a driver."""
    if isinstance(runner, Agent):
        if options.parameters is not None:
            raise ValueError(f"{runner.id!r} takes no parameters; a Workflow does")
        _ = runner.run_spec
        return AgentRunRecord(run_id, runner, input, options, scope, host, cell)
    if not isinstance(runner, (Group, Workflow)):
        raise TypeError(f"expected an agent, a group or a workflow, got {runner!r}")
    if options.history is not None:
        raise ValueError(f"history is for an agent's run; {runner.id!r} only runs others")
    machine = begun(runner, input, options.parameters)
    machine.state.spending.budget = options.budget
    return GroupRunRecord(run_id, runner, options, scope, host, cell, machine)


def driver_of(record: RunRecord, epoch: int) -> RunDriver:
    """Return a driver for a run from `epoch` on."""
    if isinstance(record, AgentRunRecord):
        return AgentDriver(record, epoch)
    assert isinstance(record, GroupRunRecord)
    return GroupDriver(record, epoch)
