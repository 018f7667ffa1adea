"""Streams as APIs and compatible servers write them, each with the turn that the same answer gives when it comes whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.wire import obj
from tests.support.wire_streams import LONGEST, as_events, decoded_whole, read, reader_of, turn_of
from understudy.errors import AuthenticationError, ContextOverflow, ProviderError, ProviderTimeout, RateLimited
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.google.wire import decode as decode_google
from understudy.providers.http.errors import embedded_failure
from understudy.providers.http.stream_reader import StreamReader
from understudy.providers.openai.responses.answer import decode as decode_response
from understudy.providers.openai.stream import OpenAIStream
from understudy.providers.openai.wire import decode as decode_openai
from understudy.vocabulary.messages import (
    JsonObject,
    ModelTurn,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)
from understudy.vocabulary.pieces import CallPiece, TextPiece, UsagePiece, pieces_of


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk of a chat completion."""
    return {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def calling(index: int | None, arguments: Any = "", **named: str) -> dict[str, Any]:
    """Return a delta with a piece of a call."""
    function = {"arguments": arguments, **({"name": named["name"]} if "name" in named else {})}
    entry = {"function": function, **({"id": named["id"]} if "id" in named else {})}
    return {"tool_calls": [entry if index is None else {"index": index, **entry}]}


def completion(message: dict[str, Any], finish: str = "stop", **more: Any) -> ModelTurn:
    """Return what blocking `decode` makes of a message."""
    return decode_openai({"id": "c1", "model": "m", "choices": [{"message": message, "finish_reason": finish}], **more})


def openai(*events: Any) -> ModelTurn:
    return turn_of("openai", as_events(*events, "[DONE]"))


# OpenAI and compatible servers


def test_text_may_hold_every_character_that_splits_lines_elsewhere() -> None:
    odd = "a\u2028b\u2029c\u0085d\x1ee\r\nf"

    assert openai(chunk({"role": "assistant", "content": odd}), chunk({}, "stop")).text == odd
    raw = 'data: {"choices": [{"delta": {"content": "a\u2028b\u0085"}, "finish_reason": "stop"}]}\n\n'.encode()
    assert turn_of("openai", raw).text == "a\u2028b\u0085"


SEA: dict[str, Any] = {"id": "a", "function": {"name": "on_shelf", "arguments": '{"sku": "A"}'}}
LAND: dict[str, Any] = {"id": "b", "function": {"name": "on_shelf", "arguments": '{"sku": "B"}'}}


@pytest.mark.parametrize(
    "deltas",
    [
        [calling(0, "", id="a", name="on_shelf"), calling(0, '{"sku'), calling(0, '": "A"}')],
        [calling(0, '{"sku": "A"}', id="a", name="on_shelf")],
        [calling(0, p, id="a", name="on_shelf") for p in ("", '{"sku": ', '"A"', "}", "")],
        [calling(None, p, id="a", name="on_shelf") for p in ('{"sku": ', '"A"}')],
        [calling(None, '{"sku": ', id="a", name="on_shelf"), calling(None, '"A"}')],
        [calling(0, None, id="a"), calling(0, None, name="on_shelf"), calling(0, '{"sku": "A"}')],
        [calling(0, {"sku": "A"}, id="a", name="on_shelf")],
        [calling(0, '{"sku": ', id="a", name="on_shelf"), calling(0, '"A"}', id="changes")],
    ],
    ids=[
        "OpenAI's own",
        "a whole call in one piece",
        "id and name on every piece",
        "the same without an index",
        "an index nowhere",
        "id and name apart",
        "arguments as an object",
        "an id that changes",
    ],
)
def test_a_call_is_put_together_in_the_form_of_each_server(deltas: list[Any]) -> None:
    turn = openai(*[chunk(delta) for delta in deltas], chunk({}, "tool_calls"))

    assert turn == completion({"content": None, "tool_calls": [SEA]}, "tool_calls")


@pytest.mark.parametrize(
    "deltas",
    [
        [calling(0, "", id="a", name="on_shelf"), calling(1, "", id="b", name="on_shelf")]
        + [calling(0, '{"sku": "A"}'), calling(1, '{"sku": "B"}')],
        [calling(1, '{"sku": "B"}', id="b", name="on_shelf"), calling(0, '{"sku": "A"}', id="a", name="on_shelf")],
        [calling(0, '{"sku": "A"}', id="a", name="on_shelf"), calling(0, '{"sku": "B"}', id="b", name="on_shelf")],
        [
            calling(None, '{"sku": "A"}', id="a", name="on_shelf"),
            calling(None, '{"sku": "B"}', id="b", name="on_shelf"),
        ],
        [{"tool_calls": [{"index": 0, **SEA}, {"index": 1, **LAND}]}],
    ],
    ids=["interleaved", "the second one first", "whole under one index", "without an index", "in one delta"],
)
def test_several_calls_keep_apart_and_in_order(deltas: list[Any]) -> None:
    turn = openai(*[chunk(delta) for delta in deltas], chunk({}, "tool_calls"))

    assert turn == completion({"content": None, "tool_calls": [SEA, LAND]}, "tool_calls")


def test_whole_calls_without_ids_keep_apart_under_one_index() -> None:
    one, two = calling(0, '{"n": 1}', name="count"), calling(0, '{"n": 2}', name="count")

    turn = openai(chunk(one), chunk(two), chunk({}, "tool_calls"))

    assert [call.arguments for call in turn.tool_calls] == [{"n": 1}, {"n": 2}]


def test_a_reader_is_told_the_name_and_id_of_a_call_once() -> None:
    body = as_events(*[chunk(calling(0, p, id="a", name="f")) for p in ("{", "}", "")], chunk({}, "stop"))

    pieces = [piece for piece in read(reader_of("openai"), [body]) if isinstance(piece, CallPiece)]

    assert [(piece.id, piece.name, piece.arguments) for piece in pieces] == [("a", "f", "{"), ("", "", "}")]


def test_text_reasoning_and_calls_stand_in_the_order_of_the_whole_answer() -> None:
    body = as_events(
        chunk({"reasoning": "Hm", "content": ""}),
        chunk(calling(0, "{}", id="a", name="f")),
        chunk({"content": "Let me "}),
        chunk({"reasoning": "m."}),
        chunk({"content": "look."}, "tool_calls"),
        "[DONE]",
    )

    turn = turn_of("openai", body)

    assert [type(part) for part in turn.parts] == [ReasoningPart, TextPart, ToolCall]
    assert turn == decoded_whole("openai", body)


@pytest.mark.parametrize("both", [True, False])
def test_reasoning_of_deepseek_goes_back_in_its_own_field(both: bool) -> None:
    thought = {"reasoning_content": "Hm", **({"reasoning": "Hm"} if both else {})}

    turn = openai(chunk({"content": None, **thought}), chunk({"content": "Hi"}, "stop"))

    assert turn == completion({"content": "Hi", **thought})
    assert turn.thinking == "Hm"


def test_a_refusal_is_no_text() -> None:
    turn = openai(chunk({"content": None, "refusal": "I "}), chunk({"refusal": "won't."}), chunk({}, "stop"))

    assert turn == completion({"content": None, "refusal": "I won't."})
    assert turn.refusal == "I won't."


def test_the_old_function_call_counts_only_without_calls() -> None:
    old = [{"function_call": {"name": "on_shelf", "arguments": '{"sku": '}}, {"function_call": {"arguments": '"A"}'}}]

    alone = openai(*[chunk(delta) for delta in old], chunk({}, "function_call"))
    beside = openai(chunk(old[0]), chunk({**old[1], "tool_calls": [{"index": 0, **SEA}]}), chunk({}, "tool_calls"))

    whole: dict[str, Any] = {"content": None, "function_call": {"name": "on_shelf", "arguments": '{"sku": "A"}'}}
    assert alone == completion(whole, "function_call")
    assert beside == completion({**whole, "tool_calls": [SEA]}, "tool_calls")


@pytest.mark.parametrize("field", ["thoughts", "reasoning_content", "reasoning"])
def test_reasoning_is_read_in_the_servers_own_field_and_in_the_usual_ones(field: str) -> None:
    chunks = as_events(chunk({field: "H"}), chunk({field: "m"}), chunk({"content": "Hi"}, "stop"))
    reader = StreamReader(OpenAIStream(field="thoughts"), provider="house", longest=LONGEST)
    list(read(reader, [chunks]))
    whole: JsonObject = {"choices": [{"message": {"content": "Hi", field: "Hm"}, "finish_reason": "stop"}]}

    assert reader.turn().parts == decode_openai(whole, field="thoughts").parts
    assert reader.turn().thinking == "Hm"


def test_the_first_choice_counts_and_others_interleave() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "length"}]}
    both = {"choices": [*other["choices"], {"index": 0, "delta": {"content": "es"}, "finish_reason": None}]}

    turn = openai(chunk({"content": "Y"}), other, both, chunk({}, "stop"), other)

    assert turn == completion({"content": "Yes"})


