"""Reads the body of one streamed answer: bytes in, pieces out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.wire.json_values import as_object
from understudy.providers.wire.server_events import EventSplitter, ServerEvent
from understudy.providers.wire.stream_decoder import StreamDecoder
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonObject, ModelTurn
from understudy.vocabulary.pieces import Piece, TurnEnd

from .errors import streamed_failure

DONE = b"[DONE]"
"""OpenAI API, Chat completions, Streaming: the last event."""


class StreamReader:
    """The body of one answer.

    Args:
        decoder: a new one of the API.
        provider: named in errors.
        longest: bytes of the longest event.
        hide: takes the key out of an event before an error quotes it.
    """

    def __init__(
        self, decoder: StreamDecoder, *, provider: str, longest: int, hide: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._decoder = decoder
        self._provider = provider
        self._hide = hide
        self._splitter = EventSplitter(longest)
        self._assembler = TurnAssembler()
        self.last = b""
        """The data of the latest event, for errors; the key is taken out."""

    @property
    def is_over(self) -> bool:
        """Whether nothing that follows counts."""
        return self._decoder.is_over

    @property
    def has_turn(self) -> bool:
        """Whether the turn is complete, and only counts of tokens may follow."""
        return self._decoder.has_turn

    def feed(self, chunk: bytes) -> Generator[Piece]:
        """Yield the pieces in the next bytes.

        Raises:
            ProviderError: the stream tells an error.
            ValueError: an event is not JSON, not of the API's format, or too long; `last` is the event.
        """
        for event in self._splitter.feed(chunk):
            if self._decoder.is_over:
                return
            yield from self._take(event)

    def finish(self) -> Generator[Piece, None, TurnEnd | None]:
        """Yield the pieces that are known at the end of the body, without the `TurnEnd`; return that.

        It is None if the body ended before the turn did. Raises as `feed` does.
        """
        for event in () if self.is_over else self._splitter.end():
            try:
                pieces = self._take(event)
            except ValueError:
                return None  # the body was cut off inside of this event
            yield from pieces
        if self._decoder.end(self._assembler.parts()) is None:
            return None
        yield from self._added(self._decoder.rest())
        end = self._decoder.end(self._assembler.parts())
        if end is not None:
            self._assembler.add(end)
        return end

    def turn(self) -> ModelTurn:
        """Return the whole turn, after `finish` has returned its end; raises ValueError if a call has no name."""
        return self._assembler.turn()

    def partial(self) -> ModelTurn | None:
        """Return the turn as far as it came; None if nothing came."""
        turn = self._assembler.partial(self._decoder.dialect)
        return turn if turn.parts or turn.usage.total_tokens is not None else None

    def _take(self, event: ServerEvent) -> Sequence[Piece]:
        name, data = event
        if data.startswith(b"[") and data.strip() == DONE:
            self._decoder.done()
            return ()
        try:
            # In any range: a model may write a number that is too large into its arguments.
            value = as_object(parse(data, in_range=False), "the event")
            error = streamed_failure(value, data, name, provider=self._provider, hide=self._hide)
            if error is None:
                return self._added(self._decoder.take(value, name))
        except ValueError:
            self.last = self._hide(data)
            raise
        self._add_beside(value)
        raise error

    def _added(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        for piece in pieces:
            self._assembler.add(piece)
        return pieces

    def _add_beside(self, value: JsonObject) -> None:
        """Keep what stands beside an error for the partial turn: OpenRouter puts the error into the last chunk."""
        with suppress(ValueError):
            for piece in self._decoder.take(value, ""):
                self._assembler.add(piece)
