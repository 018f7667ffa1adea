"""The actor of a run, new or saved, by the kind of its runner; and that of one tool call, as `agent.execute` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.actors.tools.tool_call import Executed, Paused
from understudy.errors import UnderstudyError, UnfinishedRun
from understudy.orchestration import Agent
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.saving.machines import Orchestrator, begun, loaded
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import Part, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Complete

from .group_actor import GroupRunActor
from .host import RunHost
from .ownership import Stale
from .record import RunRecord
from .run_actor import AgentRunActor
from .stored_session import StoredSession
from .works import Events, Work

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.run_view.log import RunLines
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


class CallRun(AgentRunActor):
    """The run of one call; its outcome has the result as its output.

    Nothing of it is stored: the caller drives the run by hand, and keeps the session.

    Args:
        call: of a tool that the agent has.
    """

    __slots__ = ("call",)

    def __init__(
        self,
        run_id: str,
        agent: Agent[object],
        call: ToolCall,
        options: RunOptions,
        scope: Scope,
        host: RunHost[RunRecord],
        cell: ActorCell,
    ) -> None:
        super().__init__(run_id, agent, "", options, scope, host, cell)
        self.call = call

    @property
    def waits_to_save(self) -> bool:
        return False

    def save_session(self, *, yields: bool = False) -> None:
        """Do nothing."""

    def lines(self) -> RunLines | None:
        """Return None: no run begins, and none is finished."""
        return None

    def fails_runner(self, cause: BaseException) -> bool:
        return False

    def _calls_due(self) -> list[ToolCall]:
        return [self.call]

    def _go_on(self) -> None:
        try:
            self._make_calls()
        except BaseException as error:
            self._begin(End(self, None, error))

    def _end_round(self) -> None:
        executed, self._executed = self._executed, {}
        self._begin(End(self, executed.get(self.call.id), self._fault))


class End(Work):
    """End the run with the result of its call, or with what was raised in its place."""

    __slots__ = ("call", "error", "executed")

    def __init__(self, run: CallRun, executed: Executed | None, error: BaseException | None) -> None:
        super().__init__(run)
        self.call = run.call
        self.executed = executed
        self.error = error

    def do(self) -> Events:
        run, epoch = self.run, self.epoch
        try:
            run.host.endings.complete(run, self._outcome(), epoch)
        except (Stale, UnderstudyError):
            raise
        except BaseException as failure:  # never a second time: the tool may have run
            run.host.endings.cannot_go_on(run, failure, epoch)
        return ()

    def failed(self, error: UnderstudyError) -> Events:
        self.run.host.endings.fail(self.run, error, self.epoch)
        return ()

    def _outcome(self) -> Complete[object]:
        """Keep what the call changed in the session, and return its result as an outcome.

        Raises:
            UnfinishedRun: the call is a sub-agent's, whose run waits for a person.
        """
        if self.error is not None:
            raise self.error
        assert self.executed is not None, "a call that is over has a result or an error"
        came, changes = self.executed
        if isinstance(came, Paused):
            raise UnfinishedRun(
                f"the run of sub-agent {self.call.name!r} waits for a person; execute cannot wait: run the sub-agent itself"
            )
        assert isinstance(came, ToolResult)
        if changes is not None:
            with self.run.lock:
                changes.commit()
        return Complete(
            agent_id=self.run.agent.id, text=came.content, output=came, completion_reason="the call was made"
        )
