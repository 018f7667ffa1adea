"""Calls of sub-agents by the actor of a run: no thread waits for the run that a call is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.sub_agents import executed
from understudy.actors.threads.pool import start_next_thread
from understudy.actors.threads.promise import Promise
from understudy.actors.tools.executor import LentTurn, checked_arguments
from understudy.actors.tools.tool_call import NO_THREAD, Executed, ToolCallTask
from understudy.actors.waiting.graph import graph
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.vocabulary.context.scope import enter_scope, leave_scope
from understudy.vocabulary.tools.parameters import BadArguments

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.waiting.waits import Wait


class SubAgentTurn(LentTurn):
    """The turn of a call of a sub-agent: a lent thread begins the run, and the thread that ends the run ends the call."""

    __slots__ = ("_child", "_error", "_wait")

    def __init__(self, order: ToolCallTask, reply: Promise[object], context: Context) -> None:
        super().__init__(order, reply, context)
        self._child: RunRecord | None = None
        self._wait: Wait | None = None
        """For the run, in the graph of who waits for whom."""
        self._error: BaseException | None = None
        """Why the run could not begin."""

    def run_turns(self) -> None:
        """Begin the run, unless nobody waits for the call any more."""
        if self._reply.done:
            return super().run_turns()
        try:
            child = self._context.run(self._begun)
        except BaseException as error:
            self._error = error
            self._over()
        else:
            self._order.thread = NO_THREAD
            child.promise.when_done(self._over)
        return None

    def _begun(self) -> RunRecord:
        order, record, tool = self._order, self._order.record, self._order.tool
        assert isinstance(record, AgentRunRecord)
        assert isinstance(tool, SubAgent)
        order.thread = threading.get_ident()
        token = enter_scope(order.scope)
        try:
            child = self._child = record.run_of_call(order, tool, str(checked_arguments(order)["input"]))
            self._wait = graph.begin(record.link, child.link, order.scope)
            child.host.launch(child, last=True)  # its scope is inside of the call's: it ends at the latest with that
            return child
        finally:
            leave_scope(token)

    def _over(self) -> None:
        """End the call, on the thread that ended its run."""
        start_next_thread()  # a serializer of a user's may take its time
        if self._wait is not None:
            graph.end(self._wait)
        self._make(self._attempt_of)
        self._error = None  # its traceback leads to us

    def _attempt_of(self, order: ToolCallTask) -> Callable[[], Executed]:
        if isinstance(self._error, BadArguments):  # nothing was attempted
            raise self._error
        return self._attempt

    def _attempt(self) -> Executed:
        order, child = self._order, self._child
        if self._error is not None:
            raise self._error
        assert child is not None
        return executed(order.record, order.call, order.tool, child, child.promise.get())
