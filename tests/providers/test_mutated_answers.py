"""Answers as careless servers write them: the same turn or a named error, no call twice, and nothing lost in silence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

import pytest

from tests.support.mutated_answers import (
    Change,
    Events,
    everywhere,
    instead,
    missing,
    of_ids,
    of_indexes,
    of_lost_indexes,
    of_types,
    what_came,
)
from tests.support.responses import response
from tests.support.wire_streams import as_events, read, reader_of, turn_of
from understudy.providers.openai.responses.answer import decode as decode_response
from understudy.providers.openai.wire import decode as decode_completion
from understudy.vocabulary.messages import ModelTurn, ToolCall
from understudy.vocabulary.pieces import CallPiece

CHAT, RESPONSES = "openai", "openai-responses"
DECODERS: dict[str, Callable[[Any], ModelTurn]] = {CHAT: decode_completion, RESPONSES: decode_response}


# Chat completions


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(id: str, arguments: str, name: str = "add", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def more(index: int, arguments: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def begun(index: int, id: str, arguments: str = "") -> dict[str, Any]:
    return chunk({"tool_calls": [call(id, arguments, index=index)]})


def completion(message: dict[str, Any], finish: str) -> dict[str, Any]:
    return {
        "id": "c",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
        ],
    }


ONE, TWO = call("a", '{"n": 1}'), call("b", '{"n": 2}')
CHATS: dict[str, tuple[Events, dict[str, Any]]] = {
    "thought and text": (
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "Hm"}),
            chunk({"content": "He"}),
            chunk({"content": "y"}),
            chunk({}, "stop"),
        ],
        completion({"content": "Hey", "reasoning_content": "Hm"}, "stop"),
    ),
    "refusal": ([chunk({"refusal": "No."}), chunk({}, "stop")], completion({"refusal": "No."}, "stop")),
    "one call": (
        [begun(0, "a"), more(0, '{"n"'), more(0, ": 1}"), chunk({}, "tool_calls")],
        completion({"tool_calls": [ONE]}, "tool_calls"),
    ),
    "text and two calls": (
        [
            chunk({"content": "I add."}),
            *[begun(0, "a"), more(0, '{"n": '), more(0, "1}")],
            *[begun(1, "b", '{"n"'), more(1, ": 2}")],
            chunk({}, "tool_calls"),
        ],
        completion({"content": "I add.", "tool_calls": [ONE, TWO]}, "tool_calls"),
    ),
    "calls in one chunk": (
        [chunk({"tool_calls": [{**ONE, "index": 0}, {**TWO, "index": 1}]}, "tool_calls")],
        completion({"tool_calls": [ONE, TWO]}, "tool_calls"),
    ),
}

# Responses

THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]}
SAID: dict[str, Any] = {
    "type": "message",
    "id": "msg",
    "content": [{"type": "output_text", "text": "Hey", "annotations": []}],
}
SEARCH: dict[str, Any] = {"type": "web_search_call", "id": "ws", "status": "completed"}
FIRST: dict[str, Any] = {"type": "function_call", "id": "f1", "call_id": "a", "name": "add", "arguments": '{"n": 1}'}
SECOND: dict[str, Any] = {**FIRST, "id": "f2", "call_id": "b", "arguments": '{"n": 2}'}


def of_item(index: int, item: dict[str, Any]) -> Events:
    """Return the events of an item."""
    at = {"output_index": index, "item_id": item["id"]}
    match item["type"]:
        case "message":
            begin: dict[str, Any] = {**item, "content": []}
            pieces = [{"type": "response.output_text.delta", "content_index": 0, "delta": d, **at} for d in ("He", "y")]
        case "function_call":
            begin, given = {**item, "arguments": ""}, item["arguments"]
            pieces = [
                *[{"type": "response.function_call_arguments.delta", "delta": d, **at} for d in (given[:4], given[4:])],
                {"type": "response.function_call_arguments.done", "arguments": given, **at},
            ]
        case "reasoning":
            begin = {**item, "summary": []}
            pieces = [{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "Hm", **at}]
        case _:
            begin, pieces = item, []
    end = {"type": "response.output_item.done", "output_index": index, "item": item}
    return [{"type": "response.output_item.added", "output_index": index, "item": begin}, *pieces, end]


def streamed(*output: dict[str, Any]) -> tuple[Events, dict[str, Any]]:
    """Return the events of a response, and the response."""
    body = response(*output)
    start: dict[str, Any] = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
    items = [event for index, item in enumerate(output) for event in of_item(index, item)]
    return [start, *items, {"type": "response.completed", "response": body}], body


RESPONSE_ANSWERS: dict[str, tuple[Events, dict[str, Any]]] = {
    "text": streamed(SAID),
    "one call": streamed(FIRST),
    "thought, search and text": streamed(THOUGHT, SEARCH, SAID),
    "thought, text and two calls": streamed(THOUGHT, SAID, FIRST, SECOND),
}
ANSWERS = {
    **{(CHAT, name): answer for name, answer in CHATS.items()},
    **{(RESPONSES, name): answer for name, answer in RESPONSE_ANSWERS.items()},
}


def whole(api: str, body: Any) -> object:
    return what_came(lambda: DECODERS[api](body))


def stream(api: str, events: Events) -> object:
    return what_came(lambda: turn_or_error(api, as_events(*events, "[DONE]")))


def turn_or_error(api: str, body: bytes) -> ModelTurn:
    """Return the turn of a body; a body without the end of its turn is the error that the client makes of it."""
    reader = reader_of(api)
    for _ in (*reader.feed(body), *reader.finish()):
        pass
    return reader.turn()


# Changes that take nothing away: the turn is the same.


def finish_reason_everywhere(events: Events) -> Events:
    """Put the last finish reason on every chunk."""
    reasons = [choice["finish_reason"] for event in events for choice in event.get("choices", ())]
    return everywhere(("finish_reason",), lambda _: reasons[-1])(events) if reasons else events


def role_everywhere(events: Events) -> Events:
    return [
        {**e, "choices": [{**c, "delta": {"role": "assistant", **c["delta"]}} for c in e["choices"]]}
        if "choices" in e
        else e
        for e in events
    ]


def usage_everywhere(events: Events) -> Events:
    return [{**e, "usage": {"prompt_tokens": 1}} if "choices" in e else e for e in events]


def call_fields_on_each_piece(events: Events) -> Events:
    """Repeat id and name of a call with each piece of its arguments."""
    known: dict[int, dict[str, Any]] = {}
    made: Events = []
    for event in events:
        entries = [e for c in event.get("choices", ()) for e in c["delta"].get("tool_calls", ())]
        for entry in entries:
            known.setdefault(entry["index"], entry)
        filled = [
            {**known[e["index"]], **e, "function": {**known[e["index"]]["function"], **e["function"]}} for e in entries
        ]
        made += everywhere(("tool_calls",), partial(instead, filled))([event])
    return made


def with_pings(events: Events) -> Events:
    ping: dict[str, Any] = {"type": "keepalive"}
    return [each for event in events for each in (ping, event)]


def calls_in_reverse(events: Events) -> Events:
    """Turn the calls of each chunk round: their indexes tell their order."""
    return everywhere(("tool_calls",), lambda calls: calls[::-1])(events)


def _parts_of(events: Events) -> tuple[Any, list[Events], Any]:
    """Return the first event of a response, the events of each item, and the last event."""
    by_item: dict[int, Events] = {}
    for event in events[1:-1]:
        by_item.setdefault(event["output_index"], []).append(event)
    return events[0], list(by_item.values()), events[-1]


def items_that_interleave(events: Events) -> Events:
    first, items, last = _parts_of(events)
    return [first, *[e for row in zip_longest(*items) for e in row if e is not None], last]


def items_in_reverse(events: Events) -> Events:
    """Turn the items round: their indexes tell their order."""
    first, items, last = _parts_of(events)
    return [first, *[event for item in items[::-1] for event in item], last]


def only_at_the_end(events: Events) -> Events:
    return [events[0], events[-1]]


def without_deltas(events: Events) -> Events:
    return [event for event in events if "delta" not in event]


def deltas_alone(events: Events) -> Events:
    return [event for event in events if "item" not in event]


def hidden(position: int, *, counted_on: bool) -> Change:
    """Return the change that leaves out the events of one item; those behind it may be counted without it."""

    def change(events: Events) -> Events:
        first, items, last = _parts_of(events)
        left = [item for place, item in enumerate(items) if place != position]
        if not counted_on:
            left = [everywhere(("output_index",), partial(instead, place))(item) for place, item in enumerate(left)]
        return [first, *[event for item in left for event in item], last]

    return change


def other_ids_at_the_end(events: Events) -> Events:
    return [*events[:-1], *of_ids(("id",))["new in each event"](events[-1:])]


def last_event_in_reverse(events: Events) -> Events:
    return [*events[:-1], *everywhere(("output",), lambda output: output[::-1])(events[-1:])]


def nothing_in_the_last_event(events: Events) -> Events:
    return [*events[:-1], *everywhere(("output",), lambda _: [])(events[-1:])]


ITEMS: dict[str, Change] = {
    "as they are": lambda events: events,
    "items interleave": items_that_interleave,
    "items in reverse": items_in_reverse,
    "only in the last event": only_at_the_end,
    "no deltas": without_deltas,
    "deltas alone": deltas_alone,
    "other ids in the last event": other_ids_at_the_end,
    "the last event in reverse": last_event_in_reverse,
    "nothing in the last event": nothing_in_the_last_event,
    **{f"item {n} is hidden": hidden(n, counted_on=True) for n in range(4)},
    **{f"item {n} is hidden and not counted": hidden(n, counted_on=False) for n in range(4)},
}
INDEXES = {"counted from 0": ITEMS["as they are"], **of_indexes(("output_index",))}


@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("change", ITEMS)
def test_items_are_known_by_id_and_content_and_not_by_their_place(indexes: str, change: str) -> None:
    for answer, (events, body) in RESPONSE_ANSWERS.items():
        turn = turn_or_error(RESPONSES, as_events(*INDEXES[indexes](ITEMS[change](events))))

        assert kinds_of(turn) == kinds_of(decode_response(body)), answer


def kinds_of(turn: ModelTurn) -> list[object]:
    """Return the parts of a turn in their order, without ids that a server may change."""
    return [(part.name, part.arguments) if isinstance(part, ToolCall) else part for part in turn.parts]


HARMLESS: dict[str, Change] = {
    "calls of a chunk in reverse": calls_in_reverse,
    **{f"indexes {how}": change for how, change in of_indexes(("index", "output_index")).items()},
    **{f"ids of items {how}": change for how, change in of_ids(("item_id", "id")).items()},
    "a finish reason everywhere": finish_reason_everywhere,
    "a role everywhere": role_everywhere,
    "counts everywhere": usage_everywhere,
    "id and name on each piece": call_fields_on_each_piece,
    "pings": with_pings,
}


def test_the_answers_are_the_same_whole_and_streamed() -> None:
    for (api, _), (events, body) in ANSWERS.items():
        assert stream(api, events) == whole(api, body) != "an error"


@pytest.mark.parametrize("change", HARMLESS)
def test_a_change_that_takes_nothing_away_changes_nothing(change: str) -> None:
    for (api, answer), (events, body) in ANSWERS.items():
        assert stream(api, HARMLESS[change](events)) == whole(api, body), answer


# Changes that may take something away: an error, or the turn. What a field has lost is lost; nothing else is, and no call is made up.

COUNTED = ("index", "output_index", "content_index", "summary_index")
NAMED = ("id", "call_id", "item_id")
HELD = (
    "choices",
    "delta",
    "message",
    "tool_calls",
    "function",
    "type",
    "item",
    "output",
    "response",
    "output_index",
    "index",
)
LOSSY: dict[str, Change] = {
    **{f"{key} {how}": change for key in COUNTED for how, change in of_lost_indexes((key,)).items()},
    **{f"{key} {how}": change for key in NAMED for how, change in of_ids((key,)).items()},
    **{f"all ids {how}": change for how, change in of_ids(NAMED).items()},
    **{how: change for how, change in of_types(HELD).items() if not how.startswith("delta is")},
    **missing(HELD),
}
EMPTY = {
    "message is {}",
    "message is {'value': 'x'}",
    "tool_calls is []",
    "tool_calls is None",
    "no tool_calls",
    "output is []",
    "type is 'text'",
}
"""Changes that leave a whole answer as a server may mean it: empty, without its calls, or with items of an unknown type, which are kept."""


@pytest.mark.parametrize("change", LOSSY)
def test_nothing_is_lost_in_silence_and_no_call_is_made_up(change: str) -> None:
    for (api, answer), (events, body) in ANSWERS.items():
        in_pieces = stream(api, LOSSY[change](events))
        at_once = whole(api, LOSSY[change]([body])[0])

        allowed = [whole(api, body), "an error", *([at_once] if change in EMPTY else [])]
        assert in_pieces in allowed, (api, answer)
        assert at_once in allowed, (api, answer)


# Calls that come twice


def chat_calls(*calls: dict[str, Any]) -> tuple[Events, dict[str, Any]]:
    """Return an answer with these calls, each whole and under an index of its own."""
    events = [chunk({"tool_calls": [{**each, "index": index}]}) for index, each in enumerate(calls)]
    return [*events, chunk({}, "tool_calls")], completion({"tool_calls": list(calls)}, "tool_calls")


def response_calls(*calls: dict[str, Any]) -> tuple[Events, dict[str, Any]]:
    return streamed(
        *[
            {
                "type": "function_call",
                "id": f"f{place}",
                "call_id": each["id"],
                "name": each["function"]["name"],
                "arguments": each["function"]["arguments"],
            }
            for place, each in enumerate(calls)
        ]
    )


PAIRS: list[tuple[tuple[tuple[str, str, str], ...], list[tuple[str, dict[str, Any]]]]] = [
    ((("a", "add", '{"n": 1}'), ("a", "add", '{"n": 1}')), [("add", {"n": 1})]),
    ((("a", "add", '{"n": 1, "m": 2}'), ("a", "add", '{"m":2,"n":1}')), [("add", {"n": 1, "m": 2})]),
    ((("a", "add", ""), ("a", "add", '{"n": 1}')), [("add", {"n": 1})]),
    ((("a", "add", " "), ("a", "add", '{"n": 1}')), [("add", {"n": 1})]),
    ((("a", "add", '{"n": 1}'), ("a", "add", "")), [("add", {"n": 1})]),
    ((("a", "add", '{"n"'), ("a", "add", '{"n": 1}')), [("add", {"n": 1})]),
    ((("a", "add", '{"n"'), ("a", "add", ": 1}")), [("add", {"n": 1})]),
    ((("a", "add", ""), ("a", "add", '{"n"'), ("a", "add", ": 1}")), [("add", {"n": 1})]),
    ((("a", "add", ""), ("a", "add", "")), [("add", {})]),
    ((("a", "add", '{"n": 1}'), ("a", "add", '{"n": 5}')), [("add", {"n": 1}), ("add", {"n": 5})]),
    (
        (("a", "add", '{"n": 1}'), ("a", "add", '{"n": 5}'), ("a", "add", '{"n": 5}')),
        [("add", {"n": 1}), ("add", {"n": 5})],
    ),
    ((("a", "add", '{"n": 1}'), ("b", "add", '{"n": 1}')), [("add", {"n": 1}), ("add", {"n": 1})]),
    ((("a", "add", '{"n": 1}'), ("a", "sum", '{"n": 1}')), [("add", {"n": 1}), ("sum", {"n": 1})]),
    ((("", "add", '{"n": 1}'), ("", "add", '{"n": 1}')), [("add", {"n": 1}), ("add", {"n": 1})]),
    ((("", "add", ""), ("", "sum", '{"n": 1}')), [("add", {}), ("sum", {"n": 1})]),
]


@pytest.mark.parametrize(("calls", "expected"), PAIRS)
@pytest.mark.parametrize("made", [chat_calls, response_calls])
def test_two_calls_are_one_by_their_id_name_and_arguments(
    made: Callable[..., tuple[Events, Any]],
    calls: tuple[tuple[str, str, str], ...],
    expected: list[tuple[str, dict[str, Any]]],
) -> None:
    api = CHAT if made is chat_calls else RESPONSES
    if api == RESPONSES and not calls[0][0]:
        return  # an item without the id of its call has its own, and each item here has another
    events, body = made(*[call(id, arguments, name) for id, name, arguments in calls])

    for turn in (DECODERS[api](body), turn_of(api, as_events(*events, "[DONE]"))):
        assert [(each.name, each.arguments, each.bad_arguments) for each in turn.tool_calls] == [
            (name, arguments, None) for name, arguments in expected
        ]


def test_a_piece_without_an_index_belongs_to_the_call_of_its_id() -> None:
    def piece(id: str, arguments: str, **more: str) -> dict[str, Any]:
        return chunk({"tool_calls": [{"id": id, "function": {"arguments": arguments, **more}}]})

    begin = [piece("a", "", name="add"), piece("b", "", name="add")]
    turn = turn_of(CHAT, as_events(*begin, piece("a", '{"n": 1}'), piece("b", '{"n": 2}'), chunk({}, "tool_calls")))

    assert [(each.id, each.arguments) for each in turn.tool_calls] == [("a", {"n": 1}), ("b", {"n": 2})]


def test_readers_see_a_call_that_comes_twice_once() -> None:
    events, _ = chat_calls(ONE, ONE)

    pieces = list(read(reader_of(CHAT), [as_events(*events)]))

    assert [piece.name for piece in pieces if isinstance(piece, CallPiece)] == ["add"]
