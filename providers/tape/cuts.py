"""How a streamed turn was cut into pieces: what a tape has of it, and the pieces of a replay.

Only lengths and times are kept, for a secret may be cut in two: [0.25, 1, 12] says that 0.25 s after the piece before it
came 12 characters of the turn's second part. The end of the turn stands behind its last part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from understudy.providers.wire.json_values import WrongShape, is_array, is_object
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelTurn, Part, ReasoningPart, TextPart, ToolCall
from understudy.vocabulary.pieces import (
    CallPiece,
    Piece,
    ReasoningPiece,
    TextPiece,
    TurnEnd,
    UsagePiece,
    WholePiece,
    pieces_of,
)

KINDS = (ReasoningPiece, TextPiece, WholePiece, CallPiece)
"""In the order in which parts of one number stand."""


class Cut(NamedTuple):
    """A piece of a turn, by its place."""

    wait: float
    """Seconds since the piece before it, or since the call began."""
    part: int
    """The position of its part in the turn; the number of parts for the end."""
    length: int
    """Characters."""


class Cutting:
    """Notes how a turn comes in pieces.

    Args:
        began: when the call began, in seconds of any clock.
    """

    def __init__(self, began: float) -> None:
        self._last = began
        self._came: list[tuple[float, tuple[int, int] | None, int]] = []

    def note(self, piece: Piece, now: float) -> None:
        """Note a piece, and when it came."""
        if isinstance(piece, UsagePiece):
            return
        key = None if isinstance(piece, TurnEnd) else (piece.part, KINDS.index(type(piece)))
        self._came.append((round(now - self._last, 3), key, len(_text_of(piece))))
        self._last = now

    def cuts(self) -> list[Cut]:
        """Return the cuts of the whole turn."""
        keys = sorted({key for _, key, _ in self._came if key is not None})
        position = {key: number for number, key in enumerate(keys)}
        return [Cut(wait, len(keys) if key is None else position[key], length) for wait, key, length in self._came]


def written_cuts(cuts: Sequence[Cut], turn: ModelTurn, clean: JsonObject) -> list[JsonValue]:
    """Return cuts as JSON; a part that had a secret in it is one piece, so that not even its length is told.

    Args:
        cuts: those of the turn.
        turn: the turn as it was.
        clean: the turn as it stands on the tape.
    """
    parts = clean.get("parts")
    plain: Sequence[JsonValue] = parts if is_array(parts) else ()
    hidden = {number for number, part in enumerate(turn.parts) if number >= len(plain) or _differs(part, plain[number])}
    written: list[JsonValue] = []
    for wait, part, length in cuts:
        written.append([wait, part, 0 if part in hidden else length])
    return written


def read_cuts(tree: JsonValue) -> tuple[Cut, ...]:
    """Read the cuts of a line.

    Raises:
        WrongShape: they are no cuts.
    """
    if not is_array(tree):
        raise WrongShape("stream must be a list of cuts")
    return tuple([_cut(entry) for entry in tree])


def cut_up(turn: ModelTurn, cuts: Sequence[Cut]) -> Iterator[tuple[float, Piece]]:
    """Yield the pieces of a turn, each with the seconds to wait before it. Whatever the cuts are, it is the whole turn."""
    whole = pieces_of(turn)
    texts = [_text_of(piece) for piece in whole]
    last = {cut.part: number for number, cut in enumerate(cuts)}
    given: dict[int, int] = {}
    """Position of a part -> how many characters of it were given."""
    waited = 0.0
    for number, (wait, part, length) in enumerate(cuts):
        waited += wait
        if part >= len(whole) - 1:
            break
        start = given.get(part, 0)
        end = len(texts[part]) if last[part] == number else start + length
        text = texts[part][start:end]
        if text or part not in given:
            yield waited, _piece(whole[part], text, is_first=part not in given)
            waited = 0.0
        given[part] = start + len(text)
    for part, piece in enumerate(whole):
        if part not in given:
            yield waited, piece
            waited = 0.0
        elif given[part] < len(texts[part]):
            yield 0.0, _piece(piece, texts[part][given[part] :], is_first=False)


def _piece(piece: Piece, text: str, *, is_first: bool) -> Piece:
    match piece:
        case TextPiece() | ReasoningPiece():
            return replace(piece, text=text) if is_first else type(piece)(text, piece.part)
        case CallPiece():
            return replace(piece, arguments=text) if is_first else CallPiece(piece.part, text)
        case _:
            return piece


def _text_of(piece: Piece) -> str:
    match piece:
        case TextPiece(text=text) | ReasoningPiece(text=text) | CallPiece(arguments=text):
            return text
        case _:
            return ""


def _differs(part: Part, plain: JsonValue) -> bool:
    """Whether something of a part is hidden on the tape."""
    if not is_object(plain):
        return True
    match part:
        case TextPart(text=text) | ReasoningPart(text=text):
            return plain.get("text", "") != text
        case ToolCall():
            arguments, bad = plain.get("arguments", {}), plain.get("bad_arguments")
            return bool(arguments != part.arguments or bad != part.bad_arguments)
        case _:
            return False


def _cut(entry: JsonValue) -> Cut:
    match entry:
        case [int() | float() as wait, int() as part, int() as length] if (
            0 <= wait < float("inf") and part >= 0 and length >= 0
        ):
            return Cut(float(wait), part, length)
        case _:
            raise WrongShape("a cut must be a time, the number of a part and a length")
