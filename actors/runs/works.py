"""The works of an agent's run: what may block or is user code. Each runs on a lent thread and returns events.

A work does not decide what comes next: the actor of the run does, when it hears what came of the work. The works of the end
(`Finish`, `Pause`, `EndTurn`, `Fail`) end the run.

The call of a sub-agent is no work, for no thread waits for it: `SubAgentTurn` begins its run, and ends the call when that is over.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from understudy.actors.cells.mailbox import Fate
from understudy.actors.memory.conversations import MemoryFailed
from understudy.actors.run_view.errors import timed_out
from understudy.actors.threads.pool import start_next_thread
from understudy.actors.threads.promise import Promise
from understudy.actors.tools.executor import LentTurn, checked_arguments, execute
from understudy.actors.tools.tool_call import NO_THREAD, Executed, ToolCallTask, deadline_of
from understudy.actors.waiting.graph import graph
from understudy.errors import AgentCrashed, AgentDown, ContextOverflow, ToolError, UnderstudyError, in_words
from understudy.orchestration.agent.steps import Done
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.orchestration.journal.places import place_of_call
from understudy.orchestration.runs import events as e
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.context.scope import enter_scope, leave_scope
from understudy.vocabulary.messages import ToolCall, ToolResult
from understudy.vocabulary.tools.parameters import BadArguments

from .agent_record import AgentRunRecord
from .callbacks import CallbackDispatcher, found_of
from .outcomes import paused_agent, turn_outcome
from .ownership import Stale
from .sub_agents import executed
from .turn_checks import with_output
from .turns import RunTurns

if TYPE_CHECKING:
    from understudy.actors.waiting.waits import Wait
    from understudy.vocabulary.answers.output_type import CheckedOutput

    from .record import RunRecord

Events = Sequence[e.RunEvent]


class WorkingRun(RunTurns, AgentRunRecord):
    """A run of an agent that hears what comes of its works."""

    __slots__ = ("model_time", "overflow", "timed_model")

    overflow: ContextOverflow | None
    """Why the model refused the last request."""
    timed_model: object
    """The model that `model_time` is of: an override may exchange it between two turns."""
    model_time: float | None
    """Seconds that a request for a whole turn may take; None for no limit."""


R = TypeVar("R", bound=RunTurns)


class RunWork(ABC, Generic[R]):
    """One work of a run.

    Attributes:
        context: the context variables of the stay: no two works enter them at once.
        events: what came of it; empty if it has ended the run, or crashed, or was given up: its actor hears nothing then.
        returned: whether it came back, which one that hangs may never do.
    """

    __slots__ = ("__weakref__", "context", "epoch", "events", "returned", "run")

    def __init__(self, run: R) -> None:
        self.run = run
        self.epoch = run.epoch
        self.context = run.mailbox.context
        self.events: Events = ()
        self.returned = False

    @abstractmethod
    def do(self) -> Events:
        """Do the work, and return what came of it; raises what the run, or the agent, fails of."""

    @abstractmethod
    def failed(self, error: UnderstudyError) -> Events:
        """End the run with an error that the work raised; returns what happens instead."""

    def run_turns(self) -> None:
        """Do the work on this thread, with the context variables of the run's stay, and have the run's actor hear of it."""
        try:
            self.context.run(self._do)
        except BaseException as cause:  # the handling of a failure failed
            self.returned = True
            run = self.run
            text = f"{run.runner.id}/{run.run_id} failed: {in_words(cause)}"
            run.lost_work(AgentCrashed(text, actor=run.runner.id), cause)
        else:
            if self.events:
                self.run.hear(self)

    def refused(self, cause: RuntimeError) -> None:
        """End the run: no thread can be started."""
        self.returned = True
        run = self.run
        text = f"{run.runner.id}/{run.run_id} has no thread to run on: {cause}"
        run.lost_work(AgentDown(text, actor=run.runner.id), cause)

    def _do(self) -> None:
        run = self.run
        crash: BaseException | None = None
        try:
            deadline = run.scope.deadline
            if deadline is not None and time.monotonic() >= deadline:
                raise timed_out(run)
            self.events = self.do()
        except Stale:
            pass  # the run is over, or this work was given up
        except UnderstudyError as error:
            if run.fails_runner(error) and run.left_error is None:
                crash = error
            else:
                self.events = self.failed(error)
        except MemoryFailed as failed:  # the memory has its own supervision, and the agent has not failed
            self.events = self.failed(failed.error)
        except BaseException as cause:
            crash = cause
        self.returned = True
        if crash is not None:
            run.host.crashed(run, crash, self.epoch)


class Work(RunWork[WorkingRun]):
    """One work of an agent's run."""

    __slots__ = ()

    def failed(self, error: UnderstudyError) -> Events:
        """End the run with an error, unless a callback has a text for it to end with, which is returned as an event."""
        run, epoch = self.run, self.epoch
        with suppress(Stale):  # the run has ended, or this work was given up
            if run.agent.callbacks and run.left_error is None:
                if run.turn_hold is None:  # a turn that is committed could not be taken back
                    run.host.endings.give_token(run, error, epoch)  # first: callbacks see the error with it
                left = run.left_error is not None
                ruling = None if left else CallbackDispatcher(run, epoch).ruling_of(error)
                if ruling is not None:
                    run.host.endings.withdraw_token(run, error)
                    return (e.RunRuled("on_error", ruling),)
            run.host.endings.fail(run, error, epoch)
        return ()


