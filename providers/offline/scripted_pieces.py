"""A turn of a `ScriptedModel` that comes in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.pieces import Piece, TextPiece, TurnEnd

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
