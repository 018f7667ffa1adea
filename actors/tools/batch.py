"""The calls of one turn that run at the same time, each on a thread of its own; one thread waits for all of them.

At most `max_parallel_calls` of the agent run at once. A call that waits for its place has no thread and no seat of its tool, and its
time has not begun. Only its own run waits for it, so a place closes no circle that the calls under way do not close.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from understudy.actors.run_view.errors import cancelled, safely
from understudy.actors.run_view.log import Finished, RunLog, RunLogEntry
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import CircularAgentCall, RunCancelled, UnderstudyError
from understudy.orchestration.agent.rounds import failure_of
from understudy.orchestration.supervision.call_time import CallDeadlines
from understudy.vocabulary.messages import ToolCall, ToolResult

from .batch_call import Call
from .executor import Executors
from .tool_call import Executed, ToolCallTask, ToolRun


class ToolBatch:
    """Several calls of one run. Made and waited for by the run's driver.

    Args:
        executors: those of the tools.
        record: the run.
        calls: in the order of the turn.
        keep: writes the result of a call while others are under way; None for a run without a journal.
    """

    def __init__(
        self,
        executors: Executors,
        record: ToolRun,
        calls: Sequence[ToolCall],
        keep: Callable[[ToolBatch, Executed], object] | None = None,
    ) -> None:
        tools = [record.agent.tools_by_name[call.name] for call in calls]
        limit = record.agent.max_parallel_calls
        self._record = record
        self._keep_result = keep
        self._fault: UnderstudyError | None = None
        """The error of a result that could not be written."""
        self._tell = _Teller(record.log)
        self._calls = [
            Call(ToolCallTask(record, tool, call, None, executors.of(tool, record.cell)))
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
            CircularAgentCall: the seats that a call wants are held by calls that wait for this run.
            StoreError, LeaseLost: the result of a call could not be written.
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
            if self._fault is not None:
                raise self._fault
        except BaseException:
            self._give_up()
            raise
        finally:
            forget()
            self._tell.wait()
        return executed

    def finished(self) -> tuple[list[Executed], list[str]]:
        """Begin no more calls; return the results of the finished calls and the ids of the calls under way."""
        with self._lock:
            waiting = set(self._line)
            self._line.clear()
        begun = [call for call in self._calls if call not in waiting]
        done = [call for call in begun if call.reply.done and not isinstance(call.reply.error(), RunCancelled)]
        results, under_way = [call.executed() for call in done], list[str]()
        for call in begun:
            if call in done:
                continue
            came = call.order.settled()
            if came is None:
                under_way.append(call.order.call.id)
            else:
                results.append(came)
        return results, under_way

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
        self._record.log.note(call.order.call)
        call.reply.when_done(lambda: self._over(call))
        if self._keep_result is not None:
            call.reply.when_done(lambda: self._returned(call))
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

    # --- the journal

    def _returned(self, call: Call) -> None:
        """Write the result of a call while others are under way, before the next one begins."""
        if call.reply.error() is not None or all(each.reply.done for each in self._calls):
            return
        if call.order.tool.isolation == "caller":  # this is the caller's thread, which an interrupt may end
            run_elsewhere(lambda: safely(self._record, self._write, call))
        else:
            safely(self._record, self._write, call)

    def _write(self, call: Call) -> None:
        assert self._keep_result is not None
        try:
            self._keep_result(self, call.executed())
        except UnderstudyError as fault:  # after anything else, the driver writes when all calls are done
            self._fault = fault
            self._end(RunCancelled(f"the result of {call.order.call.name} cannot be written, and that ends the run"))

    # --- the end

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


class _Teller:
    """Notes the result of each call of a round once: when it is there, and before the run goes on."""

    def __init__(self, story: RunLog) -> None:
        self._story = story
        self._told: set[str] = set()
        self._writing = 0
        """How many results are noted, and their lines are not in the log yet."""
        self._lock = threading.Condition(threading.Lock())
        """Guards the above; held while noting, so that a second call finds the result noted. Told when all lines are there."""

    def __call__(self, call: Call, result: ToolResult) -> None:
        made = call.order.call
        with self._lock:
            if made.id in self._told:
                return
            self._told.add(made.id)
            facts: list[RunLogEntry] = (
                [call.order.finished(result)] if call.has_begun else [made, Finished(made, result)]
            )
            for fact in facts:
                self._story.note(fact, with_line=False)
            self._writing += 1
        try:
            self._story.write_lines(facts)
        finally:
            with self._lock:
                self._writing -= 1
                if not self._writing:
                    self._lock.notify_all()

    def wait(self) -> None:
        """Wait until the lines of all calls that were told are in the log: the run's own next line follows them."""
        with self._lock:
            self._lock.wait_for(lambda: not self._writing)
