"""OpenAI's Responses API on the wire, streamed: reads the events into the pieces of a turn.

OpenAI API, Responses, Streaming: an item is known by its `output_index`, a content by its `content_index`. Ids of items are
not used, because some proxies change them from event to event.
"""

from __future__ import annotations

from understudy.orchestration.streaming.turn_assembler import joined
from understudy.providers.openai.annotations import MetadataCollector
from understudy.providers.openai.stream_calls import more_arguments
from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    as_text,
    count,
    inner,
    items,
    kept,
    text,
    text_in,
    type_in,
)
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.json_reading import arguments, arguments_text
from understudy.vocabulary.messages import JsonObject, OpaquePart, Part
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

from .answer import (
    BETWEEN,
    REASONS,
    blocks_of,
    call_id,
    collect,
    raw_reason,
    sources_in,
    thoughts_in,
    usage_in,
    words_of,
)
from .input_items import DIALECT

ITEM = 10_000  # Numbers of parts for each item: more contents than a message has.
LAST = 1_000_000 * ITEM  # Behind all items.
SUMMARY, THOUGHT, WHOLE = 0, 1, 2
"""Numbers of the parts of a reasoning item, counted from that of the item."""
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
FAILED = ("failed", "cancelled")


class ResponsesStream:
    """The events of one turn."""

    dialect = DIALECT

    def __init__(self) -> None:
        self.is_over = False
        """Whether the last event came."""
        self._response: JsonObject = {}
        """The response as the latest event has it; whole only at the end."""
        self._items: dict[int, JsonObject] = {}
        """Index -> the item as the latest event has it."""
        self._complete_ones: set[int] = set()
        """Indexes of the items that came whole."""
        self._shown: dict[int, list[str]] = {}
        """Number of a part -> the pieces of its text, or of its arguments, so far."""
        self._phases: dict[int, str] = {}
        """Number of a text -> the phase that its pieces tell."""
        self._paragraph: dict[int, int | None] = {}
        """Number of a summary -> the paragraph that came last."""
        self._refusals: dict[int, list[str]] = {}
        """Number of a content -> the refusal so far."""
        self._metadata = MetadataCollector()

    @property
    def has_turn(self) -> bool:
        return self.is_over

    def take(self, event: JsonObject, name: str) -> list[Piece]:
        found: list[Piece] = []
        match text(event, "type") or name:
            case "response.output_text.delta":
                self._say(_content(event), _delta(event), found)
            case "response.function_call_arguments.delta":
                number = _index(event) * ITEM
                has_begun = bool(self._shown.get(number))
                self._call(number, more_arguments(event, "delta", "delta", has_begun=has_begun), found)
            case "response.function_call_arguments.done":
                number = _index(event) * ITEM
                self._call(number, self._missing_arguments(number, arguments_text(event.get("arguments"))), found)
            case "response.reasoning_summary_text.delta":
                self._summarise(event, found)
            case "response.reasoning_text.delta":
                self._think(_index(event) * ITEM + THOUGHT, _delta(event), found)
            case "response.refusal.delta":
                self._refusals.setdefault(_content(event), []).append(_delta(event))
            case "response.content_part.added":
                if inner(event, "part").get("type") == "output_text":
                    self._say(_content(event), words_of(inner(event, "part")), found)
            case "response.output_item.added":
                if _index(event) in self._items:
                    raise WrongShape(f"an item with output_index {_index(event)} began twice")
                self._begin(_index(event), as_object(event.get("item"), "item"), found)
            case "response.output_item.done":
                if _index(event) in self._complete_ones:
                    raise WrongShape(f"an item with output_index {_index(event)} ended twice")
                self._complete(_index(event), as_object(event.get("item"), "item"), found)
            case "response.created" | "response.in_progress" | "response.queued":
                self._response = as_object(event.get("response"), "response")
            case kind if kind in ENDS:
                self._end(_with_status(as_object(event.get("response"), "response"), kind), found)
            case _:
                pass
        return found

    def done(self) -> None:
        """Do nothing: this API has no such event, and some proxies send it behind the last one."""

    def rest(self) -> list[Piece]:
        return [WholePiece(part, LAST) for part in self._metadata.parts()]

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        if not self.is_over:
            return None
        raw = raw_reason(self._response, [self._items[index] for index in sorted(self._items)])
        return TurnEnd(
            neutral(raw, REASONS, parts),
            raw or None,
            usage_in(self._response),
            "".join(["".join(self._refusals[number]) for number in sorted(self._refusals)]),
            DIALECT,
            text(self._response, "model"),
            text(self._response, "id"),
        )

    # --- items

    def _begin(self, index: int, item: JsonObject, found: list[Piece]) -> None:
        self._items[index] = item
        if item.get("type") == "function_call":
            name = as_text(item.get("name"), "function_call.name")
            found.append(CallPiece(index * ITEM, "", call_id(item), name))

    def _complete(self, index: int, item: JsonObject, found: list[Piece]) -> None:
        """Add the parts of an item that came in no event before: some servers send items whole."""
        number = index * ITEM
        _check_same(index, self._items.get(index, item), item)
        match type_in(item, "item.type"):
            case "message":
                self._items[index] = item
                collect(self._metadata, item)
                for place, block in enumerate(blocks_of(item)):
                    self._complete_block(number + place, block, found)
            case "function_call":
                if index not in self._items:
                    self._begin(index, item, found)
                self._call(number, self._missing_arguments(number, arguments_text(item.get("arguments"))), found)
            case "reasoning":
                for place, words in zip((SUMMARY, THOUGHT), thoughts_in(item), strict=True):
                    self._think(number + place, self._missing(number + place, words), found)
                found.append(WholePiece(OpaquePart(kept(item, "item")), number + WHOLE))
            case _:
                found.append(WholePiece(OpaquePart(kept(item, "item")), number))
        self._items[index] = item
        self._complete_ones.add(index)

    def _complete_block(self, number: int, block: JsonObject, found: list[Piece]) -> None:
        match block.get("type"):
            case "output_text":
                self._say(number, self._missing(number, words_of(block)), found, sources_in(block))
            case "refusal" if number not in self._refusals:
                self._refusals[number] = [text_in(block, "refusal", "refusal.refusal")]
            case _:
                pass

    def _end(self, response: JsonObject, found: list[Piece]) -> None:
        for index, entry in enumerate(items(response, "output", "output")):
            item = as_object(entry, "output[]")
            began = self._items.get(index, item)
            if index not in self._complete_ones and began.get("type") == item.get("type"):
                self._complete(index, item, found)
        for index in sorted(self._items.keys() - self._complete_ones):
            if self._items[index].get("type") != "reasoning":  # its encrypted content may be a part of it only
                self._complete(index, self._items[index], found)
        self._response = response
        self.is_over = True
        if inner(response, "usage"):
            found.append(UsagePiece(usage_in(response)))

    # --- texts

    def _missing(self, number: int, whole: str) -> str:
        """Return what follows the text so far, if `whole` continues it."""
        shown = joined(self._shown.get(number, ()))
        return whole[len(shown) :] if whole.startswith(shown) else ""

    def _missing_arguments(self, number: int, whole: str) -> str:
        """Return what follows the arguments so far; an empty `whole` tells nothing of them.

        Raises:
            WrongShape: `whole` is another JSON than the one that came in pieces.
        """
        shown = joined(self._shown.get(number, ()))
        if whole and not whole.startswith(shown) and arguments(whole) != arguments(shown):
            raise WrongShape(
                f"the arguments of the call with output_index {number // ITEM} are not those that came in pieces"
            )
        return self._missing(number, whole)

    def _say(self, number: int, words: str, found: list[Piece], sources: tuple[Citation, ...] = ()) -> None:
        phase = text(self._items.get(number // ITEM, {}), "phase")
        if words or sources or number not in self._shown or phase != self._phases[number]:
            found.append(TextPiece(words, number, phase or None, citations=sources))
        self._shown.setdefault(number, []).append(words)
        self._phases[number] = phase

    def _call(self, number: int, given: str, found: list[Piece]) -> None:
        if given:
            found.append(CallPiece(number, given))
            self._shown.setdefault(number, []).append(given)

    def _think(self, number: int, words: str, found: list[Piece]) -> None:
        if words:
            found.append(ReasoningPiece(words, number))
            self._shown.setdefault(number, []).append(words)

    def _summarise(self, event: JsonObject, found: list[Piece]) -> None:
        number, words = _index(event) * ITEM + SUMMARY, _delta(event)
        paragraph = count(event, "summary_index")
        if words and self._shown.get(number) and paragraph != self._paragraph.get(number):
            words = BETWEEN + words
        self._paragraph[number] = paragraph
        self._think(number, words, found)


def _with_status(response: JsonObject, kind: str) -> JsonObject:
    """Return the response with the status that the type of its last event names; if the two differ, the worse one holds."""
    told = kind.removeprefix("response.")
    return response if told == "completed" or text(response, "status") in FAILED else {**response, "status": told}


def _check_same(index: int, began: JsonObject, item: JsonObject) -> None:
    """Raise `WrongShape` if an item ends as another one than it began. Its own id may change."""
    for key in ("type", "name", "call_id"):
        before, now = text(began, key), text(item, key)
        if before and now and before != now:
            raise WrongShape(f"the item with output_index {index} ended with another {key} than it began with")


def _delta(event: JsonObject) -> str:
    return text_in(event, "delta", "delta")


def _index(event: JsonObject) -> int:
    index = count(event, "output_index")
    if index is None:
        raise WrongShape(f"output_index must be a whole number, got {event.get('output_index')!r}"[:200])
    return index


def _content(event: JsonObject) -> int:
    """Return the number of a content; without an index it is the first one."""
    return _index(event) * ITEM + (count(event, "content_index") or 0)