def test_a_whole_message_behind_its_deltas_repeats_them() -> None:
    message = {"choices": [{"index": 0, "message": {"content": "Yes", "refusal": None}, "finish_reason": "stop"}]}

    assert openai(chunk({"content": "Y"}), chunk({"content": "es"}), message) == completion({"content": "Yes"})


def test_a_call_under_the_same_index_that_repeats_one_without_its_id_is_that_call() -> None:
    entry = {"index": 0, "function": {"name": "add", "arguments": '{"n": 1}'}}

    turn = openai(chunk({"tool_calls": [{**entry, "id": "a"}]}), chunk({"tool_calls": [entry]}, "tool_calls"))

    assert [(call.id, call.name, call.arguments) for call in turn.tool_calls] == [("a", "add", {"n": 1})]


def test_an_empty_error_is_none() -> None:
    assert turn_of("openai", as_events({**chunk({"content": "Hi"}, "stop"), "error": {}}, "[DONE]")).text == "Hi"


def test_tokens_are_counted_in_a_chunk_without_choices_behind_the_end() -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 2}

    turn = openai(
        {"choices": [], "id": "", "model": "", "prompt_filter_results": []},
        chunk({"content": "Hi"}, usage=None),
        chunk({}, "stop"),
        {"choices": [], "usage": counts},
    )

    assert turn == completion({"content": "Hi"}, usage=counts)
    assert turn.usage.raw == counts


def test_what_follows_done_is_ignored_and_what_follows_a_reason_counts() -> None:
    more = chunk({"content": " more"}, "length")
    body = as_events(chunk({"content": "Hi"}, "stop"), more, "[DONE]", more, "no JSON", {"error": {"message": "late"}})

    assert turn_of("openai", body) == completion({"content": "Hi more"}, "length")


