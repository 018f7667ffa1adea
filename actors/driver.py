"""The driver of a run: asks the machine for the next step, does it, feeds it back. Straight-line code on one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, assert_never, cast

from understudy.errors import (
    ActorError,
    AgentCrashed,
    AgentDown,
    ProviderError,
    ProviderTimeout,
    RunCancelled,
    RunTimedOut,
    ToolTimeout,
    UnderstudyError,
    in_words,
)
from understudy.messages import ModelRequest, ModelTurn, ToolCall
from understudy.models import Model, ModelName
from understudy.orchestration.steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done
from understudy.scope import Scope, enter_scope, leave_scope
from understudy.tools import Tool

from .cell import Cell
from .errands import deadlines, refuse
from .executor import (
    Attempt,
    Executed,
    RunTool,
    ToolExecutor,
    error_result,
    execute,
    fails_agent,
    may_repeat,
    timeout_result,
)
from .record import Record, Stale
from .reply import Reply
from .shell import hand_over, lend
from .story import Story

if TYPE_CHECKING:
    from .runs import Runs

DEFAULT_MODEL_TIMEOUT = 120.0  # Seconds for one model call with its retries; a long answer takes a minute or two.
GRACE = 0.25  # Seconds a model client has to report its own timeout before the call is taken away from it.


class Driver:
    """Drives `record` for as long as it holds `epoch`.

    An actor of one message, which is to begin: nobody knows its address, so it has neither mailbox nor cell.

    Attributes:
        returned: whether its thread came back, which a driver that was taken over may never do.
    """

    __slots__ = ("_epoch", "_record", "_runs", "returned")

    def __init__(self, runs: Runs, record: Record, epoch: int) -> None:
        self._runs = runs
        self._record = record
        self._epoch = epoch
        self.returned = False

    def begin(self, *, last: bool) -> None:
        """Begin on a lent thread; with `last` on this one, whose turn ends now. Without a thread the run ends."""
        try:
            if last:
                hand_over(self)
            else:
                lend(self)
        except RuntimeError as cause:  # no thread can be started
            self._lost(AgentDown(f"{self._address} has no thread to run on: {cause}", actor=self._address), cause)

    def run_turns(self) -> None:
        """Drive the run, in a copy of the context variables it was begun with: another driver may follow."""
        try:
            self._record.started_in.copy().run(self._drive_to_end)
        except BaseException as cause:  # what was to be done about a failure failed
            self._lost(AgentCrashed(f"{self._address} failed: {in_words(cause)}", actor=self._address), cause)

    def _lost(self, error: ActorError, cause: BaseException) -> None:
        error.__cause__ = cause
        self._runs.fail(self._record, error, self._epoch)

    @property
    def _address(self) -> str:
        return f"{self._record.agent.id}/{self._record.run_id}"

    def _drive_to_end(self) -> None:
        record, epoch = self._record, self._epoch
        try:
            record.open(epoch)
            self._drive()
        except Stale:
            pass  # the run is in other hands
        except UnderstudyError as error:
            if fails_agent(record.agent, error):
                self._runs.crashed(record, error, epoch)
            else:
                self._runs.fail(record, error, epoch)
        except BaseException as cause:
            self._runs.crashed(record, cause, epoch)
        finally:
            self.returned = True

    def _drive(self) -> None:
        record, epoch = self._record, self._epoch
        deadline = record.scope.deadline
        while True:
            # Nothing is begun that nobody has time for, whoever notices first.
            if deadline is not None and time.monotonic() >= deadline:
                raise timed_out(record)
            step = record.next_step(epoch)
            match step:
                case CallModel(request=request):
                    self._call_model(request)
                case CallTools(calls=(call,)) if record.agent.tools_by_name[call.name].isolation != "caller":
                    self._run_alone(call)
                case CallTools(calls=calls):
                    self._run_together(calls)
                case AwaitApproval() | AwaitInput():
                    return self._runs.pause(record, step, epoch)
                case Done(outcome=outcome):
                    return self._runs.complete(record, outcome, epoch)
                case _:
                    assert_never(step)

    # --- the model

    def _call_model(self, request: ModelRequest) -> None:
        record, epoch = self._record, self._epoch
        scope = Scope(time.monotonic() + DEFAULT_MODEL_TIMEOUT, time.monotonic, parent=record.scope)
        assert scope.deadline is not None
        record.begin_step(epoch, f"waiting for the model, turn {request.turn}", scope.deadline + GRACE)
        record.story.note(request.turn)
        if record.unfed is None:
            record.unfed = self._ask_model(request, scope)
        record.take_turn(epoch, record.unfed, self._approvals(record.unfed))

    def _ask_model(self, request: ModelRequest, scope: Scope) -> ModelTurn:
        token = enter_scope(scope)
        try:
            return self._model().complete(request)
        except RunTimedOut as error:
            if self._record.scope.remaining() == 0.0:
                raise
            raise model_timeout(self._record) from error
        except (UnderstudyError, Stale):
            raise
        except BaseException as error:  # a model's failure is the run's, not the agent's: another driver would not help
            raise model_failure(self._record, error) from error
        finally:
            leave_scope(token)

    def _model(self) -> Model:
        model = self._record.agent.current_model
        if isinstance(model, ModelName):
            from understudy.providers import resolve

            return resolve(model)
        return model

    def _approvals(self, turn: ModelTurn) -> Mapping[int, bool] | None:
        """Ask the tools' own rules which calls need a person; position of the call -> whether."""
        if None not in self._record.agent.run_spec.approvals.values():
            return None
        verdicts: dict[int, bool] = {}
        for position, call in enumerate(turn.tool_calls):
            tool = self._record.agent.tools_by_name.get(call.name)
            if tool is not None and callable(tool.approval):
                verdicts[position] = bool(tool.approval(call, self._record.context))
        return verdicts

    # --- tools

    def _run_alone(self, call: ToolCall) -> None:
        """Run the only call on this thread: no hop. If it hangs, the watchdog takes the run away from us."""
        record, epoch = self._record, self._epoch
        tool = record.agent.tools_by_name[call.name]
        order = RunTool(record, tool, call, _deadline(tool))
        record.begin_step(epoch, order.doing, order.deadline or _FOREVER, order)
        record.story.note(call)
        executed = execute(order)
        record.take_results(epoch, [executed])
        record.story.note((call, executed[0]))

    def _run_together(self, calls: tuple[ToolCall, ...]) -> None:
        """Run several calls at the same time, each in an executor of its own; the results go in call order."""
        record, epoch = self._record, self._epoch
        names = [call.name for call in calls]
        record.begin_step(epoch, f"running tool {names[0]}" if len(names) == 1 else f"running {len(names)} tools")
        tell = _Teller(record.story)
        tools = [record.agent.tools_by_name[name] for name in names]
        due = deadlines(tools, time.monotonic())
        under_way = [self._start(*each, tell) for each in zip(calls, tools, due, strict=True)]
        forget = record.scope.on_cancel(lambda: self._give_up_all(under_way))
        try:
            for order, reply in sorted(under_way, key=lambda pair: pair[0].deadline or _FOREVER):
                self._await(order, reply)
                tell(order, reply)  # whose thread may not have come to it yet, and the run goes on
        finally:
            forget()
        record.take_results(epoch, [settled(order, reply) for order, reply in under_way])

    def _start(
        self, call: ToolCall, tool: Tool[..., object], deadline: float | None, tell: _Teller
    ) -> tuple[RunTool, Reply[object]]:
        order, reply = RunTool(self._record, tool, call, deadline), Reply[object]()
        self._record.story.note(call)
        reply.when_done(lambda: tell(order, reply))
        self._lend_executor(order, reply)
        return order, reply

    def _lend_executor(self, order: RunTool, reply: Reply[object]) -> None:
        if order.tool.idempotent:
            reply = Attempt(order, reply)
        if order.tool.isolation == "caller":
            put = refuse if self._record.errands is None else self._record.errands.put
            put(order, reply)
        else:
            executor = Cell(f"{self._record.run_id}/{order.call.id}", ToolExecutor)
            executor.ask(order, timeout=_FOREVER, context=copy_context(), on_lost=order.lost, reply=reply)

    def _await(self, order: RunTool, reply: Reply[object]) -> None:
        timed_out = 0
        while not reply.wait(None if order.deadline is None else order.deadline - time.monotonic()):
            timed_out += 1
            if not may_repeat(order.tool, timed_out, order.scope):
                name, call_id = order.call.name, order.call.id
                self._give_up(order, reply, ToolTimeout(f"{name} timed out", tool=name, call_id=call_id))
                return
            order.superseded = True
            self._runs.abandon(order, order.record, order.doing, order.begun)
            order.cancel()
            # Whichever attempt succeeds first is taken: the tool is one that may run twice.
            order = RunTool(self._record, order.tool, order.call, _deadline(order.tool))
            self._lend_executor(order, reply)

    def _give_up_all(self, under_way: list[tuple[RunTool, Reply[object]]]) -> None:
        for order, reply in under_way:
            self._give_up(order, reply, cancelled(self._record))

    def _give_up(self, order: RunTool, reply: Reply[object], why: UnderstudyError) -> None:
        if reply.fail(why):
            self._runs.abandon(order, order.record, order.doing, order.begun)
            order.cancel()


