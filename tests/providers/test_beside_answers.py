"""What stands beside the words of an answer: sources, log probabilities, filters. Whole, streamed, and sent back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.test_wire_formats import DIALECTS, said
from tests.support import wire
from tests.support.wire import obj, objs
from tests.support.wire_streams import as_events, stream_cases, turn_of
from understudy.orchestration.agent.feed_checks import fault_of_turn
from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.providers.openai import wire as openai_wire
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import (
    JsonObject,
    JsonValue,
    Message,
    MetadataPart,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    Part,
    TextPart,
    ToolCall,
    user_message,
)
from understudy.vocabulary.runs.outcomes import Complete

FACT: dict[str, JsonValue] = {
    "type": "char_location",
    "cited_text": "The Ruby programming language was created by Yukihiro Matsumoto in 1993. ",
    "document_index": 0,
    "document_title": "facts.txt",
    "start_char_index": 0,
    "end_char_index": 73,
}
PAGE: dict[str, JsonValue] = {
    "type": "web_search_result_location",
    "url": "https://shop.test/ruby",
    "title": "Ruby",
    "encrypted_index": "Eo8B",
    "cited_text": "A gem.",
}


# --- Anthropic


@pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
def test_a_recorded_citation_is_kept_and_goes_back_as_it_came() -> None:
    case = next(each for each in stream_cases() if each.name == "anthropic-msgs-citations-stream-a")
    turn = turn_of("anthropic", case.body)

    [cited] = turn.citations
    assert (cited.title, cited.quote, cited.url) == ("facts.txt", FACT["cited_text"], "")
    assert turn.text[cited.start : cited.end] == turn.text
    [back] = said("anthropic", *turn.parts, made_by="anthropic")
    assert objs(obj(back)["content"]) == [{"type": "text", "text": turn.text, "citations": [FACT]}]


def test_each_block_of_anthropics_text_has_its_own_sources() -> None:
    blocks: list[JsonObject] = [
        {"type": "text", "text": "Ruby is "},
        {"type": "text", "text": "a gem", "citations": [PAGE, {**FACT, "file_id": None}]},
        {"type": "text", "text": ".", "citations": None},
    ]

    turn = anthropic_wire.decode({"content": blocks, "stop_reason": "end_turn"})

    assert [(each.title, each.url, turn.text[each.start : each.end]) for each in turn.citations] == [
        ("Ruby", "https://shop.test/ruby", "a gem"),
        ("facts.txt", "", "a gem"),
    ]
    [back] = said("anthropic", *turn.parts, made_by="anthropic")
    # The API refuses a file_id of null, which it sends itself.
    assert [each.get("citations") for each in objs(obj(back)["content"])] == [None, [PAGE, FACT], None]


@pytest.mark.parametrize("to", DIALECTS)
def test_citations_go_to_no_other_provider_and_metadata_to_none(to: str) -> None:
    other = "google" if to == "anthropic" else "anthropic"
    text = TextPart("a gem", citations=(Citation("T", "https://u.test", raw=PAGE),))
    metadata = MetadataPart({"logprobs": {"content": [{"token": "secret"}]}})

    for made_by in (to, other):
        sent = json.dumps(said(to, metadata, text, made_by=made_by))
        assert "a gem" in sent
        assert "secret" not in sent
        assert ("Eo8B" in sent) == (made_by == to == "anthropic")
    assert said(to, metadata, made_by=to) == []


# --- OpenAI and compatible servers

ANNOTATION: dict[str, Any] = {
    "type": "url_citation",
    "url_citation": {"start_index": 5, "end_index": 10, "url": "https://shop.test", "title": "Shop"},
}
FILE: dict[str, Any] = {"type": "file", "file": {"hash": "h", "name": "a.pdf"}}
A: dict[str, Any] = {"token": "It is", "logprob": -0.25, "top_logprobs": []}
B: dict[str, Any] = {"token": " seven", "logprob": -0.5, "top_logprobs": []}


def openai_turn(choice: dict[str, Any]) -> ModelTurn:
    return openai_wire.decode({"choices": [{"finish_reason": "stop", **choice}]})


def test_an_annotation_is_a_citation_whole_and_streamed() -> None:
    whole = openai_turn({"message": {"content": "It is seven", "annotations": [ANNOTATION]}})
    streamed = turn_of(
        "openai",
        as_events(
            {"choices": [{"delta": {"content": "It is"}}]},
            {"choices": [{"delta": {"content": " seven"}}]},
            {"choices": [{"delta": {"annotations": [ANNOTATION]}, "finish_reason": "stop"}]},
            "[DONE]",
        ),
    )

    assert whole == streamed
    assert whole.citations == (Citation("Shop", "https://shop.test", "", 5, 10, ANNOTATION),)


@pytest.mark.parametrize(
    "place",
    [
        {"start_index": 0, "end_index": 0},
        {"start_index": 9, "end_index": 2},
        {},
        {"start_index": 0, "end_index": 6},
        {"start_index": 50, "end_index": 60},
        {"start_index": 0, "end_index": 10**30},
    ],
)
def test_a_citation_without_a_place_in_the_text_is_of_the_whole_text(place: dict[str, int]) -> None:
    found = {"url": "https://shop.test", "content": "Seven left.", **place}
    turn = openai_turn(
        {"message": {"content": "Seven", "annotations": [{"type": "url_citation", "url_citation": found}]}}
    )

    assert [(each.quote, each.start, each.end) for each in turn.citations] == [("Seven left.", 0, 5)]
    assert not fault_of_turn(turn)


RESULT = {"title": "Shop", "url": "https://shop.test", "date": "2026-11-01", "snippet": "Seven left."}
NAMED: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({"citations": ["https://shop.test"]}, [("", "https://shop.test", "")]),
    (
        {"citations": ["https://shop.test"], "search_results": [RESULT]},
        [("Shop", "https://shop.test", "Seven left.")],
    ),
    ({"citations": [None, 3, {"url": "u"}], "search_results": "x"}, []),
]


@pytest.mark.parametrize(("named", "expected"), NAMED)
def test_pages_that_stand_beside_the_choices_are_citations_of_the_whole_text(
    named: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    message = {"content": "Seven [1]"}
    whole = openai_wire.decode({"choices": [{"message": message, "finish_reason": "stop"}], **named})
    chunks: list[Any] = [
        {"choices": [{"delta": message}], **named},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    streamed = turn_of("openai", as_events(*chunks, "[DONE]"))

    assert whole == streamed
    assert [(each.title, each.url, each.quote) for each in whole.citations] == expected
    assert all((each.start, each.end) == (0, len("Seven [1]")) for each in whole.citations)


def test_annotations_go_before_the_same_pages_beside_the_choices() -> None:
    message: JsonObject = {"content": "It is seven", "annotations": [ANNOTATION]}
    body: JsonObject = {"choices": [{"message": message, "finish_reason": "stop"}], "citations": ["https://shop.test"]}

    assert len(openai_wire.decode(body).citations) == 1


def test_annotations_that_are_no_citations_go_back_to_their_server() -> None:
    details = [{"type": "reasoning.text", "text": "Hm."}]
    message = {"content": "Seven", "annotations": [ANNOTATION, FILE], "reasoning_details": details}
    whole = openai_turn({"message": message})
    streamed = turn_of("openai", as_events({"choices": [{"delta": message, "finish_reason": "stop"}]}, "[DONE]"))

    assert whole == streamed
    assert OpaquePart({"reasoning_details": details, "annotations": [FILE]}) in whole.parts
    history = ModelRequest([Message("assistant", whole.parts, whole.dialect), user_message("On")])
    sent = objs(openai_wire.encode(history, "m", official=False)["messages"])[0]
    assert (sent["annotations"], sent["reasoning_details"]) == ([FILE], details)


def test_log_probabilities_are_kept_whole_and_streamed() -> None:
    whole = openai_turn({"message": {"content": "It is seven"}, "logprobs": {"content": [A, B], "refusal": None}})
    streamed = turn_of(
        "openai",
        as_events(
            {"choices": [{"delta": {"content": "It is"}, "logprobs": {"content": [A], "refusal": None}}]},
            {"choices": [{"delta": {"content": " seven"}, "logprobs": {"content": [B]}}]},
            {"choices": [{"finish_reason": "stop", "logprobs": None}]},
            "[DONE]",
        ),
    )

    assert whole == streamed
    assert whole.metadata == {"logprobs": {"content": [A, B]}}


def test_what_a_filter_held_back_is_told_with_its_category() -> None:
    filters = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": True, "severity": "high"}}
    choice = {"finish_reason": "content_filter", "content_filter_results": filters}
    streamed = turn_of("openai", as_events({"choices": [{"delta": {}, **choice}]}, "[DONE]"))

    assert openai_turn(choice) == streamed
    assert streamed.metadata == {"content_filter_results": {"violence": filters["violence"]}}


# --- Google


@pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
def test_recorded_grounding_names_its_page_and_keeps_all_that_google_told() -> None:
    case = next(each for each in stream_cases() if each.name == "gemini-gen-grounding-stream-a")
    turn = turn_of("gemini", case.body)

    [cited] = turn.citations
    assert (cited.title, cited.url) == ("Pydantic AI", "https://ai.pydantic.dev")
    assert turn.text[cited.start : cited.end] == "Pydantic AI Gateway is now available!"
    assert set(turn.metadata) == {"groundingMetadata", "urlContextMetadata"}


def google_turns(parts: list[dict[str, Any]], **more: Any) -> list[ModelTurn]:
    """Return what becomes of a candidate that comes whole, and of one that comes part by part."""
    whole = google_wire.decode({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP", **more}]})
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    last = {"candidates": [{"finishReason": "STOP", **more}]}
    return [whole, turn_of("gemini", as_events(*chunks, last).replace(b"Infinity", b"1e999"))]


def test_googles_places_are_bytes_and_ours_are_characters_of_the_part() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Hm.", "thought": True},
        {"text": "Grüße. ", "thoughtSignature": "s"},
        {"text": "Käse ist gut."},
    ]
    grounding = {
        "groundingChunks": [
            {"web": {"uri": "https://a.test", "title": "A"}},
            {"retrievedContext": {"title": "B", "text": "t"}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 8, "text": "Grüße."}, "groundingChunkIndices": [0, 7]},
            {"segment": {"startIndex": 9, "endIndex": 14, "text": "Käse"}, "groundingChunkIndices": [1, 0]},
            {"segment": {"startIndex": 90, "endIndex": 93, "text": "gut"}, "groundingChunkIndices": [0]},
        ],
    }
    sources = {"citationSources": [{"startIndex": 9, "endIndex": 14, "uri": "https://c.test"}]}

    whole, streamed = google_turns(parts, groundingMetadata=grounding, citationMetadata=sources)

    assert whole == streamed
    assert [(each.url or each.title, whole.text[each.start : each.end]) for each in whole.citations] == [
        ("https://a.test", "Grüße."),
        ("B", "Käse"),
        ("https://a.test", "Käse"),
        ("https://a.test", "gut"),
        ("https://c.test", "Käse"),
    ]
    assert [len(part.citations) for part in whole.parts if isinstance(part, TextPart)] == [1, 4]
    assert whole.metadata == {"groundingMetadata": grounding, "citationMetadata": sources}


def test_log_probabilities_of_google_follow_each_other_in_a_stream() -> None:
    first = {"chosenCandidates": [{"token": "It is", "logProbability": -0.25}]}
    second = {"chosenCandidates": [{"token": " seven", "logProbability": -0.5}]}
    turn = turn_of(
        "gemini",
        as_events(
            {"candidates": [{"content": {"parts": [{"text": "It is"}]}, "logprobsResult": first}]},
            {
                "candidates": [
                    {"content": {"parts": [{"text": " seven"}]}, "logprobsResult": second, "avgLogprobs": -0.375}
                ]
            },
            {"candidates": [{"finishReason": "STOP"}]},
        ),
    )

    chosen = [*first["chosenCandidates"], *second["chosenCandidates"]]
    assert turn.metadata == {"logprobsResult": {"chosenCandidates": chosen}, "avgLogprobs": -0.375}
    [unasked, _] = google_turns([{"text": "Hi"}], avgLogprobs=-0.375)
    assert unasked.metadata == {}


def test_a_call_stands_before_what_google_tells_beside_it() -> None:
    whole, streamed = google_turns([{"functionCall": {"name": "look", "args": {}}}], urlContextMetadata={"a": 1})

    assert whole == streamed
    assert [type(part) for part in whole.parts] == [ToolCall, MetadataPart]


# --- of all

ODD: list[Any] = ["x", 3, None, [None, "x", 3], {"a": 1}, [{"n": float("inf")}], [{}]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_answer_is_lost_for_what_stands_beside_it(odd: Any) -> None:
    grounding = {"groundingSupports": odd, "groundingChunks": odd}
    turns = [
        openai_turn({"message": {"content": "Hi", "annotations": odd}, "logprobs": {"content": odd}}),
        openai_turn({"message": {"content": "Hi"}, "logprobs": odd, "content_filter_results": odd}),
        anthropic_wire.decode(
            {"content": [{"type": "text", "text": "Hi", "citations": odd}], "stop_reason": "end_turn"}
        ),
        *google_turns([{"text": "Hi"}], groundingMetadata=grounding, citationMetadata=odd, logprobsResult=odd),
        *google_turns([{"text": "Hi"}], groundingMetadata=odd, urlContextMetadata=odd),
    ]

    assert [(turn.text, turn.finish_reason) for turn in turns] == [("Hi", "stop")] * len(turns)
    json.dumps([dict(turn.metadata) for turn in turns], allow_nan=False)


def test_an_outcome_has_the_sources_of_its_last_message() -> None:
    cited: tuple[Part, ...] = (TextPart("Yes: "), TextPart("seven", citations=(Citation("Shop", "https://s.test"),)))
    asked = user_message("How many?")

    told = Complete(text="Yes: seven", output="Yes: seven", messages=(asked, Message("assistant", cited)))

    assert told.citations == (Citation("Shop", "https://s.test", "", 5, 10),)
    assert told.to_dict()["citations"] == [
        {"title": "Shop", "url": "https://s.test", "quote": "", "start": 5, "end": 10}
    ]
    assert Complete(text="", output="", messages=(asked,)).citations == Complete(text="", output="").citations == ()
