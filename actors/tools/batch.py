"""The calls of one turn that run at the same time, each in an executor of its own; one thread waits for all of them.

At most `max_parallel_calls` of the agent run at once. A call that waits for its place has no thread and no slot of its tool, and its
time has not begun. Only its own run waits for it, so a place closes no circle that the calls under way do not close.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextvars import copy_context
from math import inf
from typing import cast

from understudy.actors.run_view.errors import cancelled
from understudy.actors.run_view.log import Finished, RunLog
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.threads.slots import Taken
from understudy.actors.waiting.awaited import Place
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import Wait
from understudy.errors import CircularAgentCall, RunCancelled, ToolTimeout, ToolUnavailable, UnderstudyError
from understudy.orchestration.agent.tool_failures import failure_of
from understudy.orchestration.supervision.call_time import CallDeadlines, next_look
from understudy.vocabulary.messages import ToolCall, ToolErrorKind, ToolResult
from understudy.vocabulary.tools.definition import Tool

from .attempt import Attempt
from .caller_thread import refuse
from .executor import ToolExecutor
from .failed_calls import error_result, tell_repeated, timeout_result
from .tool_call import Executed, ToolCallTask, ToolRun
from .tool_slots import SlotsOfTools


class ToolBatch:
    """Several calls of one run. Made and waited for by the run's driver."""

    def __init__(self, slots: SlotsOfTools, record: ToolRun, calls: Sequence[ToolCall]) -> None:
        tools = [record.agent.tools_by_name[call.name] for call in calls]
        limit = record.agent.max_parallel_calls
        self._record = record
        self._tell = _Teller(record.story)
        self._calls = [
            Call(ToolCallTask(record, tool, call, None, slots.of(tool, record)))
            for call, tool in zip(calls, tools, strict=True)
        ]
        self._due = CallDeadlines()
        self._shortest = min([inf if tool.timeout is None else tool.timeout for tool in tools])
        self._lock = threading.Lock()
        """Guards those below: any thread may end a call, and begin the next one in its place."""
        self._line = deque(self._calls)
        """Calls that have not begun."""
        self._under_way: dict[Call, None] = {}
        """Calls that have, and are not done; each has a place."""
        self._places = len(calls) if limit is None else limit
        self._filling = False
        """Whether some thread is at beginning calls: a loop, for each may be done at once."""

    def run(self) -> list[Executed]:
        """Make the calls, and return what came of each, in their order.

        Raises:
            CircularAgentCall: the slots that a call wants are held by calls that wait for this run.
        """
        forget = self._record.scope.on_cancel_at_once(self._give_up)
        executed: list[Executed] = []
        try:
            self._fill()
            for call in self._calls:
                self._await(call)
                executed.append(self._over(call))  # its thread may not have come to it yet, and the run goes on
                circle = call.reply.error()
                if isinstance(circle, CircularAgentCall):
                    raise circle
        except BaseException:
            self._give_up()
            raise
        finally:
            forget()
        return executed

    # --- places

    def _fill(self) -> None:
        """Begin calls for as long as there are places for them, unless another thread is at it."""
        with self._lock:
            if self._filling:
                return
            self._filling = True
        while (call := self._next()) is not None:
            self._start(call)

    def _next(self) -> Call | None:
        with self._lock:
            if not self._line or len(self._under_way) >= self._places:
                self._filling = False
                return None
            call = self._line.popleft()
            call.set_out(self._due.of(call.order.tool, time.monotonic()))
            self._under_way[call] = None
            return call

    def _start(self, call: Call) -> None:
        self._record.story.note(call.order.call)
        call.reply.when_done(lambda: self._over(call))
        call.reply.when_done(lambda: self._left(call))
        if call.reply.done:  # it was given up in this very moment
            call.order.returned = True
            return
        try:
            call.begin()
        except BaseException as cause:  # nobody else would end it
            call.reply.fail(cause)

    def _left(self, call: Call) -> None:
        """Give the place of a call that is done to the next one, also where the call hangs and was given up."""
        with self._lock:
            self._under_way.pop(call, None)
            more = bool(self._line)
        if more and call.order.tool.isolation == "caller":  # this is the caller's thread, which an interrupt may end
            run_elsewhere(self._fill)
        elif more:
            self._fill()

    def _over(self, call: Call) -> Executed:
        """Tell of a call that is done, and return what came of it. If that ends the run, nobody waits for the others."""
        executed = call.executed()
        came = executed[0]
        if isinstance(came, ToolResult):
            self._tell(call, came)
            circle = isinstance(call.reply.error(), CircularAgentCall)
            if circle or (came.is_error and failure_of(self._record.agent.run_spec, came) is not None):
                self._end(RunCancelled(f"{came.name} failed, and that ends the run"), call)
        return executed

    def _end(self, why: UnderstudyError, cause: Call | None = None) -> None:
        """Wait for no call any more but the one that is the cause, and begin none."""
        with self._lock:
            self._line.clear()
        for call in self._calls:
            if call is not cause:
                call.give_up(why)

    def _give_up(self) -> None:
        self._end(cancelled(self._record))

    # --- waiting

    def _await(self, call: Call) -> None:
        while not call.reply.wait(self._until_next_look(call)):
            for each in self._running()[0]:
                each.look()

    def _until_next_look(self, call: Call) -> float | None:
        if call.reply.done:
            return 0.0
        running, more = self._running()
        now = time.monotonic()
        # One that begins meanwhile, on another thread, is not overdue sooner than this.
        soonest = min([each.next_look for each in running], default=inf)
        soonest = min(soonest, now + self._shortest) if more else soonest
        return None if soonest == inf else soonest - now

    def _running(self) -> tuple[list[Call], bool]:
        """Return the calls that are under way, and whether more are to begin."""
        with self._lock:
            return list(self._under_way), bool(self._line)


