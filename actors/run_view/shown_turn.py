"""What was shown of a model's turn that is still written, for readers at their own pace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal, TypeAlias

from understudy.orchestration.streaming.turn_assembler import joined
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece

SegmentKind: TypeAlias = Literal["text", "reasoning", "call"]


class Segment:
    """Pieces of one kind that followed one another, joined.

    Attributes:
        at: when its last piece came, on the monotonic clock.
        index: of a call, its number in the turn.
        call_id: of a call.
        name: of a call.
        pieces: grows, until there is a next segment.
    """

    __slots__ = ("_half", "at", "call_id", "index", "kind", "name", "pieces")

    def __init__(self, kind: SegmentKind, index: int = 0, call_id: str = "", name: str = "") -> None:
        self.kind: SegmentKind = kind
        self.index = index
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.at = 0.0
        self._half = ""
        """The first half of a character whose second half has not come."""

    def grow(self, text: str) -> None:
        """Add a piece that came now."""
        self.at = time.monotonic()
        if self._half or "\ud800" <= text[-1:] <= "\udbff":  # a character came in two pieces
            text = joined([self._half, text])
            is_half = "\ud800" <= text[-1:] <= "\udbff"
            self._half = text[-1] if is_half else ""
            text = text[:-1] if is_half else text
        self.pieces.append(text)


class ShownTurn:
    """The visible pieces of one attempt at a turn. One thread adds to it; any thread reads it without a lock.

    Attributes:
        turn: the number of the model call.
        attempt: which try at the turn it is, from 1; 0 before readers were told of it.
        segments: what came, in the order in which it came; grows only.
    """

    __slots__ = ("_calls", "attempt", "segments", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.attempt = 0
        self.segments: list[Segment] = []
        self._calls: dict[int, Segment] = {}
        """Number of a call -> its first segment, which is not shown before it has a name."""

    @property
    def text(self) -> str:
        """All that was shown of the model's text."""
        return "".join([piece for each in self.segments if each.kind == "text" for piece in each.pieces])

    def add(self, piece: Piece) -> bool:
        """Add a piece; whether readers have something new to see."""
        match piece:
            case TextPiece(text=text) if text:
                self._last("text").grow(text)
            case ReasoningPiece(text=text) if text:
                self._last("reasoning").grow(text)
            case CallPiece():
                return self._add_call(piece)
            case _:
                return False
        return True

    def _last(self, kind: SegmentKind) -> Segment:
        """Return the last segment if it is of this kind, else a new one."""
        if not self.segments or self.segments[-1].kind != kind:
            self.segments.append(Segment(kind))
        return self.segments[-1]

    def _add_call(self, piece: CallPiece) -> bool:
        index = piece.part
        known = self._calls.setdefault(index, Segment("call", index))
        known.call_id = known.call_id or piece.id
        if not known.name:
            known.grow(piece.arguments)
            if not piece.name:  # a reader could make nothing of it yet
                return False
            known.name = piece.name
            self.segments.append(known)
            return True
        if not piece.arguments:
            return False
        if self.segments[-1].kind != "call" or self.segments[-1].index != index:
            self.segments.append(Segment("call", index, known.call_id, known.name))
        self.segments[-1].grow(piece.arguments)
        return True


class ShownReader:
    """One reader of a shown turn: returns what came since it looked last, joined as far as it is of one kind."""

    __slots__ = ("_at", "_is_begun", "_read", "offset", "shown")

    def __init__(self, shown: ShownTurn) -> None:
        self.shown = shown
        self.offset = 0
        """How many characters it has read."""
        self._at = 0
        """The segment that it reads."""
        self._read = 0
        """How many pieces of that segment it has read."""
        self._is_begun = False
        """Whether it has returned something of that segment."""

    def new(self) -> Iterator[tuple[Segment, str, int]]:
        """Return segment, new text and the offset of the text, of each segment that has something new."""
        segments = self.shown.segments
        while self._at < len(segments):
            is_last = self._at == len(segments) - 1  # asked first: a segment that is followed by another grows no more
            segment = segments[self._at]
            pieces, begins_at = segment.pieces[self._read :], self.offset
            text = "".join(pieces)
            if text or (segment.kind == "call" and not self._is_begun):
                self._is_begun = True
                self._read += len(pieces)
                self.offset += len(text)
                yield segment, text, begins_at
            if is_last:
                return
            self._at, self._read, self._is_begun = self._at + 1, 0, False
