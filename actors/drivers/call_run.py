"""One tool call of an agent on its own, as `agent.execute` makes it: a run without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.runs.host import RunHost
from understudy.actors.runs.ownership import Stale
from understudy.actors.runs.record import RunRecord
from understudy.actors.tools.tool_call import Executed, Paused
from understudy.errors import UnderstudyError, UnfinishedRun
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Complete

from .run_actor import AgentRunActor
from .works import Events, Work

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.run_view.log import RunLines
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions


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
