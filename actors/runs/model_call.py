"""A call of a run's model: its turn in one, or in pieces that readers are shown as they come; or a summary of the conversation."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, cast

from understudy.actors.run_view.errors import model_time, model_timeout, safely, streamed_time
from understudy.actors.run_view.log import Retried, RunLog
from understudy.actors.run_view.shown_turn import ShownTurn
from understudy.actors.run_view.tracebacks import let_go
from understudy.errors import (
    BadReply,
    ContextOverflow,
    ProviderError,
    ProviderTimeout,
    RunTimedOut,
    UnderstudyError,
    in_words,
)
from understudy.orchestration.agent.feed_checks import fault_of_turn, fault_of_usage
from understudy.orchestration.agent.steps import CallModel
from understudy.orchestration.runs import events as e
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import Unset, WrongReturn
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.messages import NO_USAGE, ModelRequest, ModelTurn
from understudy.vocabulary.models import (
    DEFAULT_IDLE_TIMEOUT,
    Model,
    ModelName,
    StreamingModel,
    can_stream,
    guards_itself,
    pieces_returned,
    timeout_of,
)
from understudy.vocabulary.pieces import Piece

from .agent_record import AgentRunRecord
from .callbacks import CallbackDispatcher
from .ownership import Stale
from .turn_checks import about_turn, check_answer
from .works import Events, Work, WorkingRun

if TYPE_CHECKING:
    from understudy.vocabulary.answers.output_type import CheckedOutput


class TurnScope(Scope):
    """The scope of a model call that a run makes.

    Attributes:
        log: of the run.
        turn: which call it is; None for a summary of the conversation.
        is_streamed: whether its turn comes in pieces.
        partial: what came of a streamed turn that failed; None before that, and if nothing came.
    """

    # Filled by `scope_of_turn`: an `__init__` would cost every turn a call more.
    __slots__ = ("is_streamed", "log", "partial", "turn")

    log: RunLog
    turn: int | None
    is_streamed: bool
    partial: ModelTurn | None

    def tell_retry(self, attempt: int, wait: float, error: BaseException) -> None:
        if not self.cancelled:  # else the call was given up, and another one may be under way
            let_go(error)
            self.log.note(Retried(what="model", attempt=attempt, wait=wait, error=error, turn=self.turn))


def model_of(record: AgentRunRecord, model: Model | ModelName) -> Model:
    """Return the model of a run's agent; a string names one, whose client may be made now."""
    if not isinstance(model, ModelName):
        return model
    try:
        if record.agent.criteria and model.provider == "rehearsal":
            from understudy.providers import Rehearsal

            return Rehearsal(record.agent.criteria)
        return resolved_model(model)
    except UnderstudyError:
        raise
    except BaseException as error:  # the run's failure, not the agent's: another stay would not help
        raise model_failure(record, error) from error


def resolved_model(model: Model | ModelName) -> Model:
    """Return the model that a name stands for, or the model itself."""
    if isinstance(model, ModelName):
        from understudy.providers import resolve

        return resolve(model)
    return model


def usual_time(run: WorkingRun, model: Model | ModelName) -> float | None:
    """Return how many seconds a request for a whole turn may take; None for no limit."""
    if model is not run.timed_model:
        run.timed_model, run.model_time = model, model_time(run.agent)
    return run.model_time


def scope_of_turn(record: AgentRunRecord, turn: int, limit: float | None, is_in_pieces: bool) -> TurnScope:
    """Return the scope of the next call of a model, which may take `limit` seconds."""
    scope = TurnScope(None if limit is None else time.monotonic() + limit, time.monotonic, record.scope)
    scope.is_turn, scope.log, scope.turn, scope.is_streamed = True, record.log, turn, is_in_pieces
    scope.partial = None
    return scope


def ask_model(record: AgentRunRecord, epoch: int, model: Model, request: ModelRequest, scope: TurnScope) -> ModelTurn:
    """Return the model's turn; blocks.

    Args:
        record: the run's.
        epoch: the work's.
        model: the model that is asked.
        request: what it is asked.
        scope: of the call.

    Raises:
        UnderstudyError: there is no turn.
        Stale: the run is over or in other hands.
    """
    token = enter_scope(scope)
    try:
        if scope.is_streamed:
            return _StreamedTurn(record, epoch, cast(StreamingModel, model), request, scope).read()
        return checked_turn(record, model.complete(request))
    except RunTimedOut as error:
        if record.scope.remaining() == 0.0:
            raise
        late = model_timeout(record, None if scope.remaining() == 0.0 else error)
        late.partial = scope.partial
        raise late from error
    except (UnderstudyError, Stale):
        raise
    except BaseException as error:  # a model's failure is the run's, not the agent's: another stay would not help
        failure = model_failure(record, error)
        failure.partial = scope.partial
        raise failure from error
    finally:
        leave_scope(token)


