"""One streamed call: attempts until a piece can be shown, then the rest of that attempt."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from understudy.errors import ProviderError
from understudy.providers.wire.blocks import held_back
from understudy.providers.wire.endings import unfinished, usage_of, with_partial, with_usage_of
from understudy.providers.wire.stream_decoder import StreamDecoder
from understudy.vocabulary.context.scope import account_of_turn
from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.pieces import Piece, TurnEnd, UsagePiece, is_visible, pieces_of

from .attempt import Outgoing, Reply, headers_of, not_json
from .connections import Connections
from .credentials import Secret
from .hidden_turns import clean_error, without_key
from .limits.limiter import Call
from .stream_reader import StreamReader
from .streamed_attempt import StreamedAttempt

if TYPE_CHECKING:
    import httpx

    from understudy.vocabulary.context.account import Account

Begun = tuple[Sequence[Piece], Generator[Piece]]
"""The pieces of an attempt up to the first one that readers see, and the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedCall:
    """What the attempts of one call share.

    Attributes:
        limited: the place of one attempt among the calls with this key.
        timeout: seconds of one attempt; None for as long as the call may take.
        idle_timeout: as of `StreamedAttempt`.
        until: when the call must end, on the clock.
        auth: the headers with the key.
        decoder: makes a decoder.
        turn_in: reads an answer that came whole; raises the error that it tells.
    """

    outgoing: Outgoing
    connections: Connections
    limited: Callable[[Secret], Call]
    clock: Callable[[], float]
    timeout: float | None
    idle_timeout: float | None
    until: float
    max_bytes: int
    auth: Callable[[Secret], Mapping[str, str]]
    decoder: Callable[[], StreamDecoder]
    turn_in: Callable[[Reply, Secret], ModelTurn]

    def begun(self, key: Secret) -> Begun:
        """Make an attempt, and read it until the first piece that readers see. Raises as `HttpModel.stream` does."""
        return until_shown(self._attempt(key))

    def _attempt(self, key: Secret) -> Generator[Piece]:
        outgoing = self.outgoing
        attempt = StreamedAttempt(
            outgoing,
            timeout=self.timeout or inf,
            idle_timeout=self.idle_timeout,
            max_bytes=self.max_bytes,
            clock=self.clock,
            until=self.until,
            hide=key.out_of_body,
        )
        reader = StreamReader(self.decoder(), provider=outgoing.provider, longest=self.max_bytes, hide=key.out_of_body)
        account = account_of_turn()
        try:
            with self.limited(key) as call:
                refusal = account.refusal() if call.waited and account is not None else None
                if refusal is not None:
                    raise refusal
                last, turn = yield from self._read(attempt, reader, key, account, call)
                call.usage = turn.usage
                if account is not None:  # before the slot goes to the next call, which must see the spending
                    account.pay_ahead(turn.usage)
            yield from last
        except ProviderError as error:
            error.provider = error.provider or outgoing.provider
            error.request_id = error.request_id or attempt.request_id
            error.partial = error.partial or reader.partial()
            clean_error(error, key)
            raise

    def _read(
        self, attempt: StreamedAttempt, reader: StreamReader, key: Secret, account: Account | None, call: Call
    ) -> Generator[Piece, None, tuple[Sequence[Piece], ModelTurn]]:
        """Yield the pieces of an answer; return those that are left once its connection is free, and the turn."""
        try:
            with attempt.answer(self.connections, lambda: self.auth(key)) as response:
                call.headers = headers_of(response)
                if not _is_stream(response):
                    turn = replace(self.turn_in(attempt.whole(), key), request_id=key.out_of(attempt.request_id))
                    return pieces_of(turn), turn
                end = yield from self._streamed(attempt, reader, response, key)
                return (end,), reader.turn()
        except ProviderError:
            raise
        except BaseException:  # given up: what is known of its tokens is paid for
            partial = reader.partial()
            if account is not None and partial is not None:
                account.pay_ahead(partial.usage)
            raise

    def _streamed(
        self, attempt: StreamedAttempt, reader: StreamReader, response: httpx.Response, key: Secret
    ) -> Generator[Piece, None, TurnEnd]:
        try:
            for chunk in _until_lost(attempt.chunks(), reader):
                yield from reader.feed(chunk)
                if reader.is_over:
                    attempt.drain()
                    break
            end = yield from reader.finish()
            turn = None if end is None else reader.turn()
        except ValueError as error:
            answer = Reply(response.status_code, dict(response.headers), reader.last)
            raise not_json(self.outgoing, answer, str(error)) from None
        if end is None or turn is None:
            attempt.cut_off()
        blocked = None if turn.finish_reason != "blocked" else held_back(without_key(turn, key), self.outgoing.provider)
        if blocked is not None:
            raise blocked
        if turn.finish_reason == "other":
            raise unfinished(without_key(turn, key), self.outgoing.provider)
        return replace(end, request_id=key.out_of(attempt.request_id)) if attempt.request_id else end


def _until_lost(chunks: Generator[bytes], reader: StreamReader) -> Generator[bytes]:
    """Yield the body as it comes; if it is lost behind the end of the turn, as if it had ended there."""
    import httpx

    try:
        yield from chunks
    except (ProviderError, httpx.HTTPError):
        if not reader.has_turn:
            raise


def _is_stream(response: httpx.Response) -> bool:
    """Whether the body is a stream of events; an error is not, and some servers answer in one piece all the same."""
    kind = response.headers.get("content-type", "").lower()
    return 200 <= response.status_code < 300 and not kind.startswith("application/json")


def until_shown(pieces: Generator[Piece]) -> Begun:
    """Read a stream until the first piece that readers see."""
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if is_visible(piece):
            break
    return held, pieces


def shown(begun: Begun, failed: Sequence[ModelTurn], *, is_paid: bool = False) -> Generator[Piece]:
    """Yield the pieces of a call, with the tokens of its failed attempts in each count.

    Args:
        begun: the call.
        failed: the partial turns of its failed attempts.
        is_paid: whether these were charged when they failed. If not, they are charged when the call is given up.
    """
    held, rest = begun
    account = None if is_paid else account_of_turn()
    with closing(rest):
        try:
            pieces = chain(held, rest)
            yield from (_with_usage(piece, failed) for piece in pieces) if failed else pieces
        except ProviderError as error:
            if not failed or error.partial is None:
                raise
            whole = with_usage_of([*failed, error.partial], error.partial)
            raise with_partial(error, whole) from error.__cause__
        except BaseException:
            if account is not None and failed:
                account.pay_ahead(usage_of(failed))
            raise


def _with_usage(piece: Piece, failed: Sequence[ModelTurn]) -> Piece:
    match piece:
        case UsagePiece() | TurnEnd() if failed:
            return replace(piece, usage=usage_of(failed) + piece.usage)
        case _:
            return piece
