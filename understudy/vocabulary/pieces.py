"""The pieces of a model's turn while it is written, as a model's `stream` yields them.

Each piece names the part of the turn that it adds to by its kind and its number. The parts of a turn stand in the order of
their numbers; of one number: reasoning, text, a part that came whole, a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .citations import Citation
from .fast_init import fast_init
from .messages import NO_USAGE, FinishReason, ModelTurn, Part, ReasoningPart, TextPart, ToolCall, Usage


@fast_init
@dataclass(frozen=True, slots=True)
class TextPiece:
    """Words that follow those of the same part."""

    text: str
    part: int = 0
    signature: str | None = None
    """Opaque signature of the whole part, if it came with this piece."""
    citations: tuple[Citation, ...] = ()
    """Further sources of the part, with their places in it."""


@fast_init
@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """Reasoning that follows that of the same part."""

    text: str = ""
    part: int = 0
    signature: str | None = None
    redacted: str | None = None
    """Encrypted reasoning that only the provider can read. It comes whole."""


@fast_init
@dataclass(frozen=True, slots=True)
class CallPiece:
    """Of a tool call: its name and id, or a piece of its arguments. Each may come in a piece of its own."""

    part: int = 0
    arguments: str = ""
    """A piece of the arguments' JSON."""
    id: str = ""
    """Empty if it came with an earlier piece, or the provider sends none."""
    name: str = ""
    """Empty if it came with an earlier piece."""
    signature: str | None = None


@fast_init
@dataclass(frozen=True, slots=True)
class WholePiece:
    """A part that comes whole: mostly a provider's part without a neutral form."""

    data: Part
    part: int = 0


@fast_init
@dataclass(frozen=True, slots=True)
class UsagePiece:
    """The tokens so far; takes the place of an earlier count."""

    usage: Usage


@fast_init
@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of the turn, and what is known only there. A stream without it was cut off."""

    finish_reason: FinishReason | None = None
    """None is `tool_calls` for a turn with calls, else `stop`."""
    raw_finish_reason: str | None = None
    """The provider's own word."""
    usage: Usage = NO_USAGE
    """The tokens of the whole turn; without any count, those of the last `UsagePiece` hold."""
    refusal: str = ""
    dialect: str = ""
    model: str = ""
    response_id: str = ""
    request_id: str = ""


Piece: TypeAlias = TextPiece | ReasoningPiece | CallPiece | WholePiece | UsagePiece | TurnEnd


def is_visible(piece: Piece) -> bool:
    """Whether a reader is shown something of a piece. After the first such piece a model call is not tried again."""
    match piece:
        case TextPiece(text=text) | ReasoningPiece(text=text):
            return bool(text)
        case CallPiece():
            return bool(piece.name or piece.arguments)
        case _:
            return False


def pieces_of(turn: ModelTurn) -> list[Piece]:
    """Return a turn that came whole in pieces, from which an equal one is put together."""
    pieces = [_piece_of(part, number) for number, part in enumerate(turn.parts)]
    end = TurnEnd(
        turn.finish_reason,
        turn.raw_finish_reason,
        turn.usage,
        turn.refusal,
        turn.dialect,
        turn.model,
        turn.response_id,
        turn.request_id,
    )
    return [*pieces, end]


def _piece_of(part: Part, number: int) -> Piece:
    match part:
        case TextPart():
            return TextPiece(part.text, number, part.signature, part.citations)
        case ReasoningPart():
            return ReasoningPiece(part.text, number, part.signature, part.redacted)
        case ToolCall():
            given = part.bad_arguments
            if given is None:
                given = json.dumps(part.arguments, ensure_ascii=False, default=_plain)
            # A made-up id is made up again: a piece cannot say that it is one.
            return CallPiece(number, given, "" if part.made_up_id else part.id, part.name, part.signature)
        case _:
            return WholePiece(part, number)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # any mapping is accepted
