"""The actor of an agent's run. Its turn never blocks and runs no code of users.

A message says what came of a work: its events are applied, and the works that are due then begin. Works run on lent threads,
several tool calls at once. The thread that ends a work takes the actor's next turn and does the next work: no hop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any

from understudy.actors.run_view.errors import cancelled, safely
from understudy.actors.run_view.log import Finished
from understudy.actors.threads.pool import here, run_next_here
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.tools.batch_call import Call
from understudy.actors.tools.executor import LentTurn
from understudy.actors.tools.tool_call import Executed, Paused, ToolCallTask
from understudy.errors import CircularAgentCall, RunCancelled, UnderstudyError
from understudy.orchestration.agent.rounds import failure_of
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.turns import refusals, refused_by
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.state import AgentLineState
from understudy.orchestration.supervision.call_time import CallDeadlines
from understudy.vocabulary.messages import ModelTurn, Part, ToolCall, ToolResult

from .agent_record import note_changes
from .callbacks import note_guarded
from .model_call import AskModel, SumUp
from .ownership import Stale
from .turns import START, RunMailbox
from .works import (
    EndTurn,
    Fail,
    FailOfSubAgent,
    Finish,
    Guard,
    MakeCall,
    Open,
    Pause,
    Reconcile,
    Review,
    SubAgentTurn,
    Work,
    WorkingRun,
    Write,
    write_result,
)

if TYPE_CHECKING:
    from understudy.vocabulary.answers.output_type import CheckedOutput


ROUND_BEGAN = e.RoundBegan()


class AgentRunActor(WorkingRun):
    """One run of an agent, which its messages drive.

    Its record is the side that the rest of the system sees: the lock and the epoch there still decide between the end of the
    run and the crash of a work. All else is decided here, message by message.
    """

    __slots__ = (
        "_asks_of_doubt",
        "_calls",
        "_checked",
        "_due",
        "_executed",
        "_fault",
        "_forget",
        "_has_news",
        "_line",
        "_told",
        "_work",
        "mailbox",
        "state",
    )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.mailbox = RunMailbox()
        self._work: Work | None = None
        """The work under way; calls made together are in `_calls`."""
        self._calls: dict[str, Call] = {}
        """Calls of the round that have begun and are not over."""
        self._line: tuple[ToolCall, ...] = ()
        """Calls of the round that wait for one of the places; the next one is the first."""
        self._due: CallDeadlines | None = None
        """Until when each call of the round may take."""
        self._fault: UnderstudyError | None = None
        """Why the round cannot go on: a call would never get its seat, or its result cannot be written."""
        self._executed: dict[str, Executed] = {}
        """What came of calls of the round."""
        self._forget: Callable[[], object] | None = None
        """Undoes the tie of the calls to the cancellation of the run."""
        self._checked: CheckedOutput[object] | None = None
        """The answer of the last turn, if it had one to check."""
        self._has_news = False
        """Whether there are results that the journal does not have."""
        self._told: Sequence[ToolCall] = ()
        """Calls that are due, of which the journal knows that they begin."""
        self._asks_of_doubt = True
        """Whether the tools of calls in doubt are to be asked in this stay."""
        self.overflow = None
        self.timed_model, self.model_time = None, None
        self.state = AgentLineState(self.agent.run_spec, account=self.account)
        if self.machine is None:
            said: str | tuple[Part, ...] = self.input if isinstance(self.input, str) else tuple(self.input)
            self.state.apply(e.Accepted(self.agent.id, "", said, budget=self.options.budget))

    def tell(self, event: e.RunEvent) -> None:
        if self.journal is None:
            self.state.apply(event)
        else:
            self.journal.line.take(event, self.state.apply, self.first_event)

    # --- messages

    def take_message(self, message: object) -> None:
        work = self._work
        if message is work and work is not None:
            self._take_work(work)
        elif isinstance(message, Call):
            self._take_call(message)
        elif message is START:
            self._work, self._told, self._asks_of_doubt = None, (), True  # the work crashed, or took too long
            self._has_news = self.has_unwritten  # the result of a call that took too long
            if self.machine is not None:  # a person's answers and raised limits were fed before the run goes on
                self.state.go_on_with(self.machine)
            self._go_on()

    # --- what is due

    def _go_on(self) -> None:
        """Begin the work that is due."""
        if self.phase != "running":  # it was ended while a line was written
            return
        state = self.state
        try:
            if self._asks_of_doubt and self._is_in_doubt():
                return self._begin(Reconcile(self))
            kind = state.kind_due()
            if kind == "round":
                self.tell(ROUND_BEGAN)
                kind = "call" if state.has_open_calls else state.kind_due()
            elif kind == "open" and self.opens_at_once:
                system = self.agent.system_prompt
                self._open(e.Opened(tuple(self.options.history or ()), system if isinstance(system, str) else None))
                kind = "model"
            if self.journal is not None and (write := self._write_due(kind)) is not None:
                self._begin(write)
            elif kind == "model" and self.machine is not None:
                self._begin(self._request(self.machine))
            elif kind != "call":
                self._begin(self._work_for(kind))
            elif (call := self._call_alone()) is not None:
                self._begin(MakeCall(self, call))
            else:
                self._make_calls()
        except BaseException as error:  # of a limit or a budget, mostly
            self._begin(Fail(self, error))
        return None

    def _is_in_doubt(self) -> bool:
        """Whether tools are to be asked what became of calls; not if the run only tells its pause again."""
        self._asks_of_doubt = False
        return self.machine is not None and bool(self.machine.in_doubt) and not self.issued

    def _write_due(self, kind: str) -> Write | None:
        """Return what writes the journal before the next work begins, if there is anything to write."""
        if kind == "call":
            calls = self._calls_due()
            if calls == [*self._told]:
                return None
            for call in calls:
                # A transactional call without a result did not happen, so it is never in doubt.
                if call not in self._told and not self.agent.tools_by_name[call.name].transactional:
                    self.tell(e.CallBegan(call.id))
            return Write(self, calls)
        # Results before callbacks see them: one that hangs must not put the calls in doubt.
        return Write(self) if self._has_news or (kind == "model" and self.has_unwritten) else None

    def _begin(self, work: Work) -> None:
        if self.phase == "running":
            self._work = self.in_hand = work
            run_next_here(work)

    def _work_for(self, kind: str) -> Work:
        machine = self.machine
        if machine is None:
            return Open(self)
        match kind:
            case "finish":
                return Finish(self, self._checked)
            case "guard":
                return Guard(self, machine.unguarded())
            case "review":
                return Review(self, machine.unreviewed())
            case "ask":
                return Pause(self)
            case "fail":
                return Fail(self)
            case _:
                raise AssertionError(kind)

    def _request(self, machine: AgentRun) -> Work:
        """Make the next request, if limits and budgets allow it."""
        state = self.state
        self.tell(e.TurnBegan(machine.state.turns + 1))
        if state.context is not None:
            self._note_news()
        step = state.asked_for
        assert step is not None, "the events say that the model is due"
        if step.request.turn > self.last_turn:
            return EndTurn(self)
        return AskModel(self, step.request) if step.compaction is None else SumUp(self, step)

    # --- what came of a work

    def _take_work(self, work: Work) -> None:
        self._work = None
        with self.lock:
            if work.epoch != self.epoch:
                return  # it was given up in this very moment
            self.step_deadline = inf
            self.step_order = self.step_check = None
        try:
            if type(work) is Write:  # not isinstance, which takes long for an abstract class
                self._told, self._has_news = work.begins, False
            elif type(work) is MakeCall:
                if work.made is None:  # no seat is free: the call stands in line for one
                    return self._make_calls()
                self._take_made(*work.made)
            else:
                for event in work.events:
                    self._apply(event, work)
        except BaseException as refused:  # by the machine, which has not changed: what code of users said does not fit
            self._begin(Fail(self, refused))
        else:
            self._go_on()

    def _apply(self, event: e.RunEvent, work: Work) -> None:
        state, machine = self.state, self.machine
        match event:
            case e.TurnTaken() if machine is not None:
                spec = machine.spec
                before = refusals(machine.state) if spec.criteria or spec.output is not None else None
                self.tell(event)
                self._checked = work.checked if type(work) is AskModel else None
                refused = "" if before is None else refused_by(before, machine.state)
                self.log.write_lines(self.note_turn(event.turn, refused))
            case e.Opened():
                self._open(event)
            case e.TurnRuled():
                self.tell(event)
                self.unfed = None
                self._note_ruled(event.turn, event.ruling.by)
            case e.CallsGuarded() if machine is not None:
                calls, round_ = machine.unguarded(), machine.state.round
                self.tell(event)
                if round_ is not None:
                    note_guarded(self.log, calls, round_.results)
            case e.SummaryCame() | e.SummaryFailed():
                self.tell(event)
                self.unfed = None
                self._note_news(work.error if type(work) is SumUp else None)
            case e.Overflowed():
                self.tell(event)
                self._note_news()
                if not state.is_shorter and self.overflow is not None:
                    raise self.overflow
            case e.RunRuled(moment="on_error"):
                if self.unfed is not None:  # it is paid for, and nobody takes it any more
                    self.write_off(self.unfed)
                    self.unfed = None
                self.tell(event)
                self.told_error = False
            case _:
                self.tell(event)
        if self.answered:
            self.answered.clear()

    def _open(self, event: e.Opened) -> None:
        self.tell(event)
        self.machine = self.state.machine

    def _note_ruled(self, turn: ModelTurn, by: str) -> None:
        was_shown = self.log.is_showing
        told, dropped = self.told_of_refused(turn, by)
        self.log.note(told)
        if turn.text or was_shown:
            self.log.note(dropped)

    def _note_news(self, error: BaseException | None = None) -> None:
        """Tell what became of a long conversation."""
        context = None if self.machine is None else self.machine.state.context
        if context is not None and context.news:
            self.log.write_lines(note_changes(self.log, context, error))

    # --- the calls of a round

    def _calls_due(self) -> list[ToolCall]:
        """Return the calls that are made next."""
        calls = self.state.open_calls
        return calls[:1] if self.agent.max_parallel_calls == 1 else calls

    def _call_alone(self) -> ToolCall | None:
        """Return the next call, if no other is made beside it and a work can make it."""
        calls = self._calls_due()
        if len(calls) > 1:
            return None
        tool = self.agent.tools_by_name[calls[0].name]
        return None if tool.isolation == "caller" or isinstance(tool, SubAgent) else calls[0]

    def _take_made(self, order: ToolCallTask, executed: Executed) -> None:
        came, overlay = executed
        assert isinstance(came, ToolResult), "only a sub-agent's call pauses"
        if overlay is not None or self.journal is not None:
            with self.lock:
                self.commit_changes((executed,))
            self._has_news = self.journal is not None
        self.tell(e.ResultCame(came))
        if self.state.results:
            self.tell(e.ResultsTaken())
        self.log.note(order.finished(came))

    def _make_calls(self) -> None:
        """Begin the calls that are due, as many at once as the agent says."""
        calls = self._calls_due()
        self.doing = f"running tool {calls[0].name}" if len(calls) == 1 else f"running {len(calls)} tools"
        self.step_since = time.monotonic()
        self._executed, self._fault, self._due = {}, None, CallDeadlines()
        self._line = tuple(calls)
        if self._forget is None:
            self._forget = self.scope.on_cancel_at_once(self._give_up)
        try:
            self._fill()
        except BaseException:  # none may go on behind the back of whoever goes on with the run
            begun, self._calls, self._line = list(self._calls.values()), {}, ()
            give_up(begun, cancelled(self))
            raise

    def _new_call(self, call: ToolCall) -> Call:
        tool = self.agent.tools_by_name[call.name]
        assert self._due is not None, "a round has begun"
        deadline = self._due.of(tool, time.monotonic())
        task = ToolCallTask(self, tool, call, deadline, self.host.executors.of(tool, self.cell))
        turn = SubAgentTurn if isinstance(tool, SubAgent) else LentTurn
        return Call(task, run_next_here, self.mailbox.context.copy(), turn)

    def _fill(self) -> None:
        """Begin calls for as long as there are places for them."""
        limit = self.agent.max_parallel_calls
        while self._line and (limit is None or len(self._calls) < limit):
            call, self._line = self._line[0], self._line[1:]
            self._begin_call(self._new_call(call))

    def _begin_call(self, call: Call) -> None:
        order = call.order
        self._calls[order.call.id] = call
        self.log.note(order.call)
        if self.scope.cancelled or self.phase != "running":  # in this very moment: the calls before were given up
            call.give_up(cancelled(self))
        call.has_begun = True
        over = self._call_over if self.journal is None else partial(self._write_result, self.epoch)
        call.reply.when_done(partial(over, call))
        if call.reply.done:
            order.returned = True
            return
        try:
            call.begin()
        except BaseException as cause:  # nobody else would end it
            call.reply.fail(cause)
        if order.deadline is not None and order.deadline < self.mailbox.alarm_at:
            self.watch(call.next_look)

    def _write_result(self, epoch: int, call: Call) -> None:
        """Write the result of a call while others are under way; on the thread that ended the call."""
        if call.reply.error() is not None or len(self._calls) + len(self._line) < 2:
            self._call_over(call)
        elif call.order.tool.isolation == "caller":  # this is the caller's thread, which an interrupt may end
            run_elsewhere(partial(self._write_and_tell, epoch, call))
        else:
            self._write_and_tell(epoch, call)

    def _write_and_tell(self, epoch: int, call: Call) -> None:
        # After another error, the round is written when all calls are over.
        safely(self, self._write_early, epoch, call)
        self._call_over(call)

    def _write_early(self, epoch: int, call: Call) -> None:
        try:
            write_result(self, epoch, call.executed(), partial(self._note_early, call))
        except Stale:
            pass  # the run is over, or the agent has failed
        except UnderstudyError as fault:
            self._fault = self._fault or fault

    def _note_early(self, call: Call, result: ToolResult) -> None:
        call.told = call.order.finished(result)
        self.log.note(call.told, with_line=False)

    def _call_over(self, call: Call) -> None:
        order = call.order
        is_last = order.returned and order.thread == get_ident() and order.tool.isolation != "caller"
        if is_last and here() is not None:
            self.hear(call)  # the thread has nothing more to do
        else:
            self.post(call)

    def _take_call(self, call: Call) -> None:
        """Take what came of a call. If that ends the run, nobody waits for the others."""
        if self._calls.pop(call.order.call.id, None) is not call:
            return
        came, error = self._note_over(call), call.reply.error()
        if self.phase != "running":  # it was ended while a line was written
            return
        if isinstance(error, CircularAgentCall):
            self._fault = error
        name = call.order.call.name
        if isinstance(came, ToolResult) and came.is_error and failure_of(self.agent.run_spec, came) is not None:
            self._end_early(RunCancelled(f"{name} failed, and that ends the run"))
        elif self._fault is not None:
            what = f"{name} failed" if self._fault is error else "the result of a call cannot be written"
            self._end_early(RunCancelled(f"{what}, and that ends the run"))
        elif self._line:
            self._fill()
        if not self._calls and not self._line:
            self._end_round()

    def _end_early(self, why: UnderstudyError) -> None:
        """Wait for no more calls of the round."""
        line, self._line = self._line, ()
        for each in line:
            call = self._new_call(each)
            call.give_up(why)
            self._note_over(call)
        under_way = list(self._calls.values())
        for call in under_way:
            if not call.reply.done:  # its run ends because of that, and not the run around it because of its run
                self.delegated.pop(call.order.call.id, None)
        give_up(under_way, why)

    def _note_over(self, call: Call) -> ToolResult | Paused:
        executed = call.executed()
        came, made = executed[0], call.order.call
        self._executed[made.id] = executed
        if isinstance(came, ToolResult):
            if call.told is not None:
                self.log.write_lines([call.told])
            elif call.has_begun:
                self.log.note(call.order.finished(came))
            else:
                self.log.note(made)
                self.log.note(Finished(made, came))
        return came

    def _end_round(self) -> None:
        """Take the results of all calls that were made together, in their order."""
        executed, self._executed = self._executed, {}
        results = list(executed.values())
        if len(results) > 1:
            results = [executed[call.id] for call in self.state.open_calls if call.id in executed]
        self._has_news = self.journal is not None
        if self._fault is not None:
            return self._begin(Fail(self, self._fault))
        stop = self.delegated.stopped_by(results, self.raised) if self.delegated else None
        with self.lock:
            self._take(results if stop is None else [each for each in results if each[0].call_id != stop[0]])
        if stop is None:
            return self._go_on()
        return self._begin(FailOfSubAgent(self, stop[1]))

    def _take(self, results: Sequence[Executed]) -> None:
        self.commit_changes(results)
        for came, _ in results:
            if isinstance(came, Paused):
                self.tell(e.ChildPaused(came.call_id, came.saved, came.pauses))
        for came, _ in results:
            if isinstance(came, ToolResult):
                self.tell(e.ResultCame(came))
        if self.state.results:
            self.tell(e.ResultsTaken())

    def _untie(self) -> None:
        forget, self._forget = self._forget, None
        if forget is not None:
            forget()

    # --- time

    def time_is_up(self) -> None:
        for call in list(self._calls.values()):
            call.look()
        self.watch(min([call.next_look for call in self._calls.values()], default=inf))

    # --- the end

    def let_go_of_works(self, cancels: bool) -> None:
        self._work = None
        self._line = ()
        if self._forget is None and not self._calls:
            return
        # Else the scope gives the calls up; it does so once, and may have done it for a scope around it, before this tie was kept.
        if not (self._calls and cancels) or self.scope.cancelled:
            self._untie()
            if self._calls:
                safely(self, self._give_up)

    def _give_up(self) -> None:
        """Wait for the calls no longer; on the thread that cancels the scope of the run, or on the thread that ends the run."""
        self._untie()  # a scope that was cancelled has forgotten the tie, but those around it have not
        calls = list(self._calls.values())
        if self.phase != "running":
            self._calls = {}
        give_up(calls, cancelled(self))

    def _let_go(self, given_up: bool) -> None:
        """Keep what came of calls; those under way are not made again."""
        super()._let_go(given_up)
        if self._executed or self._calls:
            safely(self, self._keep_settled)
            self._executed = {}

    def _keep_settled(self) -> None:
        results, under_way = list(self._executed.values()), list[str]()
        for call in list(self._calls.values()):
            call_id = call.order.call.id
            if call_id in self.delegated:  # it stands as its run does, which the same cancel may have ended
                continue
            is_over = call.reply.done and not isinstance(call.reply.error(), RunCancelled)
            came = call.executed() if is_over else call.order.settled()
            if came is None:
                under_way.append(call_id)
            else:
                results.append(came)
        self._keep_finished(results, under_way)


def give_up(calls: Sequence[Call], why: UnderstudyError) -> None:
    """Wait for calls no longer."""
    for call in calls:
        call.give_up(why)
