"""Asks one of several models: its failures are `ProviderError`s that have the tokens, and its time is its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from understudy.errors import BadReply, ProviderError, ProviderTimeout, RunTimedOut
from understudy.orchestration.agent.feed_checks import fault_of_usage
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.wire.endings import with_partial
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.scope import current_scope, enter_scope, leave_scope
from understudy.vocabulary.messages import NO_USAGE, ModelRequest, ModelTurn, Usage
from understudy.vocabulary.models import (
    Model,
    StreamingModel,
    can_stream,
    name_of,
    pieces_returned,
    streamed_timeout_of,
    timeout_of,
)
from understudy.vocabulary.pieces import Piece, TurnEnd, pieces_of

from .streamed_call import Begun, until_shown

if TYPE_CHECKING:
    from understudy.vocabulary.context.account import Account


_END = object()


class OwnTime:
    """What a model may take of the present call, from now on; for one thread at a time.

    Args:
        model: the model, for the error.
        seconds: the model's time; None for all the time of the run. Outside of runs a client keeps its limit itself.
    """

    def __init__(self, model: Model, seconds: float | None) -> None:
        scope = current_scope()
        self._model = model
        self._seconds = seconds
        self._whole = scope
        self._part = None if scope is None or seconds is None else scope.part(seconds)

    @contextmanager
    def limits(self) -> Generator[None]:
        """Limit what is done inside; the model's time is the model's failure, and not the run's.

        Raises:
            ProviderTimeout: the model's time passed, and the run has some left.
        """
        part, whole = self._part, self._whole
        if part is None or whole is None:
            yield
            return
        token = enter_scope(part)
        try:
            yield
        except RunTimedOut as error:
            if whole.is_over or part.deadline == whole.deadline:
                raise
            raise ProviderTimeout(
                f"{name_of(self._model)} did not finish its answer within {self._seconds:g} s (model_timeout)",
                retryable=True,
            ) from error
        finally:
            leave_scope(token)

    def limited(self, pieces: Iterator[Piece]) -> Generator[Piece]:
        """Yield the pieces, and limit the waits for them; raises as `limits` does.

        The code that gets a piece runs outside of the limit, in a scope of its own.
        """
        if self._part is None:
            yield from pieces
            return
        while True:
            with self.limits():
                piece = next(pieces, _END)  # None may be what a wrong stream yields
            if piece is _END:
                return
            yield cast(Piece, piece)


def turn_of(model: Model, request: ModelRequest) -> ModelTurn:
    """Return the model's turn; raises BadReply if it returns something else."""
    with OwnTime(model, timeout_of(model)).limits():
        turn: object = model.complete(request)
    if not isinstance(turn, ModelTurn):
        raise _no_turn(model, f"returned no turn: got {found_instead(turn)}, expected a ModelTurn")
    return turn


def begun_by(model: Model, request: ModelRequest) -> Begun:
    """Ask for a turn, and read it until the first piece that readers see."""
    return until_shown(_pieces(model, request))


def _pieces(model: Model, request: ModelRequest) -> Generator[Piece]:
    if not can_stream(model):
        yield from pieces_of(turn_of(model, request))
        return
    own = OwnTime(model, streamed_timeout_of(model))
    with own.limits():
        given = _stream_of(cast(StreamingModel, model), request)
    seen: list[Piece] = []
    try:
        for piece in own.limited(given):
            seen.append(piece)
            yield piece
        if not any(isinstance(piece, TurnEnd) for piece in seen):
            raise _without_end(model, seen)
    except ProviderError as error:
        partial = _partial_of(seen) if error.partial is None else None
        if partial is None:
            raise
        raise with_partial(error, partial) from error.__cause__
    except (ConnectionError, TimeoutError) as error:
        raise as_provider_error(model, error, _partial_of(seen)) from error
    finally:
        close = getattr(given, "close", None)
        if callable(close):
            close()


def _stream_of(model: StreamingModel, request: ModelRequest) -> Iterator[Piece]:
    stream: object = model.stream(request)
    try:
        return pieces_returned(stream)
    except WrongReturn as wrong:
        raise _no_turn(model, f"streamed no turn: {wrong}") from None


def _without_end(model: Model, pieces: Sequence[Piece]) -> BadReply:
    """Make the error of a stream without its last piece: it was cut off, and may be asked for again, if no piece is wrong."""
    assembler = TurnAssembler()
    try:
        for piece in pieces:
            assembler.add(piece)
    except (TypeError, ValueError) as wrong:
        return _no_turn(model, f"streamed no turn: {wrong}")
    return _no_turn(model, "streamed no turn: the turn has no end: a TurnEnd must be the last piece", cut_off=True)


def _partial_of(pieces: Sequence[Piece]) -> ModelTurn | None:
    """Return what came of a turn, for its tokens are paid for; None if nothing came."""
    assembler = TurnAssembler()
    try:
        for piece in pieces:
            assembler.add(piece)
    except (TypeError, ValueError):  # what came before a wrong piece counts
        pass
    partial = assembler.partial()
    if fault_of_usage(partial.usage):
        return None
    return partial if partial.parts or partial.usage != NO_USAGE else None


def _no_turn(model: Model, fault: str, *, cut_off: bool = False) -> BadReply:
    text = f"{name_of(model)}, a model of a FallbackModel, {fault}"
    return BadReply(text, provider=type(model).__name__, retryable=cut_off)


def spent_until(error: ProviderError, account: Account | None, before: Usage | None) -> ModelTurn | None:
    """Return the turn that a model has spent tokens on until its error, also if the error tells none; None if there is none.

    Args:
        error: the model's error.
        account: the account of the turn, if there is one.
        before: what was prepaid when the model was asked.
    """
    if error.partial is not None or account is None:
        return error.partial
    prepaid = account.prepaid_since(before)  # by a model that asks others, and ran out of its time
    return ModelTurn((), usage=prepaid) if prepaid.total_tokens else None


def as_provider_error(model: Model, error: Exception, partial: ModelTurn | None = None) -> ProviderError:
    """Make the error of a model object that could not be reached; it may be tried again."""
    made = ProviderError(f"{name_of(model)}: {type(error).__name__}: {error}", retryable=True, partial=partial)
    made.__cause__ = error
    return made