class _Teller:
    """Notes the result of each call of a round once: when it is there, and before the run goes on."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._told: set[str] = set()
        self._lock = threading.Lock()
        """Guards the ids of the calls that were told; held while noting, so that who comes second finds it noted."""

    def __call__(self, order: RunTool, reply: Reply[object]) -> None:
        with self._lock:
            if order.call.id not in self._told:
                self._told.add(order.call.id)
                self._story.note((order.call, settled(order, reply)[0]))


_FOREVER = float("inf")


def _deadline(tool: Tool[..., object]) -> float | None:
    return None if tool.timeout is None else time.monotonic() + tool.timeout


def settled(order: RunTool, reply: Reply[object]) -> Executed:
    """Return what an executor's reply says, as a result; the reply must be done."""
    error = reply.error()
    if error is None:
        return cast(Executed, reply.get())
    if isinstance(error, ToolTimeout):
        return timeout_result(order.call, order.tool.timeout), None
    return error_result(order.call, "not_run", f"{order.call.name} did not run: {error}"), None


def cancelled(record: Record, why: str = "") -> RunCancelled:
    """Make the error of a run that nobody wants any more."""
    because = f": {why}" if why else ""
    return RunCancelled(
        f"run {record.run_id} of agent {record.agent.id!r} was cancelled{because}", run_id=record.run_id
    )


def timed_out(record: Record) -> RunTimedOut:
    """Make the error of a run whose deadline has passed."""
    return RunTimedOut(
        f"run {record.run_id} of agent {record.agent.id!r} passed its deadline while {record.doing or 'it began'}",
        run_id=record.run_id,
    )


def model_failure(record: Record, error: BaseException) -> ProviderError:
    """Make the error of a model object that failed in a way of its own."""
    model = type(record.agent.current_model).__name__
    return ProviderError(f"the model of agent {record.agent.id!r} failed: {in_words(error)}", provider=model)


def model_timeout(record: Record) -> ProviderTimeout:
    """Make the error of a model call that took too long."""
    return ProviderTimeout(
        f"the model of agent {record.agent.id!r} gave no answer within {DEFAULT_MODEL_TIMEOUT:g} s", retryable=True
    )