class Open(Work):
    """What a run begins with: the conversation, the session and the system prompt."""

    __slots__ = ()

    def do(self) -> Events:
        history, system = self.run.prepared(self.epoch)
        return (e.Opened(tuple(history), system),)


SAID: Events = (e.RunEvent(),)
"""What comes of a work that says in attributes of its own what its actor is to hear."""


def make_alone(run: AgentRunRecord, epoch: int, call: ToolCall) -> tuple[ToolCallTask, Executed] | None:
    """Make the only call that is due, on this thread; None if its seat is not free. If it hangs, the watchdog takes the run away.

    Raises:
        Stale: the run is over or in other hands.
    """
    tool = run.agent.tools_by_name[call.name]
    executor = run.host.executors.of(tool, run.cell)
    order = ToolCallTask(run, tool, call, deadline_of(tool), executor)
    if call.id in run.before:
        order.follow(*run.before[call.id])
    if not executor.take_turn(order):
        return None
    try:
        run.begin_step(epoch, order.doing, inf if order.deadline is None else order.deadline, order)
        run.log.note(call)
    except BaseException:
        order.came_back(Fate.CANCELLED)  # with its seat: from `begin_step` on, others know that it has one
        raise
    return order, execute(order)


class MakeCall(Work):
    """The only call that is due, of a tool on a lent thread: no hop."""

    __slots__ = ("call", "made")

    def __init__(self, run: WorkingRun, call: ToolCall) -> None:
        super().__init__(run)
        self.context = run.mailbox.context.copy()  # variables that the tool sets end with the call
        self.call = call
        self.made: tuple[ToolCallTask, Executed] | None = None
        """None if it has to wait for a seat."""

    def do(self) -> Events:
        self.made = make_alone(self.run, self.epoch, self.call)
        return SAID


class Write(Work):
    """Write what is new into the journal of the run, before anything that follows from it is shown or done."""

    __slots__ = ("begins",)

    def __init__(self, run: WorkingRun, begins: Sequence[ToolCall] = ()) -> None:
        super().__init__(run)
        self.begins = begins

    def do(self) -> Events:
        self.run.write_journal(self.epoch)
        return SAID


def write_result(run: AgentRunRecord, epoch: int, executed: Executed, note: Callable[[ToolResult], object]) -> None:
    """Write the result of a call while other calls are under way, with what it changed in the session. Blocks for the store.

    `note` gets the result if it is written. Does nothing if the run is over or in other hands, if the call has paused, and if its error ends the run: the round is
    written as a whole then, when all calls are over.

    Raises:
        LeaseLost: another process has taken the run over.
        StoreError: the store failed.
        TypeError: JSON cannot carry a value of the session.
    """
    from understudy.actors.journal.run_rows import artifact_rows, early_result  # loads pydantic

    result, changes = executed
    part = run.journal
    if part is None or not isinstance(result, ToolResult) or result.call_id in run.raised:
        return
    came = early_result(run, result, changes)
    with part.lock:
        with run.lock:
            machine = run.machine
            if machine is None or not run.is_held_at(epoch):
                return
            if part.line.has_early(result.call_id):  # its transaction was committed with it
                return
            part.closed(place_of_call(machine.state.turns, result.call_id))  # a sub-agent's rows lack its last turn
            rows, count = part.line.rows(machine.spec, early=came)
            rows += artifact_rows(run, part)
            closed = part.take_closed()
        note(result)  # the event is written with the result
        run.through_outage(epoch, partial(part.commit, rows, closed))
        part.line.written(count, came)


