"""Anthropic's Messages API on the wire, streamed: reads the events into the pieces of a turn."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    UNREADABLE,
    WrongShape,
    as_object,
    as_text,
    count,
    grown,
    inner,
    is_object,
    is_repeated,
    kept,
    text,
    text_in,
    type_in,
)
from understudy.vocabulary.json_reading import arguments, arguments_text
from understudy.vocabulary.messages import JsonObject, JsonValue, OpaquePart, Part, ToolCall
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

from .wire import DIALECT, REASONS, citation, citations_in, own_fields, refusal_in, usage_in

OURS = ("text", "thinking", "redacted_thinking", "tool_use")
"""Types of blocks with a neutral form; a block of another type is kept whole."""
DELTAS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Type of a delta -> the type of its block among `OURS`."""


class _Block:
    """A block that has begun and not ended."""

    __slots__ = ("input", "is_held", "kind", "start")

    def __init__(self, kind: str, start: JsonObject, *, is_held: bool) -> None:
        self.kind = kind
        self.start = start
        self.is_held = is_held
        """Whether a call before it has its id. Only its end tells whether it is that call again, so no reader sees it yet."""
        self.input: list[str] = []
        """Pieces of its input as JSON."""

    def grow(self, delta: JsonObject) -> None:
        """Add a delta to a block whose type we do not know: texts are joined, any other field replaces the one before."""
        both = [(key, self.start.get(key), more) for key, more in delta.items()]
        texts = {key: begun + more for key, begun, more in both if isinstance(begun, str) and isinstance(more, str)}
        self.start = {**self.start, **delta, **texts, "type": self.kind}


