"""The driver of a run: asks the machine for the next step, does it, feeds it back. Straight-line code on one thread."""

from __future__ import annotations

import contextlib
import time
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from understudy.actors.memory.conversations import MemoryFailed
from understudy.actors.run_view.errors import model_failure, model_time, streamed_time, timed_out
from understudy.actors.run_view.log import tell_late_driver
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.ownership import Stale
from understudy.actors.threads.pool import run_next_here, submit
from understudy.actors.tools.batch import ToolBatch
from understudy.actors.tools.failed_calls import fails_agent
from understudy.errors import (
    ActorError,
    AgentCrashed,
    AgentDown,
    ContextOverflow,
    ToolError,
    UnderstudyError,
    in_words,
)
from understudy.orchestration.agent.steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.messages import ModelRequest, ToolCall, ToolResult
from understudy.vocabulary.models import Model

from .agent_pause import paused_outcome, turn_outcome
from .callbacks import CallbackDispatcher
from .early_results import write_result
from .model_call import (
    TurnScope,
    ask_model,
    first_deadline,
    is_streamed,
    model_of,
    resolved_model,
    scope_of_turn,
    shortened,
    sum_up,
)
from .reconciling import reconcile
from .turn_checks import about_turn, check_answer, with_output
from .works import make_alone

if TYPE_CHECKING:
    from understudy.vocabulary.answers.output_type import CheckedOutput


