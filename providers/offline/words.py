"""Cuts a turn that is there as a whole into small pieces, as a model writes one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, pieces_of

_WORD = re.compile(r"\s*\S+|\s+")


def word_by_word(turn: ModelTurn) -> Iterator[Piece]:
    """Yield the pieces of a turn: each word of text, reasoning and arguments in one of its own."""
    for piece in pieces_of(turn):
        match piece:
            case TextPiece() | ReasoningPiece():
                first, *rest = _WORD.findall(piece.text) or [""]
                yield replace(piece, text=first)
                yield from [type(piece)(word, piece.part) for word in rest]
            case CallPiece():
                yield replace(piece, arguments="")
                yield from [CallPiece(piece.part, word) for word in _WORD.findall(piece.arguments)]
            case _:
                yield piece
