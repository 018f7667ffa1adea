"""OpenAI's chat completions on the wire, streamed: reads the chunks into the pieces of a turn."""

from __future__ import annotations

from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    grown,
    inner,
    is_array,
    is_object,
    items,
    kept,
    object_in,
    place_of,
    text,
    text_in,
)
from understudy.vocabulary.messages import NO_USAGE, JsonObject, JsonValue, OpaquePart, Part, Usage
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

from .annotations import MetadataCollector, annotations_in, citations_of, others_in, pages_in
from .sent_messages import DIALECT, REASONING, thoughts_in
from .stream_calls import FIRST_CALL, StreamedCalls, more_arguments
from .wire import choices_in, reason_of, usage_in


class OpenAIStream:
    """The chunks of one turn; of several choices the first one counts. What follows a finish reason counts until `[DONE]`."""

    def __init__(self, dialect: str = DIALECT, field: str = "") -> None:
        self.dialect = dialect
        self._field = field
        """As of `thoughts_in`."""
        self.is_over = False
        """Whether `[DONE]` came."""
        self._has_ended = False
        """Whether a finish reason came. Some servers send one with each chunk, so more of the turn may follow it."""
        self._is_whole = False
        """Whether the last chunk has a finish reason and nothing of the turn, so that only counts of tokens follow it."""
        self._choice: int | None = None
        """The index of the first choice: servers count from 0 or from 1."""
        self._has_message = self._has_delta = False
        self._raw = ""
        self._refusal = ""
        self._model = ""
        self._id = ""
        self._usage: Usage = NO_USAGE
        self._counts: JsonObject = {}
        self._thinks_in = REASONING
        """The field that reasoning came in. If it is another field, `REASONING` repeats it."""
        self._number = 0
        """The number of the content that comes now: it grows where text follows a block."""
        self._blocks: dict[int, JsonObject] = {}
        """Number -> the block of content that is no text."""
        self._first_text = 0
        """The number of the first text, which has the citations."""
        self._has_text = False
        self._annotations: list[JsonObject] = []
        self._pages: list[JsonObject] = []
        """What the last chunk that names pages beside its choices says."""
        self._metadata = MetadataCollector()
        self._details: list[JsonObject] = []
        self._calls = StreamedCalls()
        self._legacy: list[JsonObject] = []
        """Pieces of `function_call`, kept until the end: it repeats a call of `tool_calls`, if there is one."""

    @property
    def has_turn(self) -> bool:
        return self._is_whole

    def take(self, event: JsonObject, name: str) -> list[Piece]:
        found: list[Piece] = []
        if not self._id:  # Azure's first chunk has none
            self._id = text(event, "id")
        if not self._model:
            self._model = text(event, "model")
        for choice in choices_in(event):
            index = place_of(choice, "index", "choices[].index") or 0
            if self._choice is None:
                self._choice = index
            if index == self._choice:
                self._choose(choice, found)
        if "citations" in event or "search_results" in event:
            self._pages = pages_in(event) or self._pages
        if inner(event, "usage"):
            self._counts = grown(self._counts, inner(event, "usage"))
            self._usage = usage_in({"usage": self._counts})
            found.append(UsagePiece(self._usage))
        return found

    def done(self) -> None:
        self.is_over = True

    def rest(self) -> list[Piece]:
        found: list[Piece] = []
        for number, block in self._blocks.items():
            found.append(WholePiece(OpaquePart(kept(block, "delta.content[]")), number))
        citations = citations_of(self._annotations or self._pages)
        if citations and self._has_text:
            found.append(TextPiece("", self._first_text, citations=citations))
        found += [WholePiece(part, FIRST_CALL - 2) for part in self._metadata.parts()]
        fields = {**({"reasoning_details": self._details} if self._details else {}), **others_in(self._annotations)}
        if fields:
            found.append(WholePiece(OpaquePart(kept(fields, "delta.reasoning_details")), FIRST_CALL - 1))
        found += self._calls.rest()
        if self._legacy and not self._calls:
            given = ""
            for piece in self._legacy:
                given += more_arguments(piece, "arguments", "delta.function_call.arguments", has_begun=bool(given))
            called = next(filter(None, [text(piece, "name") for piece in self._legacy]), "")
            found.append(CallPiece(FIRST_CALL, given, "", called))
        return found

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        if not self._has_ended and not self.is_over:
            return None
        return TurnEnd(
            reason_of(self._raw, self._refusal, parts, has_message=self._has_message),
            self._raw or None,
            self._usage,
            self._refusal,
            self.dialect,
            self._model,
            self._id,
        )

    def _choose(self, choice: JsonObject, found: list[Piece]) -> None:
        # Some servers send a whole message in one chunk; beside a delta it only repeats what came.
        key = "message" if choice.get("delta") is None else "delta"
        self._has_message = self._has_message or choice.get(key) is not None
        delta = object_in(choice, key, key)
        if key == "delta":
            self._has_delta = True
        elif self._has_delta:  # its words came; a call may be new, and is known by its id and content
            delta = {name: each for name, each in delta.items() if name in ("tool_calls", "function_call")}
        self._add_thoughts(delta, found)
        self._add_content(delta.get("content"), found)
        self._refusal += text_in(delta, "refusal", "delta.refusal")
        self._annotations += annotations_in(delta)
        self._metadata.take(choice)
        for detail in items(delta, "reasoning_details", "delta.reasoning_details"):
            add_block(self._details, as_object(detail, "delta.reasoning_details[]"))
        for entry in items(delta, "tool_calls", "delta.tool_calls"):
            found += self._calls.take(as_object(entry, "delta.tool_calls[]"))
        legacy = object_in(delta, "function_call", "delta.function_call")
        if legacy:
            self._legacy.append(legacy)
        reason, has_said = text(choice, "finish_reason"), any(each for name, each in delta.items() if name != "role")
        if reason:
            self._raw, self._has_ended = reason, True
        if reason or has_said:
            self._is_whole = not has_said

    def _add_thoughts(self, delta: JsonObject, found: list[Piece]) -> None:
        words, name = thoughts_in(delta, self._field)
        if words and name != REASONING:
            self._thinks_in = name
            found.append(ReasoningPiece(words, 0, name))
        elif words and self._thinks_in == REASONING:
            found.append(ReasoningPiece(words))

    def _add_content(self, content: JsonValue, found: list[Piece]) -> None:
        if isinstance(content, str):
            if content:
                found.append(self._text(content))
        elif is_array(content):
            for entry in content:
                block = as_object(entry, "delta.content[]")
                if block.get("type") == "text":
                    found.append(self._text(text_in(block, "text", "delta.content[].text")))
                else:
                    self._add_block(block)
        elif content is not None:
            raise WrongShape("delta.content must be a string, an array or null")

    def _text(self, words: str) -> TextPiece:
        if self._number in self._blocks:
            self._number += 1
        if not self._has_text:
            self._has_text, self._first_text = True, self._number
        return TextPiece(words, self._number)

    def _add_block(self, block: JsonObject) -> None:
        blocks = [self._blocks[self._number]] if self._number in self._blocks else []
        add_block(blocks, block)
        self._blocks[self._number] = blocks[0]
        if len(blocks) > 1:  # it did not belong to the last one
            self._number += 1
            self._blocks[self._number] = blocks[1]


