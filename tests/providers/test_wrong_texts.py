"""What a model said, in a wrong type: an error in every API, whole and streamed, and never an answer or a call without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.responses import message, response
from tests.support.wire_streams import as_events, turn_of
from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.providers.openai import wire as openai_wire
from understudy.providers.openai.responses import answer as responses_answer
from understudy.vocabulary.messages import JsonObject, ModelTurn

WRONG = [5, 0, True, False, [], ["x"], {}, {"value": "the answer"}]
Made = Callable[[Any], Any]
"""From a value in the place of a text, or of what holds it: a body, or the events of a stream."""


def chat(choice: dict[str, Any]) -> JsonObject:
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}]}


def blocks(*content: dict[str, Any]) -> JsonObject:
    return {"content": list(content), "stop_reason": "end_turn"}


def candidate(content: Any) -> JsonObject:
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def item(content: dict[str, Any]) -> JsonObject:
    return response({"type": "message", "content": [content]})


DECODERS: dict[str, Callable[[JsonObject], ModelTurn]] = {
    "openai": openai_wire.decode,
    "openai-responses": responses_answer.decode,
    "anthropic": anthropic_wire.decode,
    "gemini": google_wire.decode,
}
BODIES: list[tuple[str, Made]] = [
    ("openai", lambda v: chat({"message": {"content": [{"type": "text", "text": v}]}})),
    ("openai", lambda v: chat({"message": {"content": None, "refusal": v}})),
    ("openai-responses", lambda v: item({"type": "output_text", "text": v})),
    ("openai-responses", lambda v: item({"type": "refusal", "refusal": v})),
    ("anthropic", lambda v: blocks({"type": "text", "text": v})),
    ("anthropic", lambda v: blocks({"type": "thinking", "thinking": v, "signature": "s"})),
    ("gemini", lambda v: candidate({"parts": [{"text": v}]})),
    ("gemini", lambda v: candidate({"parts": [{"text": v, "thought": True}]})),
]


def delta(kind: str, value: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": 0, "content_index": 0, "delta": value}


def block(start: dict[str, Any], *deltas: Any) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": start},
        *[{"type": "content_block_delta", "index": 0, "delta": each} for each in deltas],
        {"type": "content_block_stop", "index": 0},
    ]


TEXT: dict[str, Any] = {"type": "text", "text": "Hel"}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Hm"}
CALL: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
ENDS: dict[str, list[Any]] = {
    "openai": [chat({"delta": {}}), "[DONE]"],
    "openai-responses": [{"type": "response.completed", "response": response()}],
    "anthropic": [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}],
    "gemini": [],
}
STREAMS: list[tuple[str, Made]] = [
    ("openai", lambda v: [chat({"delta": {"content": [{"type": "text", "text": v}]}})]),
    ("openai", lambda v: [chat({"delta": {"refusal": "No"}, "finish_reason": None}), chat({"delta": {"refusal": v}})]),
    ("openai-responses", lambda v: [delta("output_text", "Hel"), delta("output_text", v)]),
    ("openai-responses", lambda v: [delta("refusal", "No"), delta("refusal", v)]),
    ("openai-responses", lambda v: [delta("reasoning_text", v)]),
    ("openai-responses", lambda v: [{**delta("reasoning_summary_text", v), "summary_index": 0}]),
    (
        "openai-responses",
        lambda v: [
            {
                "type": "response.content_part.added",
                "output_index": 0,
                "part": {"type": "output_text", "text": v},
            }
        ],
    ),
    (
        "openai-responses",
        lambda v: [
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {**message(), "content": [{"type": "output_text", "text": v}]},
            }
        ],
    ),
    ("anthropic", lambda v: block({"type": "text", "text": v})),
    ("anthropic", lambda v: block({"type": "thinking", "thinking": v})),
    ("anthropic", lambda v: block(TEXT, {"type": "text_delta", "text": v})),
    ("anthropic", lambda v: block(THOUGHT, {"type": "thinking_delta", "thinking": v})),
    ("anthropic", lambda v: block(CALL, {"type": "input_json_delta", "partial_json": v})),
    ("gemini", lambda v: [candidate({"parts": [{"text": "Hel"}]}), candidate({"parts": [{"text": v}]})]),
]


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(("api", "body"), BODIES)
def test_a_text_of_a_wrong_type_is_no_answer(api: str, body: Made, value: Any) -> None:
    with pytest.raises(ValueError, match="must be a string, got"):
        DECODERS[api](body(value))


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(("api", "events"), STREAMS)
def test_a_piece_of_a_wrong_type_ends_the_stream(api: str, events: Made, value: Any) -> None:
    with pytest.raises(ValueError, match="must be a string, got"):
        turn_of(api, as_events(*events(value), *ENDS[api]))


@pytest.mark.parametrize("value", ["the answer", 5, ["x"], True])
def test_what_holds_a_text_must_be_an_object_if_it_is_there(value: Any) -> None:
    for api, body in (("openai", chat({"message": value})), ("gemini", candidate(value))):
        with pytest.raises(ValueError, match="must be an object, got"):
            DECODERS[api](body)
    for api, events in (
        ("openai", [chat({"delta": value})]),
        ("openai", [chat({"message": value})]),
        ("anthropic", block(TEXT, value)),
        ("gemini", [candidate(value)]),
    ):
        with pytest.raises(ValueError, match="must be an object, got"):
            turn_of(api, as_events(*events, *ENDS[api]))


def test_a_text_that_an_api_leaves_out_or_sends_as_null_is_empty() -> None:
    turns = [DECODERS[api](body(None)) for api, body in BODIES]
    turns += [turn_of(api, as_events(*events(None), *ENDS[api])) for api, events in STREAMS]

    assert {turn.text for turn in turns} == {"", "Hel"}


# --- calls of tools


def called(**fields: Any) -> dict[str, Any]:
    return {"message": {"tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}", **fields}}]}}


def grown(*pieces: dict[str, Any]) -> list[Any]:
    """Write a chunk of a chat completion for each piece of a call."""
    return [{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **piece}]}}]} for piece in pieces]


ADDED = {"type": "response.output_item.added", "output_index": 0}
ITEM = {"type": "function_call", "call_id": "a", "name": "look", "arguments": ""}
NAMES: list[tuple[str, Made]] = [
    ("openai", lambda v: chat(called(name=v))),
    ("openai", lambda v: chat({"message": {"function_call": {"name": v, "arguments": "{}"}}})),
    ("openai-responses", lambda v: response({**ITEM, "name": v})),
    ("anthropic", lambda v: blocks({**CALL, "name": v})),
    ("gemini", lambda v: candidate({"parts": [{"functionCall": {"name": v, "args": {}}}]})),
]
STREAMED_NAMES: list[tuple[str, Made]] = [
    ("openai-responses", lambda v: [{**ADDED, "item": {**ITEM, "name": v}}]),
    ("anthropic", lambda v: block({**CALL, "name": v})),
    ("gemini", lambda v: [candidate({"parts": [{"functionCall": {"name": v, "args": {}}}]})]),
]
TYPES: list[tuple[str, Made]] = [
    ("openai-responses", lambda v: response({**ITEM, "type": v})),
    ("anthropic", lambda v: blocks({"type": v, "text": "the answer"})),
]
STREAMED_TYPES: list[tuple[str, Made]] = [
    ("openai-responses", lambda v: [{**ADDED, "type": "response.output_item.done", "item": {**ITEM, "type": v}}]),
    ("anthropic", lambda v: block({"type": v, "text": "the answer"})),
    ("anthropic", lambda v: block(TEXT, {"type": v, "text": "lo"})),
]
LEGACY = {"choices": [{"index": 0, "delta": {"function_call": {"name": "look", "arguments": '{"word": "a'}}}]}
HOLDERS: list[tuple[str, Made]] = [
    ("openai", lambda v: grown({"function": {"name": "look", "arguments": '{"word": "a'}}, {"function": v})),
    ("openai", lambda v: [LEGACY, {"choices": [{"index": 0, "delta": {"function_call": v}}]}]),
]
ARGUMENTS: list[tuple[str, Made]] = [
    ("openai", lambda v: HOLDERS[0][1]({"arguments": v})),
    ("openai", lambda v: HOLDERS[1][1]({"arguments": v})),
    (
        "openai-responses",
        lambda v: [{**ADDED, "item": ITEM}, *[delta("function_call_arguments", each) for each in ('{"word": "a', v)]],
    ),
]
PLACES: list[tuple[str, Made]] = [
    ("openai", lambda v: [chat({"index": v, "delta": {"content": "Hel"}})]),
    ("openai", lambda v: grown({"id": "a", "index": v, "function": {"name": "look", "arguments": "{}"}})),
    ("gemini", lambda v: [{"candidates": [{"index": v, "content": {"parts": [{"text": "Hel"}]}}]}]),
]


@pytest.mark.parametrize("value", [*WRONG, None], ids=repr)
def test_a_call_names_its_tool(value: Any) -> None:
    for api, body in NAMES:
        with pytest.raises(ValueError, match="must be a string, got"):
            DECODERS[api](body(value))
    for api, events in STREAMED_NAMES:
        with pytest.raises(ValueError, match="must be a string, got"):
            turn_of(api, as_events(*events(value), *ENDS[api]))


def test_an_empty_name_is_a_mistake_of_the_model_which_is_told_of_it() -> None:
    for api, body in NAMES:
        assert [call.name for call in DECODERS[api](body("")).tool_calls] == [""]


@pytest.mark.parametrize("value", [*WRONG, None, ""], ids=repr)
def test_whatever_a_model_said_has_a_type(value: Any) -> None:
    for api, body in TYPES:
        with pytest.raises(ValueError, match="must be a string, got|must not be empty"):
            DECODERS[api](body(value))
    for api, events in STREAMED_TYPES:
        with pytest.raises(ValueError, match="must be a string, got|must not be empty"):
            turn_of(api, as_events(*events(value), *ENDS[api]))


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_piece_of_arguments_of_a_wrong_type_does_not_change_them(value: Any) -> None:
    for api, events in ARGUMENTS:
        with pytest.raises(ValueError, match="must be a string, got"):
            turn_of(api, as_events(*events(value), *ENDS[api]))


@pytest.mark.parametrize("value", [5, True, "x", ["x"]], ids=repr)
def test_what_holds_a_call_must_be_an_object(value: Any) -> None:
    for api, events in HOLDERS:
        with pytest.raises(ValueError, match="must be an object, got"):
            turn_of(api, as_events(*events(value), *ENDS[api]))
    with pytest.raises(ValueError, match="must be an object, got"):
        DECODERS["gemini"](candidate({"parts": [{"functionCall": value}]}))
    with pytest.raises(ValueError, match="must be an object, got"):
        DECODERS["openai"](chat({"message": {"function_call": value}}))


@pytest.mark.parametrize("value", ["0", 1.5, -1, True, False, [], {}], ids=repr)
def test_what_has_no_place_among_the_others_ends_the_stream(value: Any) -> None:
    for api, events in PLACES:
        with pytest.raises(ValueError, match="must be a whole number from 0, got"):
            turn_of(api, as_events(*events(value), *ENDS[api]))


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("openai-responses", {"status": "completed"}),
        ("openai-responses", {"status": "completed", "output": None}),
        ("openai-responses", {"output": None}),
        ("anthropic", {"content": None, "stop_reason": "end_turn"}),
    ],
)
def test_an_answer_that_is_complete_says_what_the_model_said(api: str, body: JsonObject) -> None:
    with pytest.raises(ValueError, match=r"(output|content) must be an array"):
        DECODERS[api](body)
