"""One call of several that are made together: its seat, its attempts, and how long it is waited for.

`CallerThreadCalls` is for tools with `isolation="caller"`: the thread that waits for the run makes their calls meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from math import inf
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self, cast

from understudy.actors.cells.mailbox import Fate
from understudy.actors.cells.seated_cell import Entered
from understudy.actors.run_view.errors import timed_out
from understudy.actors.run_view.log import Finished
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.pool import Runnable, submit
from understudy.actors.threads.promise import Promise
from understudy.actors.tools.executor import LentTurn, execute
from understudy.actors.tools.failed_calls import error_result, tell_repeated, timeout_result
from understudy.actors.tools.tool_call import Executed, ToolCallTask, deadline_of
from understudy.actors.waiting.awaited import Place
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import Wait
from understudy.errors import CircularAgentCall, ToolTimeout, ToolUnavailable, UnderstudyError
from understudy.orchestration.supervision.call_time import next_look
from understudy.vocabulary.actors.system_events import LostBecause
from understudy.vocabulary.context.ancestry import enter_ancestry, leave_ancestry
from understudy.vocabulary.messages import ToolErrorKind

if TYPE_CHECKING:
    from understudy.vocabulary.runs.outcomes import Outcome


class CallerThreadCalls:
    """A line of calls for one thread, which goes through it until the run is over. Use it in a `with` block."""

    __slots__ = ("_closed", "_line", "_lock")

    def __init__(self) -> None:
        self._line: SimpleQueue[tuple[ToolCallTask, Promise[object]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        """Guards the end: what is put later is refused, and what was put before is seen."""
        self._closed = False

    def put(self, order: ToolCallTask, reply: Promise[object]) -> None:
        """Have the thread make a call, after those that were put before; does not wait."""
        with self._lock:
            if not self._closed:
                self._line.put((order, reply))
                return
        refuse(order, reply)

    def run_until_over(self, outcome: Promise[Outcome[object]]) -> None:
        """Make the calls, on this thread and with its context variables, until the run has its outcome.

        An interrupt, or another exception that belongs to the thread and not to the tool, is raised. Its call stays
        without an answer, and the caller ends the run.
        """
        outcome.when_done(lambda: self._line.put(None))
        while (errand := self._line.get()) is not None:
            order, reply = errand
            if reply.done:
                order.came_back(Fate.CANCELLED)  # it was given up before its turn came
                continue
            chain = enter_ancestry(order.record.ancestry)  # of the run, or of a sub-agent's inside of it
            try:
                reply.set(execute(order))
            finally:
                leave_ancestry(chain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
        while not self._line.empty():  # nobody else takes, and nothing more comes
            errand = self._line.get()
            if errand is not None:
                refuse(*errand)


def refuse(order: ToolCallTask, reply: Promise[object]) -> None:
    """Answer a call that no thread is there for."""
    order.came_back(Fate.DEAD)
    reply.fail(_nobody(order))


def _nobody(order: ToolCallTask) -> ToolUnavailable:
    return ToolUnavailable("no thread waits in run() to make the call", tool=order.call.name, call_id=order.call.id)


class Call:
    """One call of a round, over all its attempts. The run looks at the time; an alarm does for one that stood in line.

    Args:
        order: the call.
        lend: has a thread make an attempt; `submit` if it is None.
        context: the context variables of the run, for this call alone; the present ones if it is None.
        turn: makes the turn of an attempt.
    """

    def __init__(
        self,
        order: ToolCallTask,
        lend: Callable[[Runnable], object] | None = None,
        context: Context | None = None,
        turn: type[LentTurn] = LentTurn,
    ) -> None:
        self.order = order
        self._turn = turn
        self._lend = lend
        self.reply: Promise[object] = Promise()
        self._context = copy_context() if context is None else context
        self._lock = threading.Lock()
        """Guards what `look` decides: the run and an alarm may look at once."""
        self._timed_out = 0
        self.has_begun = False
        self.told: Finished | None = None
        """The log entry of its end, if the log has that before the turn in which the run hears of it."""
        self._in_line = False
        self._wait: Wait | None = None
        """For a seat, in the graph of who waits for whom."""

    def set_out(self, deadline: float | None) -> None:
        """Have the time of the call begin."""
        self.has_begun = True
        self.order.set_out(deadline)

    def begin(self) -> None:
        """Send the call to the executor of its tool; it begins as soon as there is a seat for it."""
        order, executor = self.order, self.order.executor
        if executor.take_turn(order):
            self._lend_thread()
            return
        self._in_line = True  # first: its turn may come at once
        due = order.record.scope.deadline
        match executor.enter(order, partial(self._granted, order), partial(self._lost, order), due):
            case Entered.NOW:
                self._in_line = False
                self._lend_thread()
            case Entered.LATER:
                self._wait_in_line(order, Place(executor, order))
                if self.reply.done and executor.withdraw(order):  # it was given up meanwhile, before it stood there
                    self._out_of_line()
                    order.returned = True
            case Entered.LOST:
                pass

    def _wait_in_line(self, order: ToolCallTask, place: Place[ToolCallTask]) -> None:
        """Have the graph know what the call waits for; one whose seats are held by calls that wait for its run is refused."""
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
        """Begin a call that stood in line; its time begins now. On the thread that gave the seat back."""
        order.set_out(deadline_of(order.tool))
        self._out_of_line()
        if self.reply.done or not self._look_at(order.deadline):
            order.came_back(Fate.CANCELLED)
            return
        self._lend_thread()

    def _look_at(self, moment: float | None) -> bool:
        """Have an alarm look, for the run does not know of this moment; without one the call ends here."""
        try:
            if moment is not None:
                ring_at(moment, self.look)
        except RuntimeError as cause:
            self._fail(f"no thread can be started to look after it: {cause}")
            return False
        return True

    def _lost(self, order: ToolCallTask, reason: LostBecause) -> None:
        """Answer a call that never has a turn."""
        self._out_of_line()
        order.returned = True
        toolset = order.tool.toolset
        if reason == "expired":
            self.reply.fail(timed_out(order.record))
        elif reason == "stopped":
            self._fail(f"{order.executor.address} has stopped")
        elif reason == "no_thread":
            self._fail(f"no thread can be had for it to wait for {order.executor.address}")
        elif toolset is None:
            self._fail("all slots that max_parallel allows are held by calls that never came back")
        else:
            self._fail(f"its toolset, {toolset.cls.__name__}, is held by a call that never came back")

    def _fail(self, why: str) -> None:
        call = self.order.call
        self.reply.fail(ToolUnavailable(why, tool=call.name, call_id=call.id))

    def _lend_thread(self) -> None:
        order = self.order
        reply = Attempt(order, self.reply) if order.tool.idempotent else self.reply
        if order.tool.isolation == "caller":
            put = refuse if order.record.caller_calls is None else order.record.caller_calls.put
            put(order, reply)
        else:
            (self._lend or submit)(self._turn(order, reply, self._context))

    @property
    def next_look(self) -> float:
        """When the run must look again; infinite if somebody else sees to it."""
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
        if order.executor.seats is not None:  # it may have stood in line, and then the run looks only by chance
            self._look_at(order.gives_up_at)

    def _supersede(self, order: ToolCallTask) -> None:
        """Have another attempt stand for the call; call it under the lock."""
        order.superseded = True
        self.order = ToolCallTask(order.record, order.tool, order.call, deadline_of(order.tool), order.executor)
        self.order.follow(order.since, order.attempts)

    def _repeat(self, order: ToolCallTask) -> None:
        """Make another attempt. Whichever succeeds first is taken: the tool is one that may run twice."""
        tell_repeated(order)
        _abandon(order)
        self._context = self._context.copy()  # the attempt that hangs is inside of the other one
        if order.executor.seats is None or self._look_at(self.order.deadline):
            self.begin()

    def give_up(self, why: UnderstudyError) -> None:
        """Wait for the call no longer, if it is not done."""
        order = self.order
        if not order.give_up_effect():  # its result is in the store, and comes in a moment
            if order.overdue:  # nothing is due any more: the run would look again and again
                order.gives_up_at = inf
            return
        if not self.reply.fail(why):
            return
        if not self.has_begun:
            order.returned = True
            return
        if order.executor.withdraw(order):  # it never began
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


class Attempt(Promise[object]):
    """The reply of one attempt at a call that may have several; what it says is passed on to the reply of the call.

    Not so the failure of an attempt that was given up: mostly it fails of that, and another one is on its way.
    """

    __slots__ = ("_call", "_order")

    def __init__(self, order: ToolCallTask, call: Promise[object]) -> None:
        super().__init__()
        self._order = order
        self._call = call

    def finish(self, value: object, error: BaseException | None) -> bool:
        if not super().finish(value, error):
            return False
        failed = error is not None or cast(Executed, value)[0].is_error
        if not (failed and self._order.superseded):
            self._call.finish(value, error)
        return True

    @property
    def done(self) -> bool:
        return self._done or self._call.done