@pytest.mark.parametrize("events", [["[DONE]"], [chunk({}, "stop")], [chunk({}, "stop"), "[DONE]"]])
def test_a_chat_stream_ends_with_a_reason_or_with_done(events: list[Any]) -> None:
    assert turn_of("openai", as_events(chunk({"content": "Hi"}), *events)).text == "Hi"


def test_chunks_of_content_of_mistral_are_joined() -> None:
    def thinking(words: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": words}]}

    deltas = [{"content": [thinking("Hm")]}, {"content": [thinking("m.")]}, {"content": "H"}, {"content": "i"}]
    turn = openai(*[chunk(delta) for delta in deltas], chunk({}, "stop"))

    assert turn == completion({"content": [thinking("Hmm."), {"type": "text", "text": "Hi"}]})


def test_details_of_reasoning_of_openrouter_are_joined_and_kept() -> None:
    def detail(**more: Any) -> dict[str, Any]:
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]}

    deltas = [{"reasoning": "Hm", **detail(text="Hm")}, detail(text="m."), detail(signature="s"), {"content": "Hi"}]
    turn = openai(*[chunk(delta) for delta in deltas], chunk({}, "stop"))

    whole = detail(text="Hmm.", signature="s")
    assert turn == completion({"reasoning": "Hm", "content": "Hi", **whole})
    assert OpaquePart(whole) in turn.parts


# Anthropic


