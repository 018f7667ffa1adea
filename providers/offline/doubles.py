"""Models made of a function or a list of turns: for tests, for machines driven by hand, and for in-process models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from understudy.errors import ContextOverflow, ProviderError
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.vocabulary.checks import checked_whole
from understudy.vocabulary.messages import ModelRequest, ModelTurn, says
from understudy.vocabulary.pieces import Piece, TextPiece, TurnEnd, pieces_of
from understudy.vocabulary.runs.token_estimates import request_tokens

_PIECES = get_args(Piece)


class ScriptedPieces:
    """The pieces of a turn, in their order; an exception among them is raised when its place comes."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: tuple[str | Piece | Exception, ...]) -> None:
        for piece in pieces:
            if not isinstance(piece, (str, Exception, *_PIECES)):
                raise TypeError(f"pieces takes texts, pieces and exceptions, got {piece!r}")
        made = [TextPiece(piece) if isinstance(piece, str) else piece for piece in pieces]
        fails = any(isinstance(piece, Exception) for piece in made)
        if not fails and not (made and isinstance(made[-1], TurnEnd)):
            made.append(TurnEnd())
        self._pieces = tuple(made)
        if not fails:
            self.turn()  # a turn that cannot be put together is a mistake of the script

    def __iter__(self) -> Iterator[Piece]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def turn(self) -> ModelTurn:
        """Return the turn as a whole."""
        assembler = TurnAssembler()
        for piece in self:
            assembler.add(piece)
        return assembler.turn()

    def __repr__(self) -> str:
        return f"pieces({', '.join(map(repr, self._pieces))})"


def pieces(*given: str | Piece | Exception) -> ScriptedPieces:
    """Make a turn for a `ScriptedModel` that comes in these pieces, for tests of code that reads a stream.

    Args:
        given: texts; pieces such as `us.CallPiece`; an exception that is raised in the middle of the turn. Without an
            exception the end of the turn is added, if the last piece is none.

    Raises:
        TypeError: it is nothing of these.
        ValueError: a turn cannot be put together of them.
    """
    return ScriptedPieces(given)


def _checked_window(window: int | None) -> int | None:
    return None if window is None else checked_whole("context_window", window, 1)


def _refuse_overlong(request: ModelRequest, window: int | None) -> None:
    if window is not None and (tokens := request_tokens(request)) > window:
        raise ContextOverflow(
            f"the request has about {tokens:,} tokens, and the model takes {window:,}", tokens=tokens, limit=window
        )


class FunctionModel:
    """A model that calls a function with each request; the function returns a turn made by `says` or `calls`, or a text.

    The function runs on the run's own thread, for many runs at once. Its exception ends the run: a `ProviderError`
    unchanged, any other as a failure.

    Args:
        function: makes the turn.
        context_window: tokens that a request may have, four characters counted as one; a longer one is refused with
            `ContextOverflow`, and the function is not called. None for any number.
    """

    def __init__(
        self, function: Callable[[ModelRequest], ModelTurn | str], *, context_window: int | None = None
    ) -> None:
        if not callable(function):
            raise TypeError(f"FunctionModel takes a function of the request, got {function!r}")
        self._function = function
        self.context_window = _checked_window(context_window)

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the function's turn for `request`.

        Raises:
            ContextOverflow: the request is longer than the context window.
        """
        _refuse_overlong(request, self.context_window)
        turn = self._function(request)
        if isinstance(turn, str):
            return says(turn)
        if not isinstance(turn, ModelTurn):
            raise TypeError(
                f"the function of a FunctionModel must return a ModelTurn (says, calls) or a text, got {turn!r}"
            )
        return turn

    def __repr__(self) -> str:
        return f"FunctionModel({getattr(self._function, '__name__', self._function)!r})"


class ScriptedModel:
    """A model that returns given turns in order, keeps the requests it got, and counts the turns that are left.

    A script with a turn of `understudy.testing.pieces` streams; a turn that is given whole comes in one piece of each part.
    Safe to share between threads; runs at the same time get the turns in the order of their requests.

    Args:
        turns: the turns; an exception among them is raised when its turn comes.
        context_window: tokens that a request may have, as for `FunctionModel`; a refused one takes no turn.
    """

    stream: Callable[[ModelRequest], Iterator[Piece]]
    """Yields the pieces of the next turn. Only a script with pieces has it: others are asked for whole turns."""

    def __init__(
        self, turns: Iterable[ModelTurn | ScriptedPieces | Exception], *, context_window: int | None = None
    ) -> None:
        if isinstance(turns, str) or not isinstance(turns, Iterable):
            raise TypeError(f"a script is a list of turns, such as [says(…)], got {turns!r}")
        self._turns = list(turns)
        for line in self._turns:
            if not isinstance(line, (ModelTurn, ScriptedPieces, Exception)):
                raise TypeError(f"a script holds turns (says, calls, pieces) and exceptions, got {line!r}")
        if any(isinstance(line, ScriptedPieces) for line in self._turns):
            self.stream = self._stream
        self.context_window = _checked_window(context_window)
        self._lock = threading.Lock()
        """Guards the requests, and with them the position in the script."""
        self.requests: list[ModelRequest] = []
        """All that took a turn."""

    @property
    def left(self) -> int:
        """Number of turns that no request has taken yet; after a test it shows whether the model was asked often enough."""
        with self._lock:
            return max(0, len(self._turns) - len(self.requests))

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the next turn.

        Raises:
            ProviderError: no turn is left.
            ContextOverflow: the request is longer than the context window.
        """
        line = self._next(request)
        return line.turn() if isinstance(line, ScriptedPieces) else line

    def _stream(self, request: ModelRequest) -> Iterator[Piece]:
        line = self._next(request)
        return iter(line if isinstance(line, ScriptedPieces) else pieces_of(line))

    def _next(self, request: ModelRequest) -> ModelTurn | ScriptedPieces:
        _refuse_overlong(request, self.context_window)
        with self._lock:
            position = len(self.requests)
            self.requests.append(request)
        if position >= len(self._turns):
            turns = "1 turn" if len(self._turns) == 1 else f"{len(self._turns)} turns"
            raise ProviderError(f"the script has {turns} and was asked for turn {position + 1}", provider="scripted")
        line = self._turns[position]
        if isinstance(line, Exception):
            raise line
        return line

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._turns)} turns)"