class Call:
    """One call of a round, over all its attempts. Its driver looks at the time; an alarm does for one that stood in line."""

    def __init__(self, order: ToolCallTask) -> None:
        self.order = order
        self.reply: Promise[object] = Promise()
        self._context = copy_context()
        self._lock = threading.Lock()
        """Guards what `look` decides: the driver and an alarm may look at once."""
        self._timed_out = 0
        self.has_begun = False
        self._in_line = False
        self._wait: Wait | None = None
        """For a slot, in the graph of who waits for whom."""

    def set_out(self, deadline: float | None) -> None:
        """Have the time of the call begin."""
        self.has_begun = True
        self.order.set_out(deadline)

    def begin(self) -> None:
        """Start the call in an executor, as soon as there is a slot for it."""
        slots = self.order.slots
        if slots is None:
            self._lend_executor()
            return
        order = self.order
        self._in_line = True
        match slots.take(order, lambda: self._granted(order), self._unavailable):
            case Taken.NOW:
                self._in_line = False
                self._lend_executor()
            case Taken.NEVER:
                self._unavailable()
            case Taken.LATER:
                self._wait_in_line(order, Place(slots, order))
                if self.reply.done and slots.leave(order):  # it was given up meanwhile, before it stood there
                    self._out_of_line()
                    order.returned = True

    def _wait_in_line(self, order: ToolCallTask, place: Place[ToolCallTask]) -> None:
        """Have the graph know what the call waits for; one whose slots are held by calls that wait for its run is refused."""
        try:
            wait = graph.begin(order.record.link, place, order.record.scope)
        except CircularAgentCall as error:
            self.give_up(error)
            return
        with self._lock:
            waits = self._in_line and self.order is order
            if waits:
                self._wait = wait
        if not waits:  # its turn has come meanwhile
            graph.end(wait)

    def _out_of_line(self) -> None:
        with self._lock:
            self._in_line = False
            wait, self._wait = self._wait, None
        if wait is not None:
            graph.end(wait)

    def _granted(self, order: ToolCallTask) -> None:
        """Start a call that stood in line; its time begins now. On the thread that gave the slot back."""
        order.set_out(deadline_of(order.tool))
        self._out_of_line()
        if self.reply.done or not self._look_at(order.deadline):
            order.came_back()
            return
        self._lend_executor()

    def _look_at(self, moment: float | None) -> bool:
        """Have an alarm look, for the driver does not know of this moment; without one the call ends here."""
        try:
            if moment is not None:
                ring_at(moment, self.look)
        except RuntimeError as cause:
            self._fail(f"no thread can be started to look after it: {cause}")
            return False
        return True

    def _unavailable(self) -> None:
        self._out_of_line()
        tool = self.order.tool
        if tool.toolset is None:
            self._fail("all slots that max_parallel allows are held by calls that never came back")
        else:
            self._fail(f"its toolset, {tool.toolset.cls.__name__}, is held by a call that never came back")

    def _fail(self, why: str) -> None:
        call = self.order.call
        self.reply.fail(ToolUnavailable(why, tool=call.name, call_id=call.id))

    def _lend_executor(self) -> None:
        order = self.order
        reply = Attempt(order, self.reply) if order.tool.idempotent else self.reply
        if order.tool.isolation == "caller":
            put = refuse if order.record.errands is None else order.record.errands.put
            put(order, reply)
        else:
            ToolExecutor(order, reply, self._context).begin()

    @property
    def next_look(self) -> float:
        """When the driver must look again; infinite if somebody else sees to it."""
        order = self.order
        return inf if self._in_line or self.reply.done else next_look(order.deadline, order.gives_up_at)

    def look(self) -> None:
        """Do what the time says: try again, warn, or give up."""
        with self._lock:
            order = self.order
            if self.reply.done or self._in_line:
                return
            action = order.action_due(time.monotonic(), self._timed_out)
            if action == "retry":
                self._timed_out += 1
                self._supersede(order)
        match action:
            case "wait":
                pass
            case "retry":
                self._repeat(order)
            case "warn":
                self._warn(order)
            case "give_up":
                # An error, and not the result it will be: the tool may still bring its own, and the first one counts.
                self.give_up(ToolTimeout(f"{order.call.name} timed out", tool=order.call.name, call_id=order.call.id))

    def _warn(self, order: ToolCallTask) -> None:
        order.tell_overdue()
        order.warn()
        if order.slots is not None:  # it may have stood in line, and then the driver looks only by chance
            self._look_at(order.gives_up_at)

    def _supersede(self, order: ToolCallTask) -> None:
        """Have another attempt stand for the call; call it under the lock."""
        order.superseded = True
        self.order = ToolCallTask(order.record, order.tool, order.call, deadline_of(order.tool), order.slots)
        self.order.follow(order.since, order.attempts)

    def _repeat(self, order: ToolCallTask) -> None:
        """Make another attempt. Whichever succeeds first is taken: the tool is one that may run twice."""
        tell_repeated(order)
        _abandon(order)
        self._context = self._context.copy()  # the attempt that hangs is inside of the other one
        if order.slots is None or self._look_at(self.order.deadline):
            self.begin()

    def give_up(self, why: UnderstudyError) -> None:
        """Wait for the call no longer, if it is not done."""
        order = self.order
        if not self.reply.fail(why):
            return
        if not self.has_begun:
            order.returned = True
            return
        if order.slots is not None and order.slots.leave(order):  # it never began
            self._out_of_line()
            order.returned = True
            return
        _abandon(order)

    def executed(self) -> Executed:
        """Return what came of the call, as a result; it must be done."""
        call, error = self.order.call, self.reply.error()
        if error is None:
            return cast(Executed, self.reply.get())
        if isinstance(error, ToolTimeout):
            return timeout_result(call, self.order.tool.timeout), None
        kind: ToolErrorKind = "unavailable" if isinstance(error, ToolUnavailable) else "not_run"
        what = "did not run to its end" if self.order.thread else "did not run"
        return error_result(call, kind, f"{call.name} {what}: {error}"), None


def _abandon(order: ToolCallTask) -> None:
    """Wait no longer for a call that may be running still."""
    order.record.host.hung.abandon(order, order.record, order.doing, order.begun)
    order.abandon()


class _Teller:
    """Notes the result of each call of a round once: when it is there, and before the run goes on."""

    def __init__(self, story: RunLog) -> None:
        self._story = story
        self._told: set[str] = set()
        self._lock = threading.Lock()
        """Guards the ids of the calls that were told; held while noting, so that who comes second finds it noted."""

    def __call__(self, call: Call, result: ToolResult) -> None:
        made = call.order.call
        with self._lock:
            if made.id not in self._told:
                self._told.add(made.id)
                if not call.has_begun:
                    self._story.note(made)
                self._story.note(call.order.finished(result) if call.has_begun else Finished(made, result))


def deadline_of(tool: Tool[..., object]) -> float | None:
    """Return until when a call that begins now may take; None for no limit."""
    return None if tool.timeout is None else time.monotonic() + tool.timeout