def model_failure(record: AgentRunRecord, error: BaseException) -> ProviderError:
    """Make the error of a model object that failed in a way of its own."""
    model = type(record.agent.current_model).__name__
    return ProviderError(
        f"the model of agent {record.agent.id!r} failed: {in_words(error)}",
        provider=model,
        retryable=isinstance(error, (ConnectionError, TimeoutError)),
    )


def checked_turn(record: AgentRunRecord, returned: object) -> ModelTurn:
    """Return what a model object returned, if it is a turn.

    Raises:
        BadReply: it is none, or something in it has another type.
    """
    fault = fault_of_turn(returned)
    if not fault and isinstance(returned, ModelTurn):
        return returned
    model = type(record.agent.current_model).__name__
    hint = ""
    if isinstance(returned, Coroutine):
        returned.close()  # else Python warns that nobody awaited it
        hint = "; write complete as a plain function, not async def"
    raise BadReply(f"the model of agent {record.agent.id!r} ({model}) returned no turn: {fault}{hint}", provider=model)


def bad_stream(record: AgentRunRecord, fault: str, *, cut_off: bool = False) -> BadReply:
    """Make the error of a model object whose `stream` gives no turn; `fault` says what came and what was expected."""
    model = type(record.agent.current_model).__name__
    text = f"the model of agent {record.agent.id!r} ({model}) streamed no turn: {fault}"
    return BadReply(text, provider=model, retryable=cut_off)


class _StreamedTurn:
    """One stream of a model, read to its end on the thread of a work."""

    __slots__ = ("_assembler", "_epoch", "_idle", "_model", "_record", "_request", "_scope", "_shown")

    def __init__(
        self, record: AgentRunRecord, epoch: int, model: StreamingModel, request: ModelRequest, scope: TurnScope
    ) -> None:
        self._record = record
        self._epoch = epoch
        self._model = model
        self._request = request
        self._scope = scope
        self._assembler = TurnAssembler()
        self._shown = ShownTurn(request.turn)
        if request.output is not None:
            record.log.answers = record.agent.partial_output, request.output.tool
        self._idle = None if guards_itself(model) or scope.deadline is not None else DEFAULT_IDLE_TIMEOUT
        """Seconds that the watchdog waits for the next piece; None if the model or the call's own limit sees to it."""

    def read(self) -> ModelTurn:
        """Return the turn, and show its pieces as they come. What was shown of a turn that fails is taken back."""
        try:
            pieces = self._pieces()
            try:
                for piece in pieces:
                    self._take(piece)
                    if self._assembler.is_complete:
                        break  # a stream that goes on after its end must not keep the run
            finally:
                self._close(pieces)
            return self._whole()
        except BaseException as error:
            partial = self._scope.partial = self._partial()
            if isinstance(error, ProviderError) and error.partial is None:
                error.partial = partial
            self._log.take_back()
            raise

    @property
    def _log(self) -> RunLog:
        return self._record.log

    def _pieces(self) -> Iterator[Piece]:
        stream: object = self._model.stream(self._request)
        try:
            return pieces_returned(stream)
        except WrongReturn as wrong:
            raise bad_stream(self._record, str(wrong)) from None

    def _take(self, piece: Piece) -> None:
        try:
            self._assembler.add(piece)
        except (TypeError, ValueError) as error:
            raise bad_stream(self._record, str(error)) from None
        if self._assembler.is_complete:
            return  # the whole turn is paid for, so it is returned even if the run was taken over by now
        if self._idle is None:
            self._record.refuse_stale(self._epoch)
        else:
            self._record.renew_step(self._epoch, time.monotonic() + self._idle + GRACE)
        if self._shown.add(piece):
            if self._shown.attempt:
                self._log.wake()
            else:
                self._log.show(self._shown)

    def _close(self, pieces: Iterator[Piece]) -> None:
        close = getattr(pieces, "close", None)
        if callable(close):  # what it raises must not hide the turn, or the error
            safely(self._record, close)

    def _partial(self) -> ModelTurn | None:
        """Return what came of the turn, for its tokens are paid for; None if nothing came."""
        partial = self._assembler.partial()
        if fault_of_usage(partial.usage):
            partial = replace(partial, usage=NO_USAGE)
        return partial if partial.parts or partial.usage != NO_USAGE else None

    def _whole(self) -> ModelTurn:
        try:
            turn = self._assembler.turn()
        except ValueError as error:
            raise bad_stream(self._record, str(error), cut_off=not self._assembler.is_complete) from None
        return checked_turn(self._record, turn)


def first_deadline(scope: TurnScope, model: object) -> float:
    """Return until when the first piece, or the whole turn, must be there: the watchdog looks after it."""
    if scope.deadline is not None:
        return scope.deadline + GRACE
    if not scope.is_streamed or guards_itself(model):
        return inf
    return time.monotonic() + 2 * DEFAULT_IDLE_TIMEOUT + GRACE


