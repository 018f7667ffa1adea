"""OpenAI's Responses API on the wire, streamed: reads the events into the pieces of a turn.

OpenAI API, Responses, Streaming: an item is known by its `output_index`, a content by its `content_index`. Some servers count
them from 1, so the index of an item is not its place in the last event, and some proxies change ids from event to event: an item
of the last event is found by its id, else by its content, else by its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.orchestration.streaming.turn_assembler import joined
from understudy.providers.openai.annotations import MetadataCollector
from understudy.providers.openai.stream_calls import StreamedCalls, beyond, more_arguments
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
from understudy.vocabulary.pieces import Piece, ReasoningPiece, TextPiece, TurnEnd, UsagePiece, WholePiece

from .answer import (
    BETWEEN,
    CALL,
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
STEP = 1_000
"""Places for each `output_index`: an item that only the last event has stands in one behind the item before it."""
LAST = 10**15 * ITEM  # Behind all items.
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
        """Place -> the item as the latest event has it."""
        self._complete_ones: set[int] = set()
        """Places of the items that came whole."""
        self._shown: dict[int, list[str]] = {}
        """Number of a part -> the pieces of its text so far."""
        self._calls = StreamedCalls()
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
                number = _place(event) * ITEM
                has_begun = self._calls.has_begun(number)
                found += self._calls.add(number, more_arguments(event, "delta", "delta", has_begun=has_begun))
            case "response.function_call_arguments.done":
                number = _place(event) * ITEM
                found += self._calls.add(number, self._missing_arguments(number, event))
            case "response.reasoning_summary_text.delta":
                self._summarise(event, found)
            case "response.reasoning_text.delta":
                self._think(_place(event) * ITEM + THOUGHT, _delta(event), found)
            case "response.refusal.delta":
                self._refusals.setdefault(_content(event), []).append(_delta(event))
            case "response.content_part.added":
                if inner(event, "part").get("type") == "output_text":
                    self._say(_content(event), words_of(inner(event, "part")), found)
            case "response.output_item.added":
                if _place(event) in self._items:
                    raise WrongShape(f"an item with output_index {event['output_index']} began twice")
                self._begin(_place(event), as_object(event.get("item"), "item"), found)
            case "response.output_item.done":
                if _place(event) in self._complete_ones:
                    raise WrongShape(f"an item with output_index {event['output_index']} ended twice")
                self._complete(_place(event), as_object(event.get("item"), "item"), found)
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
        return [*self._calls.rest(), *[WholePiece(part, LAST) for part in self._metadata.parts()]]

    def end(self, parts: tuple[Part, ...]) -> TurnEnd | None:
        if not self.is_over:
            return None
        raw = raw_reason(self._response, [self._items[place] for place in sorted(self._items)])
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

    def _begin(self, place: int, item: JsonObject, found: list[Piece]) -> None:
        self._items[place] = item
        if item.get("type") == "function_call":
            name = as_text(item.get("name"), "function_call.name")
            found += self._calls.add(place * ITEM, "", call_id(item), name)

    def _complete(self, place: int, item: JsonObject, found: list[Piece]) -> None:
        """Add the parts of an item that came in no event before: some servers send items whole."""
        number = place * ITEM
        _check_same(place, self._items.get(place, item), item)
        match type_in(item, "item.type"):
            case "message":
                self._items[place] = item
                collect(self._metadata, item)
                for position, block in enumerate(blocks_of(item)):
                    self._complete_block(number + position, block, found)
            case "function_call":
                if place not in self._items:
                    self._begin(place, item, found)
                found += self._calls.add(number, self._missing_arguments(number, item), own=beyond(item, CALL))
            case "reasoning":
                for position, words in zip((SUMMARY, THOUGHT), thoughts_in(item), strict=True):
                    self._think(number + position, self._missing(number + position, words), found)
                found.append(WholePiece(OpaquePart(kept(item, "item")), number + WHOLE))
            case _:
                found.append(WholePiece(OpaquePart(kept(item, "item")), number))
        self._items[place] = item
        self._complete_ones.add(place)

    def _complete_block(self, number: int, block: JsonObject, found: list[Piece]) -> None:
        match block.get("type"):
            case "output_text":
                self._say(number, self._missing(number, words_of(block)), found, sources_in(block))
            case "refusal" if number not in self._refusals:
                self._refusals[number] = [text_in(block, "refusal", "refusal.refusal")]
            case _:
                pass

    def _end(self, response: JsonObject, found: list[Piece]) -> None:
        output = [as_object(entry, "output[]") for entry in items(response, "output", "output")]
        for place, item in zip(self._places_of(output), output, strict=True):
            if place not in self._complete_ones:
                self._complete(place, item, found)
            elif item.get("type") == "function_call":
                _check_same(
                    place, self._items[place], {**item, "call_id": ""}
                )  # the call may have been found by its content, under another id
                self._missing_arguments(place * ITEM, item)
        for place in sorted(self._items.keys() - self._complete_ones):
            if self._items[place].get("type") != "reasoning":  # its encrypted content may be a part of it only
                self._complete(place, self._items[place], found)
        self._response = response
        self.is_over = True
        if inner(response, "usage"):
            found.append(UsagePiece(usage_in(response)))

    def _places_of(self, output: list[JsonObject]) -> list[int]:
        """Return the places of the items of the last event. One that came in no event before is put behind the one before it."""
        numbers = [*self._shown, *self._refusals, *self._calls.numbers()]
        free = sorted(self._items.keys() | {number // ITEM for number in numbers})
        before = free[0] - STEP if free else -STEP
        known: dict[int, int] = {}
        for is_same in (self._has_id_of, self._has_content_of, self._has_type_of):
            for position, item in enumerate(output):
                place = None if position in known else next((each for each in free if is_same(each, item)), None)
                if place is not None:
                    known[position] = place
                    free.remove(place)
        places: list[int] = []
        for position in range(len(output)):
            before = known.get(position, before + 1)
            places.append(before)
        return places

    def _has_type_of(self, place: int, item: JsonObject) -> bool:
        """Whether an item is of the type of another one; also an item whose beginning did not come."""
        if place in self._items:
            return text(self._items[place], "type") == item.get("type")
        if any(number // ITEM == place for number in (*self._phases, *self._refusals)):
            return item.get("type") == "message"
        return item.get("type") == ("function_call" if self._calls.has_begun(place * ITEM) else "reasoning")

    def _has_id_of(self, place: int, item: JsonObject) -> bool:
        found = call_id(item)
        return bool(found) and self._has_type_of(place, item) and call_id(self._items.get(place, {})) == found

    def _has_content_of(self, place: int, item: JsonObject) -> bool:
        """Whether all that was shown of an item is the beginning of this one."""
        if not self._has_type_of(place, item) or self._items.get(place, item).get("name") != item.get("name"):
            return False
        first = place * ITEM
        texts = {at - first: joined(words) for at, words in self._shown.items() if at // ITEM == place}
        texts[0] = texts.get(0) or self._calls.text_of(first)
        whole = _texts_of(item)
        return any(texts.values()) and all(whole.get(at, "").startswith(words) for at, words in texts.items())

    # --- texts

    def _missing(self, number: int, whole: str) -> str:
        """Return what follows the text so far, if `whole` continues it."""
        shown = joined(self._shown.get(number, ()))
        return whole[len(shown) :] if whole.startswith(shown) else ""

    def _missing_arguments(self, number: int, source: JsonObject) -> str:
        """Return the arguments of an item or event beyond the ones that came so far; empty ones tell nothing.

        Raises:
            WrongShape: they are another JSON than the one that came in pieces.
        """
        shown, whole = self._calls.text_of(number), arguments_text(source.get("arguments"))
        if whole and not whole.startswith(shown) and arguments(whole) != arguments(shown):
            raise WrongShape(
                f"the arguments of the call with output_index {number // ITEM // STEP} are not those that came in pieces"
            )
        return whole[len(shown) :] if whole.startswith(shown) else ""

    def _say(self, number: int, words: str, found: list[Piece], sources: tuple[Citation, ...] = ()) -> None:
        phase = text(self._items.get(number // ITEM, {}), "phase")
        if words or sources or number not in self._shown or phase != self._phases[number]:
            found.append(TextPiece(words, number, phase or None, citations=sources))
        self._shown.setdefault(number, []).append(words)
        self._phases[number] = phase

    def _think(self, number: int, words: str, found: list[Piece]) -> None:
        if words:
            found.append(ReasoningPiece(words, number))
            self._shown.setdefault(number, []).append(words)

    def _summarise(self, event: JsonObject, found: list[Piece]) -> None:
        number, words = _place(event) * ITEM + SUMMARY, _delta(event)
        paragraph = count(event, "summary_index")
        if words and self._shown.get(number) and paragraph != self._paragraph.get(number):
            words = BETWEEN + words
        self._paragraph[number] = paragraph
        self._think(number, words, found)


def _with_status(response: JsonObject, kind: str) -> JsonObject:
    """Return the response with the status that the type of its last event names; if the two differ, the worse one holds."""
    told = kind.removeprefix("response.")
    return response if told == "completed" or text(response, "status") in FAILED else {**response, "status": told}


def _texts_of(item: JsonObject) -> Mapping[int, str]:
    """Return the texts of an item by their numbers, counted from that of the item."""
    match item.get("type"):
        case "message":
            return {place: words_of(block) or text(block, "refusal") for place, block in enumerate(blocks_of(item))}
        case "function_call":
            return {0: arguments_text(item.get("arguments"))}
        case "reasoning":
            return dict(zip((SUMMARY, THOUGHT), thoughts_in(item), strict=True))
        case _:
            return {}


def _check_same(place: int, began: JsonObject, item: JsonObject) -> None:
    """Raise `WrongShape` if an item ends as another one than it began. Its own id may change."""
    for key in ("type", "name", "call_id"):
        before, now = text(began, key), text(item, key)
        if before and now and before != now:
            raise WrongShape(f"the item with output_index {place // STEP} ended with another {key} than it began with")


def _delta(event: JsonObject) -> str:
    return text_in(event, "delta", "delta")


def _place(event: JsonObject) -> int:
    index = count(event, "output_index")
    if index is None:
        raise WrongShape(f"output_index must be a whole number, got {event.get('output_index')!r}"[:200])
    return index * STEP


def _content(event: JsonObject) -> int:
    """Return the number of a content; without an index it is the first one."""
    return _place(event) * ITEM + (count(event, "content_index") or 0)