class AgentDriver:
    """Drives `record` for as long as it holds `epoch`.

    It gets one message, to begin, and no code has its address. So it has neither mailbox nor cell.

    Attributes:
        returned: whether its thread came back, which a driver that was taken over may never do.
    """

    __slots__ = ("__weakref__", "_checked", "_epoch", "_model_time", "_moments", "_record", "_timed_model", "returned")

    def __init__(self, record: AgentRunRecord, epoch: int) -> None:
        self._record = record
        self._epoch = epoch
        self._moments = CallbackDispatcher(record, epoch) if record.agent.callbacks else None
        self._checked: CheckedOutput[object] | None = None
        """The answer of the last turn, if it had one to check; the next driver checks it anew."""
        self._timed_model: object = None
        """The model that `_model_time` is of: an override may exchange it between two turns."""
        self._model_time: float | None = None
        self.returned = False

    def begin(self, *, last: bool) -> None:
        """Begin on a lent thread; with `last` on this one, whose turn ends now."""
        if last:
            run_next_here(self)
        else:
            submit(self)

    def refused(self, cause: RuntimeError) -> None:
        """End the run: no thread can be started."""
        self._lost(AgentDown(f"{self._address} has no thread to run on: {cause}", actor=self._address), cause)

    def run_turns(self) -> None:
        """Drive the run, in a copy of the context variables it was begun with: another driver may follow."""
        try:
            self._record.started_in.copy().run(AgentDriver._drive_to_end, self)
        except BaseException as cause:  # the handling of a failure failed
            self._lost(AgentCrashed(f"{self._address} failed: {in_words(cause)}", actor=self._address), cause)

    def _lost(self, error: ActorError, cause: BaseException) -> None:
        error.__cause__ = cause
        if not self._record.host.endings.fail(self._record, error, self._epoch):
            tell_late_driver(self._record.link, cause)

    @property
    def _address(self) -> str:
        return f"{self._record.agent.id}/{self._record.run_id}"

    def _drive_to_end(self) -> None:
        record, epoch = self._record, self._epoch
        try:
            record.open(epoch)
            if record.machine is not None and record.machine.in_doubt and not record.issued:  # its token has the answer
                reconcile(record, epoch)
            self._drive()
        except Stale:
            pass  # the run has ended, or another driver has it: this one has nothing more to do
        except UnderstudyError as error:
            if fails_agent(record.agent, error) and record.left_error is None:
                record.host.crashed(record, error, epoch)
            else:
                self._fail(error)
        except MemoryFailed as failed:  # the memory has its own supervision, and the agent has not failed
            self._fail(failed.error)
        except BaseException as cause:
            record.host.crashed(record, cause, epoch)
        finally:
            self.returned = True

    def _fail(self, error: UnderstudyError) -> None:
        """Fail the run, unless a callback has a text for it to end with."""
        with contextlib.suppress(Stale):  # the run has ended, or another driver has it
            record = self._record
            if self._moments is not None and record.left_error is None:
                if record.turn_hold is None:  # a turn that is committed could not be taken back
                    record.host.endings.give_token(record, error, self._epoch)  # first: callbacks see the error with it
                if record.left_error is None and self._moments.replaced(error):
                    record.host.endings.withdraw_token(record, error)
                    return self._drive_to_end()
            record.host.endings.fail(record, error, self._epoch)

    def _drive(self) -> None:
        record, epoch = self._record, self._epoch
        deadline = record.scope.deadline
        while True:
            # The watchdog may look later: no step begins after the deadline.
            if deadline is not None and time.monotonic() >= deadline:
                raise timed_out(record)
            if self._moments is not None:
                self._moments.settle_calls()
            try:
                step = record.next_step(epoch)
            except ToolError as error:  # the agent was told when the tool raised, and must not fail twice
                raised = error.__cause__ = record.raised.pop(error.call_id, None)
                whole = isinstance(record.agent.tools_by_name.get(error.tool), SubAgent)
                own = raised if whole and isinstance(raised, UnderstudyError) else error  # as its run ended with it
                return self._fail(own)
            match step:
                case CallModel() if step.request.turn > record.last_turn:
                    return record.host.endings.end_turn(record, turn_outcome(record), epoch)
                case CallModel(request=request, compaction=None):
                    if record.journal is not None and record.has_unwritten:
                        record.write_journal(epoch)  # a turn that is paid for, and that no call followed
                    self._call_model(request)
                case CallModel():
                    self._sum_up(step)
                case CallTools(calls=calls):
                    stop = self._run_tools(calls)
                    if record.journal is not None:  # first: a callback that hangs must not put the calls in doubt
                        record.write_journal(epoch)
                    if stop is not None:  # the agent was told at its sub-agent's call
                        return self._fail(stop)
                case AwaitApproval() | AwaitInput():
                    return self._pause()
                case Done(outcome=outcome):
                    told = with_output(record, outcome, self._checked)
                    if self._moments is not None:
                        self._moments.finish(told)
                    return record.host.endings.complete(record, told, epoch)
                case _:
                    assert_never(step)

    def _pause(self) -> None:
        """Pause the run: it needs a person, who resumes it with a token."""
        record = self._record
        told = paused_outcome(record)
        if self._moments is not None:
            self._moments.tell(told)
            told = replace(told, session=lasting(record.session))
        record.host.endings.park(record, told, self._epoch)

    # --- the model

    def _call_model(self, request: ModelRequest) -> None:
        record, epoch = self._record, self._epoch
        if self._moments is not None and record.unfed is None and self._moments.before_model_call(request):
            return
        turn = record.unfed
        model = model_of(self._record) if turn is None else None
        try:
            scope = self._scope(request, model)
            deadline = first_deadline(scope, model)
        except BaseException as error:  # of a property of the model object
            raise model_failure(record, error) from error
        record.begin_step(epoch, f"waiting for the model, turn {request.turn}", deadline)
        record.is_streaming = scope.is_streamed
        record.log.note(request.turn)
        if turn is None:
            assert model is not None
            try:
                turn = record.keep(ask_model(record, epoch, model, request, scope))
            except BaseException as error:
                record.cut_off(scope, error, scope.partial)
                if isinstance(error, ContextOverflow) and shortened(record, epoch, error):
                    return
                raise
        if self._moments is None or not self._moments.after_model_call(turn):
            about = about_turn(record, epoch, turn)
            self._checked = check_answer(record, epoch, turn, about)
            if self._checked is not None:
                about = about.copy()
                about["output_problem"] = self._checked.problem
            record.take_turn(epoch, turn, about)

    def _scope(self, request: ModelRequest, model: Model | None) -> TurnScope:
        """Return the scope of the next call of a model; without a model the turn is there already."""
        record = self._record
        if is_streamed(record, model):
            limit, is_in_pieces = streamed_time(record.agent), True
        else:
            own = record.agent.current_model
            if own is not self._timed_model:
                self._timed_model, self._model_time = own, model_time(record.agent)
            limit, is_in_pieces = self._model_time, False
        return scope_of_turn(record, request.turn, limit, is_in_pieces)

    def _sum_up(self, step: CallModel) -> None:
        other = None if step.compaction is None else step.compaction.other_model
        model = model_of(self._record) if other is None else resolved_model(other)
        sum_up(self._record, self._epoch, model, step.request, is_own=other is None)

    # --- tools

    def _run_tools(self, calls: tuple[ToolCall, ...]) -> UnderstudyError | None:
        """Run the calls, or the first of them if they go one after another: the next step has the others.

        Returns:
            The error of a sub-agent that ends the run.
        """
        record, agent = self._record, self._record.agent
        if len(calls) > 1 and agent.max_parallel_calls == 1:
            calls = calls[:1]
        if record.journal is not None:
            record.write_journal(self._epoch, calls)
        if len(calls) == 1 and agent.tools_by_name[calls[0].name].isolation != "caller":
            return self._run_alone(calls[0])
        return self._run_together(calls)

    def _run_alone(self, call: ToolCall) -> UnderstudyError | None:
        """Take the turn of the only call on this thread: no hop. If it hangs, the watchdog takes the run away from us."""
        record, epoch = self._record, self._epoch
        # In a copy of the context, as on a lent thread: variables that the tool sets end with it.
        made = copy_context().run(make_alone, record, epoch, call)
        if made is None:
            return self._run_together((call,))
        order, executed = made
        stop = record.take_results(epoch, [executed])
        if isinstance(executed[0], ToolResult):
            record.log.note(order.finished(executed[0]))
        return stop

    def _run_together(self, calls: tuple[ToolCall, ...]) -> UnderstudyError | None:
        """Run calls at the same time, as many as the agent says, each on a lent thread; the results go in call order."""
        record, epoch = self._record, self._epoch
        record.begin_step(epoch, f"running tool {calls[0].name}" if len(calls) == 1 else f"running {len(calls)} tools")
        keep = None if record.journal is None else partial(write_result, record, epoch)
        batch = ToolBatch(record.host.executors, record, calls, keep)
        record.begin_batch(epoch, batch)
        return record.take_results(epoch, batch.run())