SUMMING = "summing up the conversation"
QUESTION = ("summary",)
"""The record keeps under this question that a call was late; the next work reads it."""


def summary(
    record: AgentRunRecord, epoch: int, model: Model, request: ModelRequest, *, is_own: bool
) -> ModelTurn | BaseException:
    """Ask for a summary, and return it, or why there is none. Raises `Stale` to a work without the run.

    Args:
        record: the run's.
        epoch: the work's.
        model: the model that answers.
        request: the request.
        is_own: whether it is the agent's own model, whose calls are charged at the price of the agent.
    """
    late = record.answered.get(QUESTION)
    if late is not None:
        return ProviderTimeout(f"{record.agent.id!r}: {late}")
    if record.unfed is not None:
        return record.unfed
    own = record.agent.model_timeout
    try:
        limit = timeout_of(model) if isinstance(own, Unset) else own
    except BaseException as error:  # of a property of the model object
        return error
    scope = TurnScope(None if limit is None else time.monotonic() + limit, time.monotonic, record.scope)
    scope.is_turn, scope.log, scope.turn, scope.is_streamed, scope.partial = is_own, record.log, None, False, None
    deadline = inf if scope.deadline is None else scope.deadline + GRACE
    record.begin_step(epoch, SUMMING, deadline, None, QUESTION)
    try:
        return record.keep_summary(epoch, _asked(record, model, request, scope))
    except Stale:
        raise
    except BaseException as error:
        record.cut_off(scope, error)
        if record.scope.cancelled or record.scope.remaining() == 0.0:
            raise
        return error


def _asked(record: AgentRunRecord, model: Model, request: ModelRequest, scope: Scope) -> ModelTurn:
    token = enter_scope(scope)
    try:
        return checked_turn(record, model.complete(request))
    finally:
        leave_scope(token)


class AskModel(Work):
    """A model call, and all that is found about its turn: one work, for a hop between them has no use."""

    __slots__ = ("checked", "request")

    def __init__(self, run: WorkingRun, request: ModelRequest) -> None:
        super().__init__(run)
        self.request = request
        self.checked: CheckedOutput[object] | None = None

    def do(self) -> Events:
        run, request, epoch = self.run, self.request, self.epoch
        moments = CallbackDispatcher(run, epoch) if run.agent.callbacks else None
        if moments is not None and run.unfed is None:
            ruling = moments.ask("before_model_call", request.turn, request)
            if ruling is not None:
                return (e.RunRuled("before_model_call", ruling),)
        own, turn = run.agent.current_model, run.unfed
        model = model_of(run, own) if turn is None else None
        try:
            is_read = run.streams or run.log.has_listeners
            in_pieces = is_read and can_stream(model) and not run.holds_turns
            limit = streamed_time(run.agent) if in_pieces else usual_time(run, own)
            scope = scope_of_turn(run, request.turn, limit, in_pieces)
            deadline = first_deadline(scope, model)
        except BaseException as error:  # of a property of the model object
            raise model_failure(run, error) from error
        run.begin_step(epoch, f"waiting for the model, turn {request.turn}", deadline)
        run.is_streaming = in_pieces
        run.log.note(request.turn)
        if model is not None:
            try:
                turn = run.keep(ask_model(run, epoch, model, request, scope))
            except BaseException as error:
                run.cut_off(scope, error, scope.partial)
                if isinstance(error, ContextOverflow) and run.machine is not None and run.machine.state.context:
                    run.overflow = error
                    return (e.Overflowed(error.tokens, error.limit),)
                raise
        assert turn is not None
        if moments is not None:
            ruling = moments.ruling_after(turn)
            if ruling is not None:
                return (e.TurnRuled(turn, ruling),)
        about = about_turn(run, epoch, turn)
        taken = e.TurnTaken(turn, **about)
        if run.machine is not None and run.machine.spec.output is not None:
            self.checked = check_answer(run, epoch, turn, about)
            if self.checked is not None:
                taken = replace(taken, output_problem=self.checked.problem)
        # A callback may have changed the turn, so the machine checks it again.
        return (taken if moments is None or taken.problems is not None else replace(taken, problems={}),)


class SumUp(Work):
    """Ask for a summary of a long conversation; without one the run goes on too."""

    __slots__ = ("error", "step")

    def __init__(self, run: WorkingRun, step: CallModel) -> None:
        super().__init__(run)
        self.step = step
        self.error: BaseException | None = None
        """Why there is no summary."""

    def do(self) -> Events:
        run, step = self.run, self.step
        other = None if step.compaction is None else step.compaction.other_model
        model = model_of(run, run.agent.current_model) if other is None else resolved_model(other)
        answer = summary(run, self.epoch, model, step.request, is_own=other is None)
        if isinstance(answer, BaseException):
            let_go(answer)
            self.error = answer
            return (e.SummaryFailed(in_words(answer)),)
        return (e.SummaryCame(answer),)
