"""Answers of Anthropic and Gemini with one thing wrong: whole and streamed they give one turn or both an error.

No call is seen twice, and nothing that the model said is lost in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.support.wire_streams import as_events, reader_of
from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.vocabulary.messages import ModelTurn, Part, ReasoningPart, TextPart

WRONG: tuple[Any, ...] = (None, 5, 0, -1, 1.5, True, False, "", "5", [], ["x"], {}, {"x": "y"})
Path = tuple[str | int, ...]

MESSAGE: dict[str, Any] = {
    "id": "msg",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "Alfa Bravo", "signature": "Charlie"},
        {"type": "redacted_thinking", "data": "Delta"},
        {"type": "text", "text": "Echo Foxtrot", "citations": [{"title": "Golf"}]},
        {"type": "tool_use", "id": "Hotel", "name": "India", "input": {"Juliett": ["Kilo", 1]}},
        {"type": "tool_use", "id": "Lima", "name": "India", "input": {}, "caller": {"type": "Mike"}},
        {"type": "server_tool_use", "id": "November", "name": "Oscar", "input": {"Papa": "Quebec"}},
        {"type": "Romeo", "Sierra": {"Tango": "Uniform"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 7},
}
RESPONSE: dict[str, Any] = {
    "candidates": [
        {
            "index": 0,
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Alfa Bravo", "thought": True},
                    {"text": "Charlie Delta", "thoughtSignature": "Echo"},
                    {"functionCall": {"id": "Foxtrot", "name": "Golf", "args": {"Hotel": ["India", 1]}}},
                    {"functionCall": {"id": "Juliett", "name": "Golf", "args": {}}, "thoughtSignature": "Kilo"},
                    {"executableCode": {"code": "Lima"}},
                ],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 7},
    "modelVersion": "gemini",
    "responseId": "Mike",
}
WORDS = re.compile(
    "Alfa|Bravo|Charlie|Delta|Echo|Foxtrot|Golf|Hotel|India|Juliett|Kilo|Lima|November|Oscar|Papa|Quebec|Romeo|Sierra|Tango|Uniform"
)


# --- the same answer in events, after the documents of the APIs


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def in_pieces(block: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return how a block begins, and its deltas. What a server cannot cut it sends whole."""
    if not isinstance(block, dict):
        return block, []
    start: dict[str, Any] = {**cast("dict[str, Any]", block)}
    deltas: list[dict[str, Any]] = []
    kind = start.get("type")
    words, given, cited = start.get(str(kind)), start.get("input"), start.get("citations")
    if kind in ("text", "thinking") and isinstance(words, str):
        start[kind] = ""
        deltas = [{"type": f"{kind}_delta", kind: half} for half in halves(words)]
    if kind == "text" and isinstance(cited, list):
        start["citations"] = []
        deltas += [{"type": "citations_delta", "citation": each} for each in cast("list[object]", cited)]
    if kind == "thinking" and isinstance(start.get("signature"), str):
        deltas.append({"type": "signature_delta", "signature": start.pop("signature")})
    if kind in ("tool_use", "server_tool_use") and given and isinstance(given, dict):
        start["input"] = {}
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves(json.dumps(given))]
    return start, deltas


def message_events(body: dict[str, Any]) -> list[Any]:
    begun: dict[str, Any] = {**body, "content": [], "stop_reason": None}
    events: list[Any] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(body["content"]):
        start, deltas = in_pieces(block)
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
            {"type": "content_block_stop", "index": index},
        ]
    ending = {key: body[key] for key in ("stop_reason",) if key in body}
    return [*events, {"type": "message_delta", "delta": ending, "usage": {}}, {"type": "message_stop"}]


def response_events(body: dict[str, Any]) -> list[Any]:
    candidates: list[Any] = body["candidates"]
    candidate: dict[str, Any] = candidates[0]
    cut: list[Any] = []
    for part in candidate["content"]["parts"]:
        words: Any = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
        is_cut = isinstance(words, str) and words and "thoughtSignature" not in part
        cut += [{**part, "text": half} for half in halves(words)] if is_cut else [part]
    plain = {key: each for key, each in candidate.items() if key != "finishReason"}
    events = [{"candidates": [{**plain, "content": {**candidate["content"], "parts": [part]}}]} for part in cut]
    ending = {key: each for key, each in candidate.items() if key != "content"}
    return [*events, {**body, "candidates": [ending]}]


