"""A call of a run's model: its turn in one, or in pieces that readers are shown as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, cast

from understudy.actors.run_view.errors import bad_stream, checked_turn, model_failure, model_timeout, safely
from understudy.actors.run_view.log import RunLog
from understudy.actors.run_view.shown_turn import ShownTurn
from understudy.actors.runs.ownership import Stale
from understudy.errors import ProviderError, RunTimedOut, UnderstudyError
from understudy.orchestration.agent.feed_checks import fault_of_usage
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import WrongReturn
from understudy.vocabulary.context.scope import enter_scope, leave_scope
from understudy.vocabulary.messages import NO_USAGE, ModelRequest, ModelTurn
from understudy.vocabulary.models import (
    DEFAULT_IDLE_TIMEOUT,
    Model,
    ModelName,
    StreamingModel,
    can_stream,
    guards_itself,
    pieces_returned,
)
from understudy.vocabulary.pieces import Piece

from .turn_scope import TurnScope

if TYPE_CHECKING:
    from understudy.actors.runs.agent_record import AgentRunRecord


def is_streamed(record: AgentRunRecord, model: object) -> bool:
    """Whether the next turn is to be shown while it is written: somebody may read it, and the model can do it."""
    is_read = record.streams or record.log.has_listeners
    return is_read and can_stream(model) and not record.holds_turns


def model_of(record: AgentRunRecord) -> Model:
    """Return the model of a run's agent; a string names one, whose client may be made now."""
    model = record.agent.current_model
    try:
        if isinstance(model, ModelName):
            from understudy.providers import Rehearsal

            if record.agent.criteria and model.provider == "rehearsal":
                return Rehearsal(record.agent.criteria)
        return resolved_model(model)
    except UnderstudyError:
        raise
    except BaseException as error:  # the run's failure, not the agent's: another driver would not help
        raise model_failure(record, error) from error


def resolved_model(model: Model | ModelName) -> Model:
    """Return the model that a name stands for, or the model itself."""
    if isinstance(model, ModelName):
        from understudy.providers import resolve

        return resolve(model)
    return model


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
        epoch: the driver's.
        model: the model that is asked.
        request: what it is asked.
        scope: of the call.

    Raises:
        UnderstudyError: there is no turn.
        Stale: another driver has the run, or it is over.
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
    except BaseException as error:  # a model's failure is the run's, not the agent's: another driver would not help
        failure = model_failure(record, error)
        failure.partial = scope.partial
        raise failure from error
    finally:
        leave_scope(token)


class _StreamedTurn:
    """One stream of a model, read to its end on the driver's thread."""

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
            return  # the whole turn is paid for, so it is returned even if another driver has the run by now
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