class AnthropicStream:
    """The events of one turn. A block is the part of its own number."""

    dialect = DIALECT

    def __init__(self) -> None:
        self.is_over = False
        """Whether `message_stop` came."""
        self._open: dict[int, _Block] = {}
        self._begun: set[int] = set()
        """Indexes of the blocks that have begun."""
        self._ids: set[str] = set()
        """Ids of the calls that have begun."""
        self._calls: list[ToolCall] = []
        """The calls that have ended."""
        self._message: JsonObject = {}
        """The message as it began."""
        self._counts: dict[str, JsonValue] = {}
        self._ending: JsonObject = {}
        """The `delta` with the stop reason."""

    @property
    def has_turn(self) -> bool:
        return self.is_over

    def take(self, event: JsonObject, name: str) -> Sequence[Piece]:
        match text(event, "type") or name:
            case "content_block_delta":
                return self._grow(event)
            case "content_block_start":
                return self._begin(event)
            case "content_block_stop":
                index = _index(event)
                block = self._open.get(index)
                if index not in self._begun:
                    raise WrongShape(f"content_block_stop must belong to a block that has begun, got index {index}")
                if block is None or block.is_held:
                    return ()
                del self._open[index]
                return self._ended(block, index)
            case "message_start":
                self._message = as_object(event.get("message"), "message")
                return self._count(inner(self._message, "usage"))
            case "message_delta":
                self._ending = {**self._ending, **inner(event, "delta")}
                return self._count(inner(event, "usage"))
            case "message_stop":
                self.is_over = True
                return ()
            case "":
                raise WrongShape("type must be that of an event, got an event without one")
            case _:
                return ()

    def done(self) -> None:
        """Do nothing: this API has no such event, and some proxies send it behind the last one."""

    def rest(self) -> list[Piece]:
        # A call that is held ends behind the call that it may repeat.
        left = sorted(self._open.items(), key=lambda each: each[1].is_held)
        return [piece for index, block in left for piece in self._ended(block, index)]

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        if not self.is_over:
            return None
        raw = text_in(self._ending, "stop_reason", "stop_reason")
        return TurnEnd(
            neutral(raw, REASONS, parts),
            raw or None,
            usage_in({"usage": self._counts}),
            refusal_in(self._ending),
            DIALECT,
            text(self._message, "model"),
            text(self._message, "id"),
        )

    def _count(self, counts: JsonObject) -> Sequence[Piece]:
        """Anthropic API, Streaming: the counts are cumulative; one that is left out keeps its earlier value.

        Some gateways send 0 where they leave one out.
        """
        if not counts:
            return ()
        self._counts = grown(self._counts, counts)
        return (UsagePiece(usage_in({"usage": dict(self._counts)})),)

    def _begin(self, event: JsonObject) -> Sequence[Piece]:
        index, start = _index(event), as_object(event.get("content_block"), "content_block")
        kind = type_in(start, "content_block.type")
        if index in self._begun:
            raise WrongShape(f"a content block with index {index} began twice")
        self._begun.add(index)
        call_id = text(start, "id") if kind == "tool_use" else ""
        is_held = bool(call_id) and call_id in self._ids
        self._open[index] = _Block(kind, start, is_held=is_held)
        self._ids.add(call_id)
        match kind:
            case "text":
                return (TextPiece(text_in(start, "text", "text.text"), index, citations=citations_in(start)),)
            case "thinking":
                words = text_in(start, "thinking", "thinking.thinking")
                return (ReasoningPiece(words, index, text(start, "signature") or None),)
            case "redacted_thinking":
                return (ReasoningPiece("", index, None, as_text(start.get("data"), "redacted_thinking.data")),)
            case "tool_use":
                name = as_text(start.get("name"), "tool_use.name")
                return () if is_held else (CallPiece(index, "", call_id, name, own_fields(start)),)
            case _:
                return ()

    def _grow(self, event: JsonObject) -> Sequence[Piece]:
        index, delta = _index(event), as_object(event.get("delta"), "delta")
        block = self._open.get(index)
        if block is None:
            raise WrongShape(f"content_block_delta must belong to a block that has begun, got index {index}")
        kind = type_in(delta, "delta.type")
        if block.kind in OURS and DELTAS.get(kind, block.kind) != block.kind:
            raise WrongShape(f"a delta of type {kind} must belong to a block of type {DELTAS[kind]}, got {block.kind}")
        if kind == "text_delta" and block.kind == "text":  # most
            return (TextPiece(text_in(delta, "text", "text_delta.text"), index),)
        match block.kind, kind:
            case "text", "citations_delta":
                source = delta.get("citation")
                return (TextPiece("", index, citations=(citation(source),)),) if is_object(source) else ()
            case "thinking", "thinking_delta":
                return (ReasoningPiece(text_in(delta, "thinking", "thinking_delta.thinking"), index),)
            case "thinking", "signature_delta":
                return (ReasoningPiece("", index, text(delta, "signature") or None),)
            case _, "input_json_delta":
                more = text_in(delta, "partial_json", "input_json_delta.partial_json")
                if not more:
                    return ()
                block.input.append(more)
                return (CallPiece(index, more),) if block.kind == "tool_use" and not block.is_held else ()
            case _:
                if block.kind not in OURS:
                    block.grow(delta)
                return ()

    def _ended(self, block: _Block, index: int) -> Sequence[Piece]:
        """Return what is known of a block only at its end."""
        if block.kind == "tool_use":
            # An input that came whole stands in the start; the API itself sends an empty one there.
            whole = block.start.get("input")
            told = "".join(block.input) or ("" if whole == {} else arguments_text(whole))
            call_id, name = text(block.start, "id"), text(block.start, "name")
            if is_repeated(ToolCall(call_id, name, *arguments(told)), self._calls):
                return ()
            if block.is_held:
                return (CallPiece(index, told, call_id, name, own_fields(block.start)),)
            return (CallPiece(index, told),) if told and not block.input else ()
        if block.kind in OURS:
            return ()
        data = block.start
        if block.input:
            given, bad = arguments("".join(block.input))
            data = {**data, "input": given if bad is None else {UNREADABLE: bad}}
        return (WholePiece(OpaquePart(kept(data, "content[]")), index),)


def _index(event: JsonObject) -> int:
    index = count(event, "index")
    if index is None:
        raise WrongShape(f"index must be a whole number, got {event.get('index')!r}"[:200])
    return index
