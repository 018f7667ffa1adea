"""One tool call of an agent on its own, as `agent.execute` makes it: a run without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.host import RunHost
from understudy.actors.runs.ownership import Stale
from understudy.actors.runs.record import RunRecord
from understudy.actors.threads.pool import run_next_here, submit
from understudy.actors.tools.batch import ToolBatch
from understudy.actors.tools.tool_call import Paused
from understudy.errors import AgentDown, UnderstudyError, UnfinishedRun
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.runs.outcomes import Complete

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.run_view.log import RunLines
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions


class CallRecord(AgentRunRecord):
    """The record of one call; its outcome has the result as its output.

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

    def take_call(self, epoch: int, batch: ToolBatch) -> Complete[object]:
        """Make the call, keep what it changed in the session, and return its result as an outcome.

        Raises:
            UnfinishedRun: the call is a sub-agent's, whose run waits for a person.
            Stale: the run is over.
        """
        ((came, changes),) = batch.run()
        if isinstance(came, Paused):
            raise UnfinishedRun(
                f"the run of sub-agent {self.call.name!r} waits for a person; execute cannot wait: run the sub-agent itself"
            )
        with self.lock:
            self._check(epoch)
            if changes is not None:
                changes.commit()
        return Complete(agent_id=self.agent.id, text=came.content, output=came, completion_reason="the call was made")


class CallDriver:
    """Drives the record of a call, on one lent thread.

    Attributes:
        returned: whether its thread came back.
    """

    __slots__ = ("__weakref__", "_epoch", "_record", "returned")

    def __init__(self, record: CallRecord, epoch: int) -> None:
        self._record = record
        self._epoch = epoch
        self.returned = False

    def begin(self, *, last: bool) -> None:
        """Begin on a lent thread; with `last` on this one, whose turn ends now."""
        if last:
            run_next_here(self)
        else:
            submit(self)

    def refused(self, cause: RuntimeError) -> None:
        """End the call: no thread can be started."""
        name = self._record.call.name
        error = AgentDown(f"{name} has no thread to run on: {cause}", actor=self._record.agent.id)
        self._record.host.endings.fail(self._record, error, self._epoch)

    def run_turns(self) -> None:
        """Make the call, in a copy of the caller's context variables."""
        record, epoch = self._record, self._epoch
        try:
            record.started_in.copy().run(self._make)
        except Stale:
            pass  # the call was cancelled or its time is over, and the caller has the error
        except UnderstudyError as error:
            record.host.endings.fail(record, error, epoch)
        except BaseException as failure:  # never a second time: the tool may have run
            record.host.endings.cannot_go_on(record, failure, epoch)
        finally:
            self.returned = True

    def _make(self) -> None:
        record, epoch = self._record, self._epoch
        record.begin_step(epoch, f"running tool {record.call.name}")
        batch = ToolBatch(record.host.executors, record, (record.call,))
        record.host.endings.complete(record, record.take_call(epoch, batch), epoch)