class Guard(Work):
    """Ask callbacks about calls that are to run."""

    __slots__ = ("calls",)

    def __init__(self, run: WorkingRun, calls: Sequence[ToolCall]) -> None:
        super().__init__(run)
        self.calls = calls

    def do(self) -> Events:
        rulings, approvals = CallbackDispatcher(self.run, self.epoch).rulings_before(self.calls)
        return (e.CallsGuarded(rulings, approvals),)


class Review(Work):
    """Show callbacks the results of a round."""

    __slots__ = ("results",)

    def __init__(self, run: WorkingRun, results: Sequence[tuple[ToolCall, ToolResult]]) -> None:
        super().__init__(run)
        self.results = results

    def do(self) -> Events:
        return (e.ResultsReviewed(CallbackDispatcher(self.run, self.epoch).rulings_after(self.results)),)


class Finish(Work):
    """Tell callbacks of the outcome, store what is to be stored, and end the run."""

    __slots__ = ("checked",)

    def __init__(self, run: WorkingRun, checked: CheckedOutput[object] | None) -> None:
        super().__init__(run)
        self.checked = checked

    def do(self) -> Events:
        run, epoch = self.run, self.epoch
        assert run.machine is not None
        step = run.machine.next_step()
        assert isinstance(step, Done), "the events say that it is done"
        told = with_output(run, step.outcome, self.checked)
        if run.agent.callbacks:
            CallbackDispatcher(run, epoch).finish(told)
        run.host.endings.complete(run, told, epoch)
        return ()


class Pause(Work):
    """Tell callbacks that the run waits for a person, and end its stay here."""

    __slots__ = ()

    def do(self) -> Events:
        run, epoch = self.run, self.epoch
        told = paused_agent(run)
        if run.agent.callbacks:
            CallbackDispatcher(run, epoch).tell(told)
            told = replace(told, session=lasting(run.session))
        run.host.endings.park(run, told, epoch)
        return ()


class EndTurn(Work):
    """End the stay of a run that was to do one turn here."""

    __slots__ = ()

    def do(self) -> Events:
        self.run.host.endings.end_turn(self.run, turn_outcome(self.run), self.epoch)
        return ()


class Reconcile(Work):
    """Ask tools what became of calls that another process had under way."""

    __slots__ = ()

    def do(self) -> Events:
        found = found_of(self.run, self.epoch)
        return (e.CallsReconciled(found),)


class Fail(Work):
    """End the run with an error: what its machine says, or what a limit, a budget or a sub-agent says."""

    __slots__ = ("error",)

    def __init__(self, run: WorkingRun, error: BaseException | None = None) -> None:
        super().__init__(run)
        self.error = error

    def do(self) -> Events:
        if self.error is not None:
            raise self.error
        run = self.run
        assert run.machine is not None
        try:
            run.machine.next_step()
        except ToolError as error:  # the agent was told when the tool raised, and must not fail twice
            raised = error.__cause__ = run.raised.pop(error.call_id, None)
            whole = isinstance(run.agent.tools_by_name.get(error.tool), SubAgent)
            own = raised if whole and isinstance(raised, UnderstudyError) else error  # as its run ended with it
            return self.failed(own)
        raise AssertionError("the events say that the run has failed")


class FailOfSubAgent(Work):
    """End the run with the error of a sub-agent, of which the agent was told at the call."""

    __slots__ = ("error",)

    def __init__(self, run: WorkingRun, error: UnderstudyError) -> None:
        super().__init__(run)
        self.error = error

    def do(self) -> Events:
        self.run.write_journal(self.epoch)
        return self.failed(self.error)


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
