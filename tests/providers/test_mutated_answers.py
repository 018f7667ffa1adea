"""Answers as careless servers write them: the same turn or a named error, no call twice, and nothing lost in silence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.mutated_answers import (
    Change,
    Events,
    everywhere,
    instead,
    of_ids,
    of_indexes,
    what_came,
)
from tests.support.responses import response
from tests.support.wire_streams import as_events, read, reader_of, turn_of
from understudy.providers.openai.responses.answer import decode as decode_response
from understudy.providers.openai.wire import decode as decode_completion
from understudy.vocabulary.messages import ModelTurn
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
each_answer = pytest.mark.parametrize(("api", "answer"), list(ANSWERS))


def whole(api: str, body: Any) -> object:
    return what_came(lambda: DECODERS[api](body))


def stream(api: str, events: Events) -> object:
    return what_came(lambda: turn_of(api, as_events(*events, "[DONE]")))


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


HARMLESS: dict[str, Change] = {
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


@each_answer
@pytest.mark.parametrize("change", HARMLESS)
def test_a_change_that_takes_nothing_away_changes_nothing(api: str, answer: str, change: str) -> None:
    events, body = ANSWERS[api, answer]

    assert stream(api, HARMLESS[change](events)) == whole(api, body)


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