GROWING = ("text", "summary")
"""Fields whose texts are appended; others are replaced."""


def add_block(blocks: list[JsonObject], piece: JsonObject) -> None:
    """Add a piece to the last of `blocks` if it belongs to it, else as a new one."""
    if blocks and all(_agree(blocks[-1].get(key), piece.get(key)) for key in ("type", "index", "id")):
        blocks[-1] = _joined(blocks[-1], piece)
    else:
        blocks.append(piece)


def _agree(before: JsonValue, now: JsonValue) -> bool:
    return before is None or now is None or before == now


def _joined(before: JsonObject, piece: JsonObject) -> JsonObject:
    made = dict(before)
    for key, value in piece.items():
        old = made.get(key)
        if isinstance(old, str) and isinstance(value, str) and key in GROWING:
            made[key] = old + value
        elif is_array(old) and is_array(value):
            made[key] = _appended(old, value)
        elif value is not None or key not in made:
            made[key] = value
    return made


def _appended(before: JsonValue, more: JsonValue) -> list[JsonValue]:
    """Append arrays; a text that follows a text continues it."""
    made: list[JsonValue] = list(before) if is_array(before) else []
    for each in more if is_array(more) else ():
        last = made[-1] if made else None
        if is_object(last) and is_object(each) and last.get("type") == each.get("type") == "text":
            made[-1] = _joined(last, each)
        else:
            made.append(each)
    return made
