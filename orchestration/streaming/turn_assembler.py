"""Puts the pieces of a streamed turn together."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from understudy.vocabulary.citations import Citation
from understudy.vocabulary.json_reading import arguments
from understudy.vocabulary.messages import (
    NO_USAGE,
    ModelTurn,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

REASONING, TEXT, WHOLE, CALL = 0, 1, 2, 3
"""Kinds of parts, in the order in which those of one number stand."""


HALF = re.compile("[\ud800-\udbff]")
"""The first half of a character outside of the basic plane, as JSON may have it."""


class _Open:
    """A part that pieces are added to."""

    __slots__ = ("citations", "id", "name", "redacted", "signature", "texts", "whole")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.citations: tuple[Citation, ...] = ()
        self.signature: str | None = None
        self.redacted: str | None = None
        self.id = ""
        self.name = ""
        self.whole: Part | None = None

    def closed(self, kind: int) -> Part:
        """Return the part as it is now."""
        text = joined(self.texts)
        if kind == TEXT:
            return TextPart(text, self.signature, citations=self.citations)
        if kind == REASONING:
            return ReasoningPart(text, self.signature, self.redacted)
        if self.whole is not None:
            return self.whole
        given, bad = arguments(text)
        return ToolCall(self.id, self.name, given, bad, signature=self.signature)


def joined(texts: Sequence[str]) -> str:
    """Join pieces of a text. The two halves of a character outside of the basic plane may come in two pieces."""
    text = "".join(texts)
    if text.isascii() or not HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class TurnAssembler:
    """Puts the pieces of one model turn together: pieces in, a `ModelTurn` out. Pure, and for one thread at a time.

    Args:
        tools: names of the tools that the model was offered; without them no call counts as invalid for its name.
    """

    __slots__ = ("_end", "_last", "_open", "_tools", "_usage")

    def __init__(self, tools: Collection[str] | None = None) -> None:
        if isinstance(tools, str):
            raise TypeError(f"tools must be a collection of names, got the text {tools!r}")
        self._tools = None if tools is None else frozenset(tools)
        self._open: dict[tuple[int, int], _Open] = {}
        """Number and kind of a part -> what came of it."""
        self._last: tuple[int, int] | None = None
        """The part that the last piece added to."""
        self._usage: Usage = NO_USAGE
        self._end: TurnEnd | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the turn's end has come."""
        return self._end is not None

    def add(self, piece: Piece) -> None:
        """Add the next piece.

        Raises:
            TypeError: it is no piece, or a field of it has a wrong type.
            ValueError: the turn has ended.
        """
        if self._end is not None:
            raise ValueError(f"the turn has ended, and {type(piece).__name__} came after its end")
        match piece:
            case TextPiece():
                citations = piece.citations if piece.citations == () else _citations(piece)
                part = self._add_text(piece, TEXT)
                if citations:
                    part.citations += citations
            case ReasoningPiece():
                redacted = _or_none(piece, "redacted")
                part = self._add_text(piece, REASONING)
                part.redacted = redacted or part.redacted
            case CallPiece():
                self._add_call(piece)
            case WholePiece():
                self._part(piece.part, WHOLE).whole = piece.data
            case UsagePiece():
                self._usage = _usage(piece, piece.usage)
            case TurnEnd():
                _usage(piece, piece.usage)
                self._end = piece
            case _:
                raise TypeError(f"a model's stream yields pieces such as TextPiece, got {type(piece).__name__}")

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, in their order. A call whose arguments have not all come has bad arguments."""
        return tuple([self._open[key].closed(key[1]) for key in sorted(self._open)])

    def complete_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that are complete: a piece of another part, or the turn's end, came after them."""
        return tuple([self._call(key) for key in self._complete() if key[1] == CALL])

    def invalid_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of unknown tools, once their names have come, and complete ones whose arguments are no JSON object."""
        found = [call for call in self.complete_calls() if self._is_invalid(call)]
        if self._end is None and self._last is not None and self._last[1] == CALL and self._tools is not None:
            call = self._call(self._last)
            found += [call] if call.name and call.name not in self._tools else []
        return tuple(found)

    def turn(self) -> ModelTurn:
        """Return the whole turn.

        Raises:
            ValueError: its end has not come, or a call has no name.
        """
        end = self._end
        if end is None:
            raise ValueError("the turn has no end: a TurnEnd must be the last piece")
        parts = self.parts()
        if any(type(part) is ToolCall and not part.name for part in parts):
            raise ValueError("a call of the turn has no name")
        reason = end.finish_reason
        if reason is None:
            reason = "tool_calls" if any(type(part) is ToolCall for part in parts) else "stop"
        return ModelTurn(
            parts,
            self._tokens(),
            reason,
            end.raw_finish_reason or (reason if end.finish_reason is None else None),
            refusal=end.refusal,
            dialect=end.dialect,
            model=end.model,
            response_id=end.response_id,
            request_id=end.request_id,
        )

    def partial(self, dialect: str = "") -> ModelTurn:
        """Return the turn as far as it can go into a history: without a call that is not complete.

        Its finish reason is `other`, as of every turn without a known end.
        """
        complete = frozenset(self._complete())
        keys = [key for key in sorted(self._open) if key[1] != CALL or (key in complete and self._open[key].name)]
        parts = tuple([self._open[key].closed(key[1]) for key in keys])
        return ModelTurn(parts, self._tokens(), "other", dialect=dialect)

    def _tokens(self) -> Usage:
        return self._usage if self._end is None or self._end.usage == NO_USAGE else self._end.usage

    def _complete(self) -> list[tuple[int, int]]:
        return [key for key in sorted(self._open) if self._end is not None or key != self._last]

    def _call(self, key: tuple[int, int]) -> ToolCall:
        call = self._open[key].closed(CALL)
        assert isinstance(call, ToolCall)
        return call

    def _is_invalid(self, call: ToolCall) -> bool:
        return call.bad_arguments is not None or (self._tools is not None and call.name not in self._tools)

    def _part(self, number: int, kind: int) -> _Open:
        key = number, kind
        part = self._open.get(key)
        if part is None:
            if not isinstance(number, int):
                raise TypeError(f"the number of a part must be a whole number, got {number!r}")
            part = self._open[key] = _Open()
        self._last = key
        return part

    def _add_text(self, piece: TextPiece | ReasoningPiece, kind: int) -> _Open:
        text = piece.text
        if not isinstance(text, str):
            raise TypeError(f"{type(piece).__name__}: text must be a string, got {type(text).__name__}")
        signature = None if piece.signature is None else _or_none(piece, "signature")
        part = self._part(piece.part, kind)
        part.texts.append(text)
        if signature:
            part.signature = signature
        return part

    def _add_call(self, piece: CallPiece) -> None:
        for name in ("arguments", "id", "name"):
            if not isinstance(getattr(piece, name), str):
                raise TypeError(f"CallPiece: {name} must be a string, got {type(getattr(piece, name)).__name__}")
        signature = _or_none(piece, "signature")
        part = self._part(piece.part, CALL)
        part.texts.append(piece.arguments)
        part.id = part.id or piece.id
        part.name = part.name or piece.name
        part.signature = signature or part.signature


def _or_none(piece: Piece, name: str) -> str | None:
    value = getattr(piece, name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(piece).__name__}: {name} must be a string or None, got {type(value).__name__}")
    return value


def _citations(piece: TextPiece) -> tuple[Citation, ...]:
    given: object = piece.citations
    if not isinstance(given, tuple):
        raise TypeError(f"TextPiece: citations must be a tuple of Citation(…), got {type(given).__name__}")
    for each in piece.citations:
        if not isinstance(each, Citation):
            raise TypeError(f"TextPiece: citations must hold Citation(…), got {type(each).__name__}")
    return piece.citations


def _usage(piece: Piece, value: object) -> Usage:
    if not isinstance(value, Usage):
        raise TypeError(f"{type(piece).__name__}: usage must be Usage(…), got {type(value).__name__}")
    return value
