"""A model whose calls are recorded on a tape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, cast

from understudy.errors import BadReply, RunCancelled, RunTimedOut
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.vocabulary.messages import ModelRequest, ModelTurn, Settings
from understudy.vocabulary.models import (
    Model,
    Renewable,
    StreamingModel,
    can_stream,
    check_settings,
    guards_itself,
    streamed_timeout_of,
    timeout_of,
)
from understudy.vocabulary.pieces import Piece

from .cuts import Cut, Cutting


class Keep(Protocol):
    """Records a request, the name of the model, its answer, and how a streamed answer came in pieces."""

    def __call__(
        self, request: ModelRequest, model: str, answer: ModelTurn | Exception, cuts: Sequence[Cut] = (), /
    ) -> None: ...


class RecordedModel:
    """A model whose calls are recorded on a tape. It has `stream` if the model has it.

    Args:
        name: the model's name for people.
        keep: records a call.
        clock: times the pieces of a stream, in seconds.
    """

    stream: Callable[[ModelRequest], Iterator[Piece]]
    """Yields the pieces of the model's turn."""
    idle_timeout: object
    """As the model's own: it looks after silence itself if it has one."""

    def __init__(self, model: Model, name: str, keep: Keep, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._name = name
        self._keep = keep
        self._clock = clock
        # Prices and the provider's features are looked up by these.
        self.provider, _, self.model = name.partition(":")
        self.model_timeout = timeout_of(model)
        if can_stream(model):
            self.stream = self._stream
            self.streamed_timeout = streamed_timeout_of(model)
            if guards_itself(model):
                self.idle_timeout = getattr(model, "idle_timeout", None)

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Call the model; return its turn or raise its error."""
        try:
            turn = self._model.complete(request)
        except (RunCancelled, RunTimedOut):
            raise
        except Exception as error:
            self._keep(request, self._name, error)
            raise
        self._keep(request, self._name, turn)
        return turn

    def _stream(self, request: ModelRequest) -> Iterator[Piece]:
        cutting = Cutting(self._clock())
        try:
            given: object = cast("StreamingModel", self._model).stream(request)
        except (RunCancelled, RunTimedOut):
            raise
        except Exception as error:
            self._keep(request, self._name, error)
            raise
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            return cast("Iterator[Piece]", given)  # the caller refuses it
        return self._recorded(request, cast("Iterable[Piece]", given), cutting)

    def _recorded(self, request: ModelRequest, given: Iterable[Piece], cutting: Cutting) -> Iterator[Piece]:
        """Yield the pieces. The call is recorded when its end comes: nobody reads on behind it."""
        assembler, pieces = TurnAssembler(), iter(given)
        try:
            for piece in pieces:
                turn = _turn_with(assembler, piece)
                cutting.note(piece, self._clock())
                if turn is not None:
                    self._keep(request, self._name, turn, cutting.cuts())
                    yield piece
                    return
                yield piece
            raise BadReply("the model's stream has no end: a TurnEnd must be the last piece", retryable=True)
        except (RunCancelled, RunTimedOut):
            raise
        except Exception as error:
            self._keep(request, self._name, error)
            raise
        finally:
            close = getattr(pieces, "close", None)
            if callable(close):
                close()

    def check_settings(self, settings: Settings) -> None:
        """Let the model refuse settings, as it does without a recording."""
        check_settings(self._model, settings)

    def renew(self) -> None:
        """Renew the model, if it has `renew`."""
        if isinstance(self._model, Renewable):
            self._model.renew()

    def __repr__(self) -> str:
        return f"RecordedModel({self._model!r})"


def _turn_with(assembler: TurnAssembler, piece: Piece) -> ModelTurn | None:
    """Add a piece, and return the turn if it is whole.

    Raises:
        BadReply: it is no piece, or no turn can be put together.
    """
    try:
        assembler.add(piece)
        return assembler.turn() if assembler.is_complete else None
    except (TypeError, ValueError) as error:
        raise BadReply(f"the model's stream is no turn: {error}") from None