@dataclass(frozen=True)
class Api:
    name: str
    body: dict[str, Any]
    decode: Callable[[Any], ModelTurn]
    events: Callable[[dict[str, Any]], list[Any]]
    content: Path
    """Where the list of what the model said stands."""


APIS = [
    Api("anthropic", MESSAGE, anthropic_wire.decode, message_events, ("content",)),
    Api("gemini", RESPONSE, google_wire.decode, response_events, ("candidates", 0, "content", "parts")),
]
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


# --- what is read


ERROR = "an error"


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Join words of one kind without anything of their own: where a stream is cut says nothing."""
    made: list[Part] = []
    for part in parts:
        last = made[-1] if made else None
        if isinstance(part, TextPart) and isinstance(last, TextPart) and is_plain(part) and is_plain(last):
            made[-1] = TextPart(last.text + part.text)
        elif isinstance(part, ReasoningPart) and isinstance(last, ReasoningPart) and is_plain(part) and is_plain(last):
            made[-1] = ReasoningPart(last.text + part.text)
        else:
            made.append(part)
    return tuple(made)


def is_plain(part: TextPart | ReasoningPart) -> bool:
    return part == type(part)(part.text)


def told(turn: ModelTurn) -> object:
    calls = [(call.id, call.name, json.dumps(call.arguments)) for call in turn.tool_calls if call.id]
    assert len(calls) == len(set(calls)), "a call is seen twice"
    return (
        joined(turn.parts),
        (turn.finish_reason, turn.raw_finish_reason or "", turn.refusal),
        (turn.model, turn.response_id, turn.usage),
    )


def whole(api: Api, body: Any) -> object:
    try:
        return told(api.decode(body))
    except ValueError:
        return ERROR


def streamed(api: Api, events: Sequence[Any]) -> object:
    reader = reader_of(api.name)
    try:
        for piece in (reader.feed(as_events(*events)), reader.finish()):
            for _ in piece:
                pass
        return told(reader.turn())
    except ValueError:
        return ERROR


def words_of(value: object) -> set[str]:
    """Return our words in something, however it is written."""
    return set(WORDS.findall(repr(value)))


# --- mutations


def paths(value: object, at: Path = ()) -> Iterator[Path]:
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside += cast("dict[str, object]", value).items()
    elif isinstance(value, list):
        inside += enumerate(cast("list[object]", value))
    for key, each in inside:
        yield (*at, key)
        yield from paths(each, (*at, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(body: dict[str, Any], path: Path, change: Callable[[Any, Any], None]) -> dict[str, Any]:
    """Return a copy in which `change` was called with what holds the place, and the last key of the path."""
    made = deepcopy(body)
    change(at(made, path[:-1]), path[-1])
    return made


def set_to(value: Any) -> Callable[[Any, Any], None]:
    return lambda holder, key: holder.__setitem__(key, value)


def drop(holder: Any, key: Any) -> None:
    del holder[key]


@each_api
def test_the_answer_itself_is_read_whole_and_streamed(api: Api) -> None:
    turn = whole(api, api.body)

    assert turn == streamed(api, api.events(api.body)) != ERROR
    assert words_of(turn) >= words_of(at(api.body, api.content))


@each_api
def test_with_one_value_wrong_whole_and_streamed_agree_and_the_rest_is_there(api: Api) -> None:
    inside = [path for path in paths(api.body) if path[: len(api.content)] == api.content and path != api.content]
    ends = [path for path in paths(api.body) if path[-1] in ("finishReason", "stop_reason", "index")]
    for path in [*inside, *ends]:
        for change in (drop, *map(set_to, WRONG)):
            mutated = changed(api.body, path, change)
            turn = whole(api, mutated)
            if path[-1] == "finishReason" and at(mutated, path[:-1]).get("finishReason") in (None, ""):
                continue  # without it a stream has no end
            if path[-1] == "name" and "name=''" in repr(turn):
                continue  # a piece of a stream cannot tell an empty name from none
            assert turn == streamed(api, api.events(mutated)), (path, at(mutated, path[:-1]))
            kept = words_of(at(mutated, api.content)) - words_of(at(api.body, path))
            assert turn == ERROR or words_of(turn) >= kept, (path, at(mutated, path[:-1]))


@each_api
def test_in_another_order_or_twice_nothing_is_lost_and_no_call_is_made_twice(api: Api) -> None:
    listed = at(api.body, api.content)
    orders = [listed[::-1], [listed[-1], *listed[:-1]], *[[*listed, each] for each in listed]]
    for position in range(len(listed)):
        orders.append([each for at, each in enumerate(listed) for _ in range(2 if at == position else 1)])
    for order in orders:
        mutated = changed(api.body, api.content, set_to(order))
        turn = whole(api, mutated)
        assert turn == streamed(api, api.events(mutated)) != ERROR, order
        assert words_of(turn) >= words_of(order)


@each_api
def test_two_calls_with_one_id_and_different_content_are_two(api: Api) -> None:
    listed = at(api.body, api.content)
    first, second = [
        path
        for path in paths(listed)
        if path[-1] == "id" and at(listed, path) in ("Hotel", "Lima", "Foxtrot", "Juliett")
    ]
    mutated = changed(api.body, (*api.content, *second), set_to(at(listed, first)))

    turn = api.decode(mutated)

    assert [call.id for call in turn.tool_calls] == [at(listed, first)] * 2
    assert told(turn) == streamed(api, api.events(mutated))


@each_api
def test_a_field_that_we_do_not_know_changes_nothing_else(api: Api) -> None:
    for path in [path for path in paths(api.body) if isinstance(at(api.body, path), dict) and "input" not in path]:
        if {"args", "Hotel"} & set(path):
            continue  # what a tool gets, where every field counts
        mutated = changed(api.body, (*path, "new_field"), set_to({"a": [1]}))
        turn = whole(api, mutated)
        assert turn == streamed(api, api.events(mutated)) != ERROR, path
        assert words_of(turn) >= words_of(at(api.body, api.content))


# --- events


def is_delta(event: dict[str, Any]) -> bool:
    return event.get("type") == "content_block_delta"


@each_api
def test_an_event_that_is_missing_or_comes_twice_changes_nothing_or_is_an_error(api: Api) -> None:
    events = api.events(api.body)
    turn = streamed(api, events)
    for position, event in enumerate(events):
        if is_delta(event) or "text" in repr(event) or "executableCode" in repr(event):
            continue  # nothing tells that a piece of a text is missing or came before
        assert streamed(api, [*events[: position + 1], *events[position:]]) in (turn, ERROR), event
        # The event that begins or ends a message holds what no other one has.
        if event.get("type") not in ("message_start", "message_delta") and "functionCall" not in repr(event):
            assert streamed(api, [*events[:position], *events[position + 1 :]]) in (turn, ERROR), event


@each_api
def test_events_in_another_order_lose_nothing_or_are_an_error(api: Api) -> None:
    events = api.events(api.body)
    said = words_of(at(api.body, api.content)) - {"Bravo", "Foxtrot", "Delta"}  # their halves may change places
    for position in range(len(events) - 1):
        first, second = events[position : position + 2]
        turn = streamed(api, [*events[:position], second, first, *events[position + 2 :]])
        if is_delta(first) and is_delta(second):
            continue
        assert turn == ERROR or words_of(turn) >= said, (first, second)


@each_api
@pytest.mark.parametrize("first", [1, 7])
def test_indexes_may_count_from_any_number(api: Api, first: int) -> None:
    events = deepcopy(api.events(api.body))
    turn = streamed(api, events)
    for holder in [*events, *[each for event in events for each in event.get("candidates", ())]]:
        if "index" in holder:
            holder["index"] += first

    assert streamed(api, events) == turn


@pytest.mark.parametrize("field", ["type", "index", "delta", "content_block"])
@pytest.mark.parametrize("value", [*WRONG, "absent"], ids=repr)
def test_an_event_of_anthropic_without_what_it_needs_is_an_error_or_changes_nothing(field: str, value: Any) -> None:
    (api, _), wrong = APIS, {field: value}
    events = message_events(MESSAGE)
    turn = streamed(api, events)
    for position, event in enumerate(events):
        if field in event and event.get("type") not in ("message_start", "message_delta"):
            mutated = {key: each for key, each in {**event, **wrong}.items() if each != "absent"}
            found = streamed(api, [*events[:position], mutated, *events[position + 1 :]])
            if field == "type" and value == "5":
                continue  # a later version of the API may have events of other types
            assert found in (turn, ERROR), mutated
