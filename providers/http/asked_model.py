"""Asks one of several models: its failures are `ProviderError`s that have the tokens, and its time is its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from understudy.errors import BadReply, ProviderError
from understudy.orchestration.agent.turn_checks import fault_of_usage
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.wire.endings import with_partial
from understudy.vocabulary.checks import WrongReturn, found_instead
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

from .own_time import OwnTime
from .streamed_call import Begun, until_shown

if TYPE_CHECKING:
    from understudy.vocabulary.context.account import Account


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
