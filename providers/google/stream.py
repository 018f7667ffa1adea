"""Google's streamGenerateContent on the wire, for Gemini and Vertex AI: reads the chunks into the pieces of a turn."""

from __future__ import annotations

from typing import Literal

from understudy.providers.wire.json_values import (
    as_object,
    inner,
    is_repeated,
    items,
    object_in,
    place_of,
    text,
    text_in,
)
from understudy.vocabulary.json_reading import arguments_text
from understudy.vocabulary.messages import (
    NO_USAGE,
    JsonObject,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

from .grounding import MetadataCollector
from .wire import DIALECT, is_blocked, part_in, raw_reason, reason_of, usage_in


class GoogleStream:
    """The chunks of one turn, each a response with further parts; of several candidates the first one counts."""

    dialect = DIALECT

    def __init__(self) -> None:
        self._number = -1
        """The number of the last part."""
        self._open: Literal["", "text", "thought"] = ""
        """The kind of the last part, if text of this kind without a signature continues it."""
        self._has_ended = False
        """Whether a finish reason came, and no further part after it."""
        self._calls: list[ToolCall] = []
        self._index: int | None = None
        """Index of the candidate that counts."""
        self._finish = ""
        self._block = ""
        self._model = ""
        self._id = ""
        self._usage: Usage = NO_USAGE
        self._metadata = MetadataCollector()
        self._texts: dict[int, list[str]] = {}
        """Number of a text -> its pieces, in which citations have their places."""

    @property
    def is_over(self) -> bool:
        """False: with code execution a finish reason can come in the middle, so only the end of the body is the end."""
        return False

    @property
    def has_turn(self) -> bool:
        return self.is_over

    def take(self, event: JsonObject, name: str) -> list[Piece]:
        self._model = self._model or text(event, "modelVersion")
        self._id = self._id or text(event, "responseId")
        self._block = text(inner(event, "promptFeedback"), "blockReason") or self._block
        self._metadata.take_feedback(event)
        found: list[Piece] = []
        for entry in items(event, "candidates", "candidates"):
            candidate = as_object(entry, "candidates[]")
            index = place_of(candidate, "index", "candidates[].index") or 0  # an index of 0 may be left out
            if self._index is None:
                self._index = index
            if index == self._index:
                self._choose(candidate, found)
        if inner(event, "usageMetadata"):
            self._usage = usage_in(event)
            found.append(UsagePiece(self._usage))
        return found

    def done(self) -> None:
        """Do nothing: this API has no such event, and some proxies send it behind the last one."""

    def rest(self) -> list[Piece]:
        numbers = list(self._texts)
        citations = self._metadata.citations(["".join(words) for words in self._texts.values()])
        found: list[Piece] = [TextPiece("", numbers[at], citations=each) for at, each in citations.items()]
        metadata = self._metadata.parts(blocked=is_blocked(self._finish, self._block))
        return found + [WholePiece(part, self._next("", None)) for part in metadata]

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        if not self._has_ended and not self._block:
            return None
        raw = raw_reason(self._finish, self._block)
        return TurnEnd(reason_of(raw, parts), raw, self._usage, "", DIALECT, self._model, self._id)

    def _choose(self, candidate: JsonObject, found: list[Piece]) -> None:
        for entry in items(object_in(candidate, "content", "content"), "parts", "content.parts"):
            given = as_object(entry, "content.parts[]")
            part = part_in(given)
            if part is not None and not is_repeated(part, self._calls):
                found.append(self._piece(part, given))
                self._has_ended = False
        self._metadata.take(candidate)
        finish = text_in(candidate, "finishReason", "finishReason")
        if finish:
            self._finish, self._has_ended = finish, True

    def _piece(self, part: Part, given: JsonObject) -> Piece:
        match part:
            case TextPart(text=words, signature=signature):
                number = self._next("text", signature)
                self._texts.setdefault(number, []).append(words)
                return TextPiece(words, number, signature)
            case ReasoningPart(text=words, signature=signature):
                return ReasoningPiece(words, self._next("thought", signature), signature)
            case ToolCall():
                whole = arguments_text(inner(given, "functionCall").get("args"))
                return CallPiece(self._next("", None), whole, part.id, part.name, part.signature)
            case OpaquePart():
                return WholePiece(part, self._next("", None))
            case _:
                raise AssertionError(f"no part of an answer: {part}")

    def _next(self, kind: Literal["", "text", "thought"], signature: str | None) -> int:
        """Return the number of a part that comes now: text with a signature is a part of its own."""
        if not kind or kind != self._open or signature is not None:
            self._number += 1
        self._open = kind if signature is None else ""
        return self._number