def block(index: int, start: Any, *deltas: Any) -> list[Any]:
    """Return the events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[Any], delta: Any = None, usage: Any = None) -> list[Any]:
    """Return the events of a message."""
    counts = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 4}
    start: dict[str, Any] = {
        "id": "msg",
        "model": "claude",
        "role": "assistant",
        "content": [],
        "usage": counts,
        "stop_reason": None,
    }
    return [
        {"type": "message_start", "message": start},
        {"type": "ping"},
        *[event for each in blocks for event in each],
        {
            "type": "message_delta",
            "delta": delta or {"stop_reason": "end_turn"},
            "usage": usage or {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


def same_as_whole(*events: Any) -> ModelTurn:
    body = as_events(*events)
    turn = turn_of("anthropic", body)
    assert turn == decoded_whole("anthropic", body)
    assert turn.usage.raw == decoded_whole("anthropic", body).usage.raw
    return turn


def test_blocks_keep_their_order_and_what_goes_back_with_them() -> None:
    turn = same_as_whole(
        *message(
            block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm"},
                {"type": "thinking_delta", "thinking": "m."},
                {"type": "signature_delta", "signature": "sig"},
            ),
            block(1, {"type": "redacted_thinking", "data": "xyz"}),
            block(2, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "only"}),
            block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me look."}),
            block(4, {"type": "tool_use", "id": "t", "name": "ping", "input": {}}),
            block(5, {"type": "text", "text": ""}),
            delta={"stop_reason": "tool_use"},
        )
    )

    assert [type(part) for part in turn.parts] == [ReasoningPart] * 3 + [TextPart, ToolCall, TextPart]
    assert turn.parts[2] == ReasoningPart("", "only")


def test_the_arguments_of_a_call_come_in_pieces_or_whole() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": each} for each in ("", '{"sku": ', '"A"}')]

    turn = same_as_whole(
        *message(
            block(0, {"type": "tool_use", "id": "a", "name": "on_shelf", "input": {}}, *pieces),
            block(1, {"type": "tool_use", "id": "b", "name": "on_shelf", "input": {"sku": "B"}}),
            delta={"stop_reason": "tool_use"},
        )
    )

    assert [call.arguments for call in turn.tool_calls] == [{"sku": "A"}, {"sku": "B"}]


def test_blocks_of_the_servers_own_tools_are_kept_whole() -> None:
    cut = [{"type": "input_json_delta", "partial_json": '{"query": "tr'}]
    result: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "Trees"}]}
    search: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}

    turn = same_as_whole(
        *message(
            block(0, search, {"type": "input_json_delta", "partial_json": '{"query": "trees"}'}),
            block(1, result),
            delta={"stop_reason": "pause_turn"},
        )
    )
    broken = turn_of("anthropic", as_events(*message(block(0, search, *cut))))

    assert turn.parts == (OpaquePart({**search, "input": {"query": "trees"}}), OpaquePart(result))
    assert turn.finish_reason == "paused"
    assert broken.parts == (OpaquePart({**search, "input": {"INVALID_JSON": '{"query": "tr'}}),)


def test_tokens_are_cumulative_and_one_left_out_keeps_its_count() -> None:
    body = as_events(
        *message(block(0, {"type": "text", "text": "Hi"}), usage={"output_tokens": 7, "input_tokens": None})
    )

    counts = [piece.usage for piece in read(reader_of("anthropic"), [body]) if isinstance(piece, UsagePiece)]

    assert counts == [Usage(14, 1, 4), Usage(14, 7, 4)]
    assert turn_of("anthropic", body).usage == Usage(14, 7, 4)


@pytest.mark.parametrize("late", [0, None])
def test_a_zero_takes_no_count_back(late: int | None) -> None:
    body = as_events(
        *message(block(0, {"type": "text", "text": "Hi"}), usage={"output_tokens": 7, "input_tokens": late})
    )
    details = {"cached_tokens": 3}
    counted = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}
    empty = {"prompt_tokens": late, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": late}}

    assert turn_of("anthropic", body).usage == Usage(14, 7, 4)
    assert openai(chunk({"content": "Hi"}, usage=counted), chunk({}, "stop", usage=empty)).usage == Usage(9, 2, 3)


def test_a_refusal_tells_its_reason() -> None:
    details = {"stop_reason": "refusal", "stop_details": {"explanation": "It is harmful."}}

    turn = same_as_whole(*message(block(0, {"type": "text", "text": "No"}), delta=details))

    assert (turn.finish_reason, turn.refusal) == ("blocked", "It is harmful.")


def test_unknown_events_deltas_and_citations_are_ignored_and_event_names_may_be_missing() -> None:
    cited: list[Any] = [
        {"type": "citations_delta", "citation": {}},
        {"type": "text_delta", "text": "Hi"},
        {"type": "later_delta"},
    ]
    events = [{"type": "later"}, *message(block(0, {"type": "text", "text": "", "citations": []}, *cited))]

    assert same_as_whole(*events).text == "Hi"


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "text_delta", "text": "!"},
        {"type": "input_json_delta", "partial_json": "{}"},
        {"type": "citations_delta", "citation": {}},
    ],
)
def test_what_is_said_for_a_block_of_another_kind_is_not_lost_in_silence(delta: dict[str, Any]) -> None:
    events = message(block(0, {"type": "thinking", "thinking": "Hm"}, delta))

    with pytest.raises(ValueError, match="must belong to a block of type .*, got thinking"):
        turn_of("anthropic", as_events(*events))


def test_a_block_of_a_kind_that_we_do_not_know_grows_by_its_deltas_and_goes_back_whole() -> None:
    begun = {"type": "compaction", "content": "So "}
    turn = turn_of("anthropic", as_events(*message(block(0, begun, {"type": "compaction_delta", "content": "far."}))))

    assert turn.parts == (OpaquePart({"type": "compaction", "content": "So far."}),)


def test_an_event_without_a_type_has_that_of_its_name() -> None:
    body = as_events(*message(block(0, {"type": "text", "text": "Hi"})))
    body = body.replace(b'data: {"type": "message_stop"}', b"event: message_stop\ndata: {}")

    assert turn_of("anthropic", body).text == "Hi"


# Google


def response(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a chunk of a generateContent stream."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts)} if parts else {}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "modelVersion": "g", **more}


def google(*events: Any) -> ModelTurn:
    return turn_of("gemini", as_events(*events).replace(b"\n", b"\r\n"))


def whole_google(*parts: Any, finish: str = "STOP", **more: Any) -> ModelTurn:
    candidate: Any = {"content": {"parts": list(parts)}, "finishReason": finish}
    return decode_google({"candidates": [candidate], "modelVersion": "g", **more})


def test_texts_without_a_signature_become_one_part_and_others_stay_apart() -> None:
    signed = {"text": "B", "thoughtSignature": "s"}

    turn = google(
        response({"text": "T1", "thought": True}),
        response({"text": "T2", "thought": True}, {"text": "A1"}),
        response({"text": "A2"}, signed),
        response({"text": "C1"}),
        response({"text": ""}, {"text": "C2"}),
        response({"text": "", "thoughtSignature": "z"}, finish="STOP"),
    )

    assert turn == whole_google(
        {"text": "T1T2", "thought": True},
        {"text": "A1A2"},
        signed,
        {"text": "C1C2"},
        {"text": "", "thoughtSignature": "z"},
    )


def test_calls_come_whole_and_other_parts_too() -> None:
    parts: list[Any] = [
        {"functionCall": {"name": "f", "args": {"n": 1}}, "thoughtSignature": "s"},
        {"functionCall": {"name": "g", "args": {}, "id": "given"}},
        {"executableCode": {"code": "1 + 1"}},
        {"text": "Done."},
    ]

    assert google(*[response(part) for part in parts], response({"text": ""}, finish="STOP")) == whole_google(*parts)


def test_a_finish_reason_in_the_middle_is_not_the_end() -> None:
    turn = google(response({"text": "A"}, finish="STOP"), response({"text": "B"}), response(finish="MAX_TOKENS"))

    assert turn == whole_google({"text": "AB"}, finish="MAX_TOKENS")
    assert list(_no_end("gemini", response({"text": "A"}, finish="STOP"), response({"text": "B"})))


def test_a_blocked_prompt_has_no_candidates() -> None:
    blocked: JsonObject = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "g"}

    turn = google(blocked)

    assert turn == decode_google(blocked)
    assert turn.finish_reason == "blocked"


def test_a_call_in_a_blocked_answer_is_blocked() -> None:
    part: dict[str, Any] = {"functionCall": {"name": "undeclared", "args": {}}}

    assert google(response(part, finish="UNEXPECTED_TOOL_CALL")) == whole_google(part, finish="UNEXPECTED_TOOL_CALL")


def test_the_last_count_of_tokens_holds() -> None:
    first, last = (
        {"promptTokenCount": 55, "candidatesTokenCount": 4},
        {"promptTokenCount": 257, "thoughtsTokenCount": 2},
    )

    turn = google(response({"text": "A"}, usageMetadata=first), response(finish="STOP", usageMetadata=last))

    assert turn == whole_google({"text": "A"}, usageMetadata=last)


# OpenAI's Responses


def delta(index: int, words: Any, kind: str = "output_text", **more: Any) -> dict[str, Any]:
    """Return an event with a piece of an item."""
    return {"type": f"response.{kind}.delta", "output_index": index, "content_index": 0, "delta": words, **more}


def done(index: int, item: dict[str, Any], what: str = "done") -> dict[str, Any]:
    return {"type": f"response.output_item.{what}", "output_index": index, "item": item}


def ended(*output: dict[str, Any], kind: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "r1", "status": kind, "output": list(output), **more}}


def words(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text, "annotations": []}], **more}


def responses(*events: Any) -> ModelTurn:
    return turn_of("openai-responses", as_events(*events))


THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "whole",
}
SEARCH: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
LOOK: dict[str, Any] = {"type": "function_call", "call_id": "a", "name": "on_shelf", "arguments": '{"sku": "A"}'}
CITED: dict[str, Any] = {
    "type": "url_citation",
    "url": "https://u.test",
    "title": "T",
    "start_index": 0,
    "end_index": 2,
}
REFUSAL: dict[str, Any] = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}


@pytest.mark.parametrize(
    ("events", "output"),
    [
        ([delta(0, "H"), {"type": "keepalive"}, delta(0, "i"), done(0, words("Hi"))], [words("Hi")]),
        ([done(0, words(""), "added"), delta(0, "Hi", item_id="x"), delta(0, "!", item_id="y")], [words("Hi!")]),
        ([done(0, words("Hi"))], [words("Hi")]),
        ([], [THOUGHT, words("Hi"), LOOK]),
        ([delta(0, "H")], [words("Hi")]),
        ([{"type": "response.content_part.added", "output_index": 0, "part": {"type": "output_text"}}], [words("")]),
        (
            [
                delta(0, "Fir", "reasoning_summary_text", summary_index=0),
                delta(0, "st.", "reasoning_summary_text", summary_index=0),
                delta(0, "Then.", "reasoning_summary_text", summary_index=1),
                done(0, {**THOUGHT, "encrypted_content": "half"}, "added"),
                done(0, THOUGHT),
                delta(1, "Hi"),
            ],
            [THOUGHT, words("Hi")],
        ),
        (
            [delta(0, "Hm", "reasoning_text"), done(0, {"type": "reasoning", "content": [{"text": "Hm."}]})],
            [{"type": "reasoning", "content": [{"text": "Hm."}]}],
        ),
        (
            [delta(1, "B"), delta(0, "A"), delta(1, "b", content_index=1), delta(0, "a")],
            [words("Aa"), {"type": "message", "content": [{"type": "output_text", "text": each} for each in "Bb"]}],
        ),
        (
            [
                done(0, {**LOOK, "arguments": ""}, "added"),
                delta(0, '{"sku": ', "function_call_arguments"),
                delta(0, '"A"}', "function_call_arguments"),
                done(0, LOOK),
            ],
            [LOOK],
        ),
        ([done(0, {**LOOK, "arguments": ""}, "added"), done(0, LOOK)], [LOOK]),
        ([done(0, {**LOOK, "arguments": {"sku": "A"}})], [LOOK]),
        ([done(0, LOOK, "added")], [LOOK]),
        ([done(0, {**LOOK, "call_id": "b"}), done(1, LOOK)], [{**LOOK, "call_id": "b"}, LOOK]),
        ([done(0, SEARCH, "added"), done(0, SEARCH), delta(1, "Hi")], [SEARCH, words("Hi")]),
        ([done(0, SEARCH, "added"), delta(1, "Hi")], [SEARCH, words("Hi")]),
        ([delta(0, "I will ", "refusal"), delta(0, "not.", "refusal"), done(0, REFUSAL)], [REFUSAL]),
        ([done(0, REFUSAL)], [REFUSAL]),
        (
            [done(0, words("", phase="commentary"), "added"), delta(0, "Hi"), done(0, words("Hi", phase="commentary"))],
            [words("Hi", phase="commentary")],
        ),
        ([delta(0, "Hi"), done(0, words("Hi", phase="commentary"))], [words("Hi", phase="commentary")]),
        (
            [delta(0, "Hi"), {"type": "response.output_text.annotation.added", "annotation": CITED}],
            [{"type": "message", "content": [{"type": "output_text", "text": "Hi", "annotations": [CITED]}]}],
        ),
        (
            [delta(0, "Hi", logprobs=[{"token": "Hi"}])],
            [{"type": "message", "content": [{"type": "output_text", "text": "Hi", "logprobs": [{"token": "Hi"}]}]}],
        ),
        ([delta(0, "\ud83d"), delta(0, "\ude00"), done(0, words("\U0001f600!"))], [words("\U0001f600!")]),
    ],
    ids=[
        "text",
        "ids that change",
        "an item at once",
        "all at the end",
        "an item without its end",
        "an empty text",
        "paragraphs of a summary",
        "reasoning of an open model",
        "items and contents that interleave",
        "a call",
        "arguments at the end",
        "arguments as an object",
        "a call in its first event",
        "two calls",
        "a search",
        "a search without its end",
        "a refusal",
        "a refusal at once",
        "a phase",
        "a phase at the end",
        "a source",
        "probabilities",
        "halves of a letter",
    ],
)
def test_items_are_put_together_in_the_form_of_each_server(events: list[Any], output: list[Any]) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2}
    last = ended(*output, model="m", usage=usage)

    turn = responses({"type": "response.created", "response": {"id": "r0"}}, *events, last)

    assert turn == decode_response(last["response"])
    assert turn.response_id == "r1"
    assert turn.usage.total_tokens == 7


def test_items_without_their_end_are_whole_though_the_last_event_has_none() -> None:
    turn = responses(delta(0, "Hi"), done(1, LOOK), ended())

    assert turn.parts == (TextPart("Hi"), ToolCall("a", "on_shelf", {"sku": "A"}))
    assert turn.finish_reason == "tool_calls"


def test_an_item_that_only_began_is_as_it_began() -> None:
    turn = responses(done(0, THOUGHT, "added"), done(1, SEARCH, "added"), done(2, LOOK, "added"), ended())

    assert turn.parts == (OpaquePart(SEARCH), ToolCall("a", "on_shelf", {"sku": "A"}))


@pytest.mark.parametrize("kind", ["error", ""])
@pytest.mark.parametrize(
    "error", [{"code": "rate_limit_exceeded"}, {"error": {"type": "tokens", "code": "rate_limit_exceeded"}}]
)
def test_an_error_in_a_stream_of_responses_is_flat_or_nested(kind: str, error: JsonObject) -> None:
    event = {"type": "error", "message": "slow down", **error}
    body = as_events(delta(0, "Hi")) + (f"event: {kind}\n".encode() if kind else b"") + as_events(event)

    with pytest.raises(RateLimited) as caught:
        turn_of("openai-responses", body)

    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("rate_limit_exceeded", 429, True)
    assert caught.value.type == obj(error.get("error")).get("type", "")


def test_a_response_that_failed_is_its_error_and_counts_its_tokens() -> None:
    reader = reader_of("openai-responses")
    failed = ended(kind="failed", error={"code": "server_error", "message": "oh"}, usage={"input_tokens": 5})

    with pytest.raises(ProviderError, match="oh") as caught:
        list(reader.feed(as_events(delta(0, "Half"), failed)))

    assert (caught.value.status, caught.value.retryable) == (500, True)
    partial = reader.partial()
    assert partial is not None
    assert (partial.text, partial.usage.input_tokens) == ("Half", 5)


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": "completed"}])
@pytest.mark.parametrize("kind", ["failed", "cancelled", "incomplete"])
def test_a_response_that_failed_without_an_error_is_no_answer(kind: str, status: dict[str, Any]) -> None:
    told = ended(words("Half"), kind=kind)
    contradicted = {**told, "response": {"id": "r1", "output": [words("Half"), LOOK], **status}}

    for last in (told, contradicted):
        turn = responses(delta(0, "Half"), last)

        assert (turn.finish_reason, turn.raw_finish_reason) == ("other", kind)


def test_a_response_that_is_completed_by_its_event_and_failed_by_its_status_is_no_answer() -> None:
    turn = responses(delta(0, "Half"), ended(words("Half"), status="failed"))

    assert turn.raw_finish_reason == "failed"


CALLED = done(0, {**LOOK, "arguments": ""}, "added")


@pytest.mark.parametrize(
    "events",
    [
        [CALLED, CALLED],
        [done(0, LOOK), done(0, {**LOOK, "call_id": "b"})],
        [done(0, LOOK), done(0, LOOK, "added")],
        [CALLED, done(0, {**LOOK, "name": "wipe"})],
        [CALLED, done(0, {**LOOK, "call_id": "b"})],
        [CALLED, done(0, words("Hi"))],
        [CALLED, delta(0, "{}", "function_call_arguments"), done(0, LOOK)],
        [CALLED, delta(0, '{"sku": "AB', "function_call_arguments"), done(0, LOOK)],
        [CALLED, delta(0, "{}", "function_call_arguments"), ended(LOOK)],
        [
            CALLED,
            {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"},
            done(0, LOOK),
        ],
    ],
    ids=[
        "begun twice",
        "ended twice",
        "begun after its end",
        "another name",
        "another id of the call",
        "another type",
        "other arguments",
        "arguments of another text",
        "other arguments in the response",
        "other arguments in one event",
    ],
)
def test_items_that_contradict_themselves_are_an_error(events: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"twice|another \w+ than it began with|not those that came in pieces"):
        responses(*events, ended())


@pytest.mark.parametrize(
    "events",
    [
        [CALLED, delta(0, '{"sku":"A"}', "function_call_arguments"), done(0, LOOK)],
        [CALLED, delta(0, '{"sku":"A"}', "function_call_arguments"), done(0, {**LOOK, "arguments": ""})],
        [
            CALLED,
            {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": LOOK["arguments"]},
        ],
        [CALLED, {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": {"sku": "A"}}],
        [CALLED, delta(0, {"sku": "A"}, "function_call_arguments"), done(0, LOOK)],
        [CALLED, done(0, LOOK), ended({**LOOK, "call_id": "changed"})],
    ],
    ids=[
        "the same JSON",
        "an end without arguments",
        "no end",
        "an object at the end",
        "an object as a piece",
        "another id in the response",
    ],
)
def test_arguments_of_a_call_may_come_in_another_form_at_its_end(events: list[Any]) -> None:
    assert responses(*events, ended()).tool_calls == (ToolCall("a", "on_shelf", {"sku": "A"}),)


def test_the_halves_of_a_letter_in_arguments_may_come_apart() -> None:
    pieces = [delta(0, each, "function_call_arguments") for each in ('{"sku": "\ud83d', '\ude00"}')]

    turn = responses(CALLED, *pieces, done(0, {**LOOK, "arguments": '{"sku": "\U0001f600"}'}), ended())

    assert turn.tool_calls == (ToolCall("a", "on_shelf", {"sku": "\U0001f600"}),)


@pytest.mark.parametrize("last", [{**LOOK, "name": "wipe"}, {**LOOK, "arguments": "{}"}])
def test_a_call_that_ended_as_another_one_than_in_the_response_is_an_error(last: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="another name than it began with|not those that came in pieces"):
        responses(done(0, LOOK), ended(last))


def test_words_that_the_response_has_in_another_form_stay_as_they_came() -> None:
    assert responses(delta(0, " Hi"), ended(THOUGHT, words("Hi"))).text == " Hi"


# All of them


def _no_end(provider: str, *events: Any, tail: bytes = b"") -> list[Any]:
    """Read a stream that has no end; return its pieces."""
    reader = reader_of(provider)
    stream = reader.finish()
    pieces: list[Any] = list(reader.feed(as_events(*events) + tail))
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as stop:
            assert stop.value is None
            return pieces


WHOLE = {
    "openai": [chunk({"content": "Hi"}), chunk({}, "stop")],
    "openai-responses": [delta(0, "Hi"), ended()],
    "anthropic": message(block(0, {"type": "text", "text": "Hi"})),
    "gemini": [response({"text": "Hi"}), response(finish="STOP")],
}


@pytest.mark.parametrize("provider", sorted(WHOLE))
@pytest.mark.parametrize("tail", [b"", b'data: {"choices', b"data: {}", b"da", b": ping\n\n"])
def test_a_body_that_ends_before_the_turn_is_no_turn(provider: str, tail: bytes) -> None:
    pieces = _no_end(provider, *WHOLE[provider][:-1], tail=tail)

    assert any(isinstance(piece, TextPiece) for piece in pieces)


@pytest.mark.parametrize("provider", sorted(WHOLE))
def test_the_last_event_needs_no_blank_line(provider: str) -> None:
    assert turn_of(provider, as_events(*WHOLE[provider]).removesuffix(b"\n\n")).text == "Hi"


@pytest.mark.parametrize(
    ("provider", "event"),
    [
        ("openai", "no JSON"),
        ("openai", [1]),
        ("openai", "null"),
        ("openai", {"choices": 1}),
        ("openai", {"choices": [1]}),
        ("openai", chunk({"content": 1})),
        ("openai", chunk({"content": [1]})),
        ("openai", chunk({"tool_calls": {}})),
        ("openai", chunk({"tool_calls": [1]})),
        ("openai", {"choices": [], "usage": {"n": float("1e400")}}),
        ("openai-responses", [1]),
        ("openai-responses", {"type": "response.output_text.delta", "delta": "x"}),
        ("openai-responses", {"type": "response.output_text.delta", "output_index": "0", "delta": "x"}),
        ("openai-responses", {"type": "response.output_item.added", "output_index": 0}),
        ("openai-responses", {"type": "response.output_item.added", "item": {"type": "message"}}),
        (
            "openai-responses",
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call"}},
        ),
        ("openai-responses", done(0, {"type": "function_call", "call_id": "a"})),
        ("openai-responses", done(0, {"type": "message", "content": 1})),
        ("openai-responses", done(0, {"type": "message", "content": [1]})),
        ("openai-responses", done(0, {"type": "odd", "n": float("1e400")})),
        ("openai-responses", {"type": "response.created"}),
        ("openai-responses", {"type": "response.completed"}),
        ("openai-responses", {"type": "response.completed", "response": {"output": {}}}),
        ("openai-responses", ended({"type": "reasoning", "n": float("1e400")})),
        ("anthropic", {"type": "message_start"}),
        ("anthropic", {"type": "content_block_start", "index": 0}),
        ("anthropic", {"type": "content_block_start", "content_block": {"type": "text"}}),
        ("anthropic", {"type": "content_block_start", "index": -1, "content_block": {"type": "text"}}),
        ("anthropic", {"type": "content_block_start", "index": True, "content_block": {"type": "text"}}),
        ("anthropic", {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}),
        ("anthropic", {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking"}}),
        ("anthropic", {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "x"}}),
        ("gemini", {"candidates": 1}),
        ("gemini", {"candidates": [1]}),
        ("gemini", response(1)),
        ("gemini", response({"functionCall": {"args": {}}})),
    ],
)
def test_an_event_of_a_wrong_shape_is_an_error_that_has_it(provider: str, event: Any) -> None:
    reader = reader_of(provider)

    with pytest.raises(ValueError, match="."):
        list(reader.feed(as_events(event)))

    assert as_events(event).strip() == b"data: " + reader.last


@pytest.mark.parametrize("ends", [1, 3], ids=["open", "ended"])
def test_a_block_of_anthropic_begins_once(ends: int) -> None:
    first = block(
        0, {"type": "tool_use", "id": "a", "name": "look"}, {"type": "input_json_delta", "partial_json": "{}"}
    )
    second = block(0, {"type": "tool_use", "id": "b", "name": "wipe"})

    with pytest.raises(ValueError, match="index 0 began twice"):
        turn_of("anthropic", as_events(*message([*first[:ends], *second])))


def test_a_call_without_a_name_is_no_turn() -> None:
    with pytest.raises(ValueError, match="name"):
        turn_of("openai", as_events(chunk(calling(0, "{}", id="a")), chunk({}, "tool_calls")))


BAD_REQUEST: dict[str, Any] = {"type": "invalid_request_error", "message": "no"}


@pytest.mark.parametrize(
    ("provider", "error", "kind", "status", "retryable"),
    [
        ("anthropic", {"type": "overloaded_error", "message": "busy"}, ProviderError, 529, True),
        ("anthropic", {"type": "api_error", "message": "oh"}, ProviderError, 500, True),
        ("anthropic", {"type": "timeout_error", "message": "slow"}, ProviderTimeout, 504, True),
        ("anthropic", {"type": "invalid_request_error", "message": "no"}, ProviderError, 400, False),
        ("openai", {"type": "server_error", "code": None, "message": "oh"}, ProviderError, 500, True),
        ("openai", {"code": "rate_limit_exceeded", "message": "wait"}, RateLimited, 429, True),
        (
            "openai",
            {"code": "insufficient_quota", "type": "insufficient_quota", "message": "pay"},
            RateLimited,
            429,
            False,
        ),
        ("openai", {"code": 502, "message": "upstream"}, ProviderError, 502, True),
        ("openai", {"code": "429", "type": None, "message": "wait"}, RateLimited, 429, True),
        ("openai", {"code": "503", "type": "None", "message": "upstream"}, ProviderError, 503, True),
        ("openai", {"status_code": "401", "message": "no"}, AuthenticationError, 401, False),
        ("openai", {"code": "700", "message": "no status"}, ProviderError, 200, False),
        ("openai", {**BAD_REQUEST, "code": "tool_use_failed"}, ProviderError, 400, True),
        ("openai", {**BAD_REQUEST, "failed_generation": "<function=add>"}, ProviderError, 400, True),
        ("openai", BAD_REQUEST, ProviderError, 400, False),
        ("gemini", {"code": 503, "status": "UNAVAILABLE", "message": "later"}, ProviderError, 503, True),
        ("openai", {"message": "unheard"}, ProviderError, 200, False),
        ("openai-responses", {"code": "server_is_overloaded", "message": "busy"}, ProviderError, 503, True),
        ("openai-responses", {"code": "context_length_exceeded", "message": "long"}, ContextOverflow, 400, False),
    ],
)
def test_an_error_in_a_stream_or_a_whole_answer_is_told_by_its_code_or_type(
    provider: str, error: Any, kind: type[ProviderError], status: int, retryable: bool
) -> None:
    with pytest.raises(ProviderError) as caught:
        turn_of(provider, as_events(WHOLE[provider][0], {"type": "error", "error": error}))

    body: JsonObject = {"error": error}
    whole = embedded_failure(body, json.dumps(body).encode(), provider=provider)
    assert whole is not None
    for found in (caught.value, whole):
        assert (type(found), found.status, found.retryable) == (kind, status, retryable)


@pytest.mark.parametrize("data", [{"error": {"message": "no"}}, {"message": "no"}, {"choices": [], "message": "no"}])
def test_an_event_named_error_is_one_whatever_its_form(data: Any) -> None:
    with pytest.raises(ProviderError, match="no"):
        turn_of("openai", b"event: error\n" + as_events(data))


@pytest.mark.parametrize(
    ("data", "status"),
    [({"error": "no model"}, 200), ({"object": "error", "message": "no model", "type": "NotFound", "code": 404}, 404)],
)
def test_an_error_may_be_a_text_or_the_whole_event(data: Any, status: int) -> None:
    with pytest.raises(ProviderError, match="no model") as caught:
        turn_of("openai", as_events(WHOLE["openai"][0], data, "[DONE]"))

    whole = embedded_failure(data, json.dumps(data).encode(), provider="openai")
    assert whole is not None
    assert (caught.value.status, str(whole), whole.status) == (status, "no model", status)


def test_a_whole_message_counts_only_where_no_delta_is() -> None:
    whole = {"role": "assistant", "content": "Hi"}
    repeated = {"choices": [{"index": 0, "delta": {}, "message": whole, "finish_reason": "stop"}]}
    alone = {"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]}

    assert openai(chunk({"content": "Hi"}), repeated).text == "Hi"
    assert openai(alone).text == "Hi"


def test_what_stands_beside_an_error_is_part_of_what_came() -> None:
    reader = reader_of("openai")
    last = {
        **chunk({"content": " way"}, "error", usage={"prompt_tokens": 3, "completion_tokens": 1}),
        "error": {"code": 502},
    }

    with pytest.raises(ProviderError):
        list(reader.feed(as_events(chunk({"content": "Half"}), last)))

    partial = reader.partial()
    assert partial is not None
    assert (partial.text, partial.usage.total_tokens) == ("Half way", 4)


# Turns that came whole


@pytest.mark.parametrize(
    "turn",
    [
        ModelTurn(()),
        ModelTurn((TextPart("Hi", "s"), TextPart("there")), Usage(3, 4), "length", "max_tokens"),
        ModelTurn((ReasoningPart("Hm", "s"), ReasoningPart(redacted="x"), TextPart("")), refusal="no", dialect="d"),
        ModelTurn((ToolCall("a", "f", {"n": [1, "ä"]}, signature="s"), ToolCall("", "g"), TextPart("behind"))),
        ModelTurn((ToolCall("a", "f", {}, "{broken"), OpaquePart({"type": "odd"})), model="m", response_id="r"),
    ],
)
def test_a_whole_turn_in_pieces_is_put_together_again(turn: ModelTurn) -> None:
    assembler = TurnAssembler()
    for piece in pieces_of(turn):
        assembler.add(piece)

    assert assembler.turn() == turn
