"""Request bodies and response bodies, as functions of their arguments: what a provider's API page says, and crossings."""

from __future__ import annotations

import base64
import json
import re
from types import MappingProxyType

import httpx
import pytest
from pydantic_core import from_json

import understudy as us
from tests.support.bodies import body_of, responses_body
from tests.support.http import HELLO, MAKERS, OPENAI_REPLY, Answers
from tests.support.wire import obj, objs
from understudy.errors import ProviderError
from understudy.orchestration.agent.rounds import cut_calls
from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.google import wire as google_wire
from understudy.providers.openai import wire as openai_wire
from understudy.providers.openai.responses.answer import decode as decode_response
from understudy.providers.wire.endings import unfinished
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    user_message,
)

LOOK = ToolSpec("look", "Look at a shelf.", {"type": "object", "properties": {"sku": {"type": "string"}}})
DIALECTS = ("openai", "openai-responses", "anthropic", "google")
SERVERS = (*DIALECTS, "openai/mistral", "openai/groq")
STAND_IN = "skip_thought_signature_validator"


def encode(dialect: str, request: ModelRequest, model: str = "gemini-2.5-flash") -> JsonObject:
    return body_of("gemini", request, model) if dialect == "google" else body_of(dialect, request)


def with_settings(dialect: str, settings: Settings) -> JsonObject:
    return encode(dialect, ModelRequest(HELLO.messages, tools=(LOOK,), settings=settings))


def said(dialect: str, *parts: Part, made_by: str) -> list[JsonValue]:
    """Return what a model's message becomes, between a question and a result."""
    results = [ToolResult(p.id, "7", name=p.name) for p in parts if isinstance(p, ToolCall)]
    messages = [user_message("Go"), Message("assistant", parts, made_by), user_message(results or "On")]
    body = encode(dialect, ModelRequest(messages))
    if dialect == "openai-responses":
        return [m for m in objs(body["input"]) if m.get("role") != "user" and m.get("type") != "function_call_output"]
    key = "contents" if dialect == "google" else "messages"
    return [m for m in objs(body[key]) if m["role"] in ("assistant", "model")]


def openai_answer(**message: JsonValue) -> ModelTurn:
    return openai_wire.decode({"choices": [{"message": message, "finish_reason": "stop"}]})


def anthropic_answer(*blocks: JsonObject, stop_reason: str = "end_turn", **more: JsonValue) -> ModelTurn:
    return anthropic_wire.decode({"content": blocks, "stop_reason": stop_reason, **more})


def responses_answer(*output: JsonObject, status: str = "completed", **more: JsonValue) -> ModelTurn:
    return decode_response({"status": status, "output": output, **more})


def google_answer(*parts: JsonObject, reason: str = "STOP") -> ModelTurn:
    return google_wire.decode({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]})


# OpenAI


def test_openai_gets_results_before_what_the_user_adds() -> None:
    message = user_message([TextPart("And now?"), ToolResult("c1", "7"), ToolResult("c2", "no", is_error=True)])

    body = encode("openai", ModelRequest([message], system="Be brief."))

    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "tool", "tool_call_id": "c2", "content": "no"},
        {"role": "user", "content": "And now?"},
    ]


def test_openai_gets_pictures_files_and_sound_in_their_own_parts() -> None:
    parts: list[Part] = [
        TextPart("See:"),
        ImagePart(url="https://x.test/a.png"),
        ImagePart("QQ==", "image/jpeg"),
        FilePart("QQ==", "application/pdf", name="a.pdf"),
        FilePart("QQ==", "audio/mpeg"),
    ]

    body = encode("openai", ModelRequest([user_message(parts)]))

    assert objs(body["messages"])[0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QQ=="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}},
    ]


@pytest.mark.parametrize(("official", "name"), [(True, "max_completion_tokens"), (False, "max_tokens")])
def test_only_openai_itself_gets_the_new_name_of_the_token_limit(official: bool, name: str) -> None:
    request = ModelRequest(HELLO.messages, settings=Settings(max_tokens=9))

    body = openai_wire.encode(request, "m", official=official)

    assert {k: v for k, v in body.items() if k.startswith("max_")} == {name: 9}


@pytest.mark.parametrize(
    ("written", "arguments", "bad"),
    [
        ('{"a": 1}', {"a": 1}, None),
        ("", {}, None),
        (" ", {}, None),
        (None, {}, None),
        ('{"a": ', {}, '{"a": '),
        ("[1]", {}, "[1]"),
        ("7", {}, "7"),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ("[" * 100_000, {}, "[" * 100_000),
        ({"a": 1}, {"a": 1}, None),
    ],
)
def test_openais_arguments_are_an_object_or_the_models_own_text(
    written: JsonValue, arguments: JsonObject, bad: str | None
) -> None:
    turn = openai_answer(content=None, tool_calls=[{"id": "c", "function": {"name": "look", "arguments": written}}])

    assert turn.parts == (ToolCall("c", "look", arguments, bad),)
    assert (turn.finish_reason, turn.raw_finish_reason) == ("tool_calls", "stop")


def test_openais_refusal_is_no_text() -> None:
    turn = openai_answer(content=None, refusal="I will not.")

    assert (turn.text, turn.refusal, turn.parts) == ("", "I will not.", ())


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_compatible_servers_is_thinking_and_no_text(field: str) -> None:
    turn = openai_answer(content="Four.", **{field: "Two and two."})

    assert (turn.text, turn.thinking) == ("Four.", "Two and two.")


def test_deepseeks_reasoning_goes_back_with_its_calls_but_never_to_openai() -> None:
    call: JsonValue = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    turn = openai_answer(content=None, reasoning_content="Hm.", tool_calls=[call])
    history = ModelRequest([Message("assistant", turn.parts, turn.dialect), user_message([ToolResult("c", "7")])])

    there = objs(openai_wire.encode(history, "m", official=False)["messages"])[0]
    here = objs(openai_wire.encode(history, "m", official=True)["messages"])[0]

    assert there.get("reasoning_content") == "Hm."
    assert "reasoning_content" not in here


def test_an_answer_without_a_choice_is_a_turn_that_ended_without_a_reason() -> None:
    for turn in (
        openai_wire.decode({"id": "x", "choices": [], "usage": {"prompt_tokens": 5}}),
        openai_wire.decode({"choices": None, "usage": {"prompt_tokens": 5}}),
        openai_wire.decode({"usage": {"prompt_tokens": 5}}),
        google_wire.decode({"usageMetadata": {"promptTokenCount": 5}}),
        google_wire.decode({"candidates": [], "usageMetadata": {"promptTokenCount": 5}}),
    ):
        assert (turn.parts, turn.finish_reason, turn.usage.input_tokens) == ((), "other", 5)
        assert unfinished(turn, "openai").retryable


def test_an_azure_answer_that_was_filtered_may_lack_its_message() -> None:
    turn = openai_wire.decode({"choices": [{"finish_reason": "content_filter"}]})

    assert (turn.parts, turn.finish_reason, turn.raw_finish_reason) == ((), "blocked", "content_filter")


def test_a_budget_spent_on_reasoning_is_an_empty_turn_of_full_length() -> None:
    usage: dict[str, JsonValue] = {
        "prompt_tokens": 5,
        "completion_tokens": 64,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 64},
    }
    turn = openai_wire.decode({"choices": [{"message": {"content": ""}, "finish_reason": "length"}], "usage": usage})

    assert (turn.parts, turn.finish_reason) == ((), "length")
    assert turn.usage == Usage(5, 64, cached_tokens=4, cache_write_tokens=1, reasoning_tokens=64)
    assert turn.usage.raw == usage


# Anthropic


def test_anthropic_gets_results_first_in_one_message() -> None:
    message = user_message([TextPart("And now?"), ToolResult("c1", "7"), ToolResult("c2", "no", is_error=True)])

    body = encode("anthropic", ModelRequest([message], system="Be brief."))

    assert body["system"] == "Be brief."
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "7"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        }
    ]


def test_anthropic_gets_pictures_and_documents() -> None:
    notes = base64.b64encode("Grüße".encode()).decode()
    parts: list[Part] = [
        ImagePart(url="https://x.test/a.png"),
        ImagePart("QQ==", "image/jpeg"),
        FilePart("QQ==", "application/pdf", name="a.pdf"),
        FilePart(notes, "text/plain"),
    ]

    body = encode("anthropic", ModelRequest([user_message(parts)]))

    assert objs(body["messages"])[0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}},
    ]


@pytest.mark.parametrize("media_type", ["text/csv", "text/html", "application/json"])
def test_anthropic_gets_every_kind_of_text_as_plain_text(media_type: str) -> None:
    body = encode("anthropic", ModelRequest([user_message([FilePart(base64.b64encode(b"a;b").decode(), media_type)])]))

    assert objs(body["messages"])[0]["content"] == [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a;b"}}
    ]


@pytest.mark.parametrize(
    ("dialect", "part", "says"),
    [
        ("openai", FilePart(url="https://x.test/a.pdf"), r"https://x\.test/a\.pdf"),
        ("anthropic", FilePart("QQ==", "application/zip"), "application/zip"),
        ("anthropic", FilePart("QQ==", "audio/wav"), "audio/wav"),
        ("anthropic", FilePart("/w==", "text/csv"), "text/csv"),  # no UTF-8
        ("anthropic", FilePart(media_type="text/csv", url="https://x.test/a.csv"), "text/csv"),
    ],
)
def test_a_file_that_an_api_does_not_take_is_refused_by_its_type_or_address(
    dialect: str, part: FilePart, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        encode(dialect, ModelRequest([user_message([part])]))


@pytest.mark.parametrize("words", ["", " ", "\n\t", "\u00a0"])
def test_a_users_message_without_words_is_sent_in_a_form_that_the_api_takes(words: str) -> None:
    asked = ModelRequest([user_message(words)], system=words)

    anthropic, google, openai = (encode(d, asked) for d in ("anthropic", "google", "openai"))

    assert anthropic["messages"] == [{"role": "user", "content": [{"type": "text", "text": "(empty message)"}]}]
    assert "system" not in anthropic
    assert google["contents"] == [{"role": "user", "parts": [{"text": words}]}]
    assert objs(openai["messages"])[-1] == {"role": "user", "content": words}


def test_blank_text_beside_other_parts_is_left_out_for_anthropic() -> None:
    messages = [
        user_message([TextPart("\n"), TextPart("Look.")]),
        Message("assistant", (TextPart("\n\n"), ToolCall("a", "look"), ToolCall("b", "look")), "anthropic"),
        user_message([ToolResult("a", "", is_error=True), ToolResult("b", " "), TextPart(" ")]),
    ]

    sent = objs(encode("anthropic", ModelRequest(messages))["messages"])

    assert sent[0]["content"] == [{"type": "text", "text": "Look."}]
    assert [block["type"] for block in objs(sent[1]["content"])] == ["tool_use", "tool_use"]
    assert [block["content"] for block in objs(sent[2]["content"])] == ["(empty message)", ""]


@pytest.mark.parametrize(("official", "content"), [(True, None), (False, "")])
def test_compatible_servers_get_an_empty_text_beside_calls_and_not_null(official: bool, content: str | None) -> None:
    history = ModelRequest([Message("assistant", (ToolCall("a", "look"),))])

    assert objs(openai_wire.encode(history, "m", official=official)["messages"])[0]["content"] == content


@pytest.mark.parametrize(
    ("settings", "limit", "thinking"),
    [
        (Settings(), 4096, None),
        (Settings(max_tokens=100), 100, None),
        (Settings(thinking_tokens=2000), 6096, {"type": "enabled", "budget_tokens": 2000}),
        (Settings(thinking_tokens=2000, max_tokens=2001), 2001, {"type": "enabled", "budget_tokens": 2000}),
        (Settings(thinking_tokens=0), 4096, {"type": "disabled"}),
    ],
)
def test_anthropic_always_gets_a_token_limit_above_its_thinking(
    settings: Settings, limit: int, thinking: JsonValue
) -> None:
    body = with_settings("anthropic", settings)

    assert (body["max_tokens"], body.get("thinking")) == (limit, thinking)


def test_a_token_limit_that_leaves_no_room_after_thinking_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens must be above the tokens for reasoning, got 2000 and 2000"):
        with_settings("anthropic", Settings(thinking_tokens=2000, max_tokens=2000))


def test_anthropics_thinking_goes_back_unchanged_and_in_place() -> None:
    blocks: list[JsonObject] = [
        {"type": "thinking", "thinking": "", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xxx"},
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"sku": "A"}},
    ]
    turn = anthropic_answer(*blocks, stop_reason="tool_use")

    sent = said("anthropic", *turn.parts, made_by=turn.dialect)

    assert [c.name for c in turn.tool_calls] == ["look"]
    assert sent == [{"role": "assistant", "content": blocks}]


def test_anthropics_prompt_is_counted_with_its_cached_parts() -> None:
    usage: dict[str, JsonValue] = {
        "input_tokens": 10,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 5,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    turn = anthropic_answer(usage=usage)

    assert turn.usage == Usage(95, 7, 80, 5, 3, cache_write_1h_tokens=4)


def test_ids_that_anthropic_would_refuse_are_made_fit_on_both_sides() -> None:
    messages = [
        Message("assistant", (ToolCall("functions.look:0", "look"),), "openai"),
        user_message([ToolResult("functions.look:0", "7")]),
    ]

    sent = objs(encode("anthropic", ModelRequest(messages))["messages"])

    call, result = objs(sent[0]["content"])[0], objs(sent[1]["content"])[0]
    assert call["id"] == result["tool_use_id"] == "functions_look_0"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("look", "look"),
        ("a_Long-name_" + "x" * 52, "a_Long-name_" + "x" * 52),
        ("multi_tool_use.parallel", "multi_tool_use_parallel"),
        ("look<|channel|>json", "look__channel__json"),
        ("x" * 80, "x" * 64),
        ("3d", "_3d"),
        ("été", "_t_"),
        ("", "_"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_name_that_no_tool_can_have_does_not_make_the_conversation_refused(
    dialect: str, name: str, sent: str
) -> None:
    call, result = ToolCall("c", name), ToolResult("c", "There is no such tool.", name=name)

    body = encode(dialect, ModelRequest([user_message("Go"), Message("assistant", (call,)), user_message([result])]))

    found = re.findall(r'"name": "([^"]*)"', json.dumps(body))
    assert found == [sent] * (2 if dialect == "google" else 1)


def test_fields_of_a_call_that_only_anthropic_knows_go_back_to_it_alone() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    made: JsonObject = {"type": "tool_use", "id": "a", "name": "look", "input": {"sku": "A"}}
    turn = anthropic_answer({**made, "caller": caller}, {**made, "id": "b", "caller": {"type": "direct"}})

    [sent] = said("anthropic", *turn.parts, made_by="anthropic")
    [elsewhere] = said("anthropic", *turn.parts, made_by="openai")

    assert objs(obj(sent)["content"]) == [{**made, "caller": caller}, {**made, "id": "b"}]
    assert objs(obj(elsewhere)["content"]) == [made, {**made, "id": "b"}]
    assert turn.tool_calls[1].signature is None
    made_by_hand = said("anthropic", ToolCall("a", "look", signature="no JSON"), made_by="anthropic")
    assert objs(obj(made_by_hand[0])["content"]) == [{**made, "input": {}}]


@pytest.mark.parametrize("given", [{}, {"signature": ""}, {"signature": None}], ids=repr)
@pytest.mark.parametrize(
    ("base_url", "goes_back"),
    [
        (None, False),
        ("https://api.anthropic.com", False),
        ("https://api.deepseek.example/anthropic", True),
        ("http://127.0.0.1:4000", True),
    ],
)
@pytest.mark.parametrize("by", ["base_url", "ANTHROPIC_BASE_URL"])
def test_thinking_without_a_signature_goes_back_to_servers_that_give_none(
    given: JsonObject, base_url: str | None, goes_back: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    if by != "base_url" and base_url is not None:
        monkeypatch.setenv(by, base_url)
    turn = anthropic_answer({"type": "thinking", "thinking": "Hm", **given}, {"type": "text", "text": "Seven."})
    answers = Answers(httpx.Response(400))
    model = us.Anthropic("m", api_key="k", base_url=base_url if by == "base_url" else None, transport=answers)

    with pytest.raises(ProviderError):
        model.complete(ModelRequest([Message("assistant", turn.parts, turn.dialect), user_message("Go on")]))

    content = objs(objs(answers.body()["messages"])[0]["content"])
    assert content == [{"type": "thinking", "thinking": "Hm"}] * goes_back + [{"type": "text", "text": "Seven."}]


# Google


@pytest.mark.parametrize("provider", ["gemini", "vertex"])
def test_calls_in_pieces_are_refused_when_the_agent_is_made_and_never_read_in_part(provider: str) -> None:
    asked = Settings(extra={"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}})

    with pytest.raises(ValueError, match="leave streamFunctionCallArguments out"):
        body_of(provider, ModelRequest(HELLO.messages, settings=asked))
    for more in ({"willContinue": True}, {"partialArgs": [{"jsonPath": "$.sku", "stringValue": "A"}]}):
        with pytest.raises(ValueError, match="functionCall must come whole"):
            google_answer({"functionCall": {"name": "look", **more}})
    assert google_answer({"functionCall": {"name": "look", "args": {}, "willContinue": False}}).tool_calls


def test_google_gets_results_as_objects_named_after_their_tools() -> None:
    calls = (ToolCall("a", "look", {}, made_up_id=True), ToolCall("given", "count", {}))
    results: list[Part] = [
        ToolResult("a", "7", name="look"),
        ToolResult("given", "no", is_error=True),
        TextPart("And now?"),
    ]
    body = encode("google", ModelRequest([Message("assistant", calls, "google"), user_message(results)]))

    assert body["contents"] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "look", "args": {}}},
                {"functionCall": {"id": "given", "name": "count", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"result": "7"}}},
                {"functionResponse": {"id": "given", "name": "count", "response": {"error": "no"}}},
                {"text": "And now?"},
            ],
        },
    ]


def test_googles_signatures_stay_on_their_parts_even_on_an_empty_text() -> None:
    parts: list[JsonObject] = [
        {"text": "Hm.", "thought": True, "thoughtSignature": "c1"},
        {"text": "One. "},
        {"text": "Two.", "thoughtSignature": "c2"},
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c3"},
        {"functionCall": {"name": "look", "args": {}}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "", "thoughtSignature": "c4"},
    ]
    turn = google_answer(*parts)

    assert (turn.text, turn.thinking) == ("One. Two.", "Hm.")
    assert said("google", *turn.parts, made_by="google") == [{"role": "model", "parts": parts}]


def test_googles_empty_text_without_a_signature_is_nothing() -> None:
    assert google_answer({"text": ""}).parts == ()


NO_PARTS: list[JsonObject] = [{"content": {}}, {"content": {"role": "model"}}, {"content": None}, {}]


@pytest.mark.parametrize("candidate", NO_PARTS)
def test_google_may_leave_out_content_and_parts(candidate: JsonObject) -> None:
    turn = google_wire.decode({"candidates": [{**candidate, "finishReason": "SAFETY"}]})

    assert (turn.parts, turn.finish_reason, turn.raw_finish_reason) == ((), "blocked", "SAFETY")


def test_a_prompt_that_google_refused_is_blocked_by_name() -> None:
    turn = google_wire.decode({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})

    assert (turn.finish_reason, turn.raw_finish_reason) == ("blocked", "blocked:PROHIBITED_CONTENT")


@pytest.mark.parametrize(
    ("dialect", "word", "reason"),
    [
        ("openai", "stop", "stop"),
        ("openai", "STOP", "stop"),
        ("openai", "eos_token", "stop"),
        ("openai", "tool_calls", "stop"),
        ("openai", "length", "length"),
        ("openai", "model_length", "length"),
        ("openai", "content_filter", "blocked"),
        ("openai", None, "stop"),
        ("openai", "network_error", "other"),
        ("openai", "something_new", "other"),
        ("anthropic", "end_turn", "stop"),
        ("anthropic", "stop_sequence", "stop"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "model_context_window_exceeded", "length"),
        ("anthropic", "refusal", "blocked"),
        ("anthropic", "pause_turn", "paused"),
        ("anthropic", "something_new", "other"),
    ],
)
def test_finish_reasons_have_neutral_words(dialect: str, word: str | None, reason: str) -> None:
    if dialect == "openai":
        turn = openai_wire.decode({"choices": [{"message": {"content": "x"}, "finish_reason": word}]})
    else:
        turn = anthropic_answer({"type": "text", "text": "x"}, stop_reason=str(word))

    assert (turn.finish_reason, turn.raw_finish_reason) == (reason, word)


CUT_TURNS = [
    *[
        openai_wire.decode(
            {"choices": [{"message": {"tool_calls": [{"function": {"name": "look"}}]}, "finish_reason": word}]}
        )
        for word, reason in openai_wire.REASONS.items()
        if reason == "length"
    ],
    *[
        anthropic_answer({"type": "tool_use", "name": "look", "input": {}}, stop_reason=word)
        for word, reason in anthropic_wire.REASONS.items()
        if reason == "length"
    ],
    responses_answer(
        {"type": "function_call", "name": "look", "arguments": ""},
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    ),
    google_answer({"functionCall": {"name": "look", "args": {}}}, reason="MAX_TOKENS"),
]


@pytest.mark.parametrize("turn", CUT_TURNS, ids=lambda turn: f"{turn.dialect}-{turn.raw_finish_reason}")
def test_a_call_in_a_turn_that_ended_at_the_limit_of_tokens_is_cut_off(turn: ModelTurn) -> None:
    assert cut_calls(turn, turn.tool_calls) == {0}


@pytest.mark.parametrize("word", ["tool_calls", None, "something_new"])
def test_a_turn_of_nothing_that_names_no_good_end_has_none(word: str | None) -> None:
    turn = openai_wire.decode({"choices": [{"message": {"content": None}, "finish_reason": word}]})

    assert turn.finish_reason == "other"


def test_a_turn_that_a_compatible_server_ended_with_a_function_call_runs_it() -> None:
    turn = google_answer({"functionCall": {"name": "look", "args": {}}}, reason="FUNCTION_CALL")

    assert (turn.finish_reason, turn.raw_finish_reason) == ("tool_calls", "FUNCTION_CALL")


@pytest.mark.parametrize("reason", ["UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS"])
def test_a_call_that_google_found_fault_with_is_kept_but_blocked(reason: str) -> None:
    turn = google_answer({"functionCall": {"name": "gone", "args": {}}}, reason=reason)

    assert [c.name for c in turn.tool_calls] == ["gone"]
    assert turn.finish_reason == "blocked"


def test_googles_output_is_counted_with_its_thoughts() -> None:
    usage: dict[str, JsonValue] = {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 4,
        "toolUsePromptTokenCount": 2,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 30,
        "totalTokenCount": 49,
    }
    turn = google_wire.decode({"candidates": [{}], "usageMetadata": usage})

    assert turn.usage == Usage(input_tokens=12, output_tokens=37, cached_tokens=4, reasoning_tokens=30)
    assert turn.usage.total_tokens == usage["totalTokenCount"]


def test_googles_config_is_joined_with_the_users_own() -> None:
    extra: JsonObject = {
        "generationConfig": {"responseMimeType": "application/json", "topP": 0.5},
        "safetySettings": [],
    }
    body = with_settings("google", Settings(temperature=0.0, top_p=0.9, extra=extra))

    assert body["generationConfig"] == {"temperature": 0.0, "topP": 0.5, "responseMimeType": "application/json"}
    assert body["safetySettings"] == []


@pytest.mark.parametrize(
    ("made_by", "signature", "there"),
    [
        ("openai", None, STAND_IN),
        ("openai", "theirs", STAND_IN),
        ("google", None, STAND_IN),  # made by Gemini 2.0, which has no signatures
        ("google", "ours", "ours"),
    ],
)
def test_from_gemini_3_on_calls_without_a_signature_bear_the_documented_stand_in(
    made_by: str, signature: str | None, there: str
) -> None:
    calls = (ToolCall("a", "look", signature=signature), ToolCall("b", "look"))
    messages = [Message("assistant", calls, made_by), user_message([ToolResult("a", "1"), ToolResult("b", "2")])]
    request = ModelRequest(messages)

    new = objs(objs(encode("google", request, "gemini-3-flash-preview")["contents"])[0]["parts"])
    old = objs(objs(encode("google", request, "gemini-2.5-flash")["contents"])[0]["parts"])

    assert [p.get("thoughtSignature") for p in new] == [there, None]  # only the first of parallel calls has one
    assert [p.get("thoughtSignature") for p in old] == ["ours" if there == "ours" else None, None]


# Settings


@pytest.mark.parametrize(
    ("dialect", "settings", "name"),
    [
        ("openai", Settings(thinking_tokens=5), "budget of tokens"),
        ("openai-responses", Settings(thinking_tokens=5), "budget of tokens"),
        ("openai-responses", Settings(seed=0), "seed.*openai-chat"),
        ("openai-responses", Settings(stop=("a",)), "stop.*openai-chat"),
        ("anthropic", Settings(seed=0), "seed"),
        ("google", Settings(parallel_tool_calls=False), "parallel_tool_calls"),
    ],
)
def test_a_setting_that_the_api_lacks_is_refused_by_name(dialect: str, settings: Settings, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        with_settings(dialect, settings)


@pytest.mark.parametrize(
    ("dialect", "settings", "sent"),
    [
        ("openai", Settings(temperature=0.0, top_p=0.0, seed=0), {"temperature": 0.0, "top_p": 0.0, "seed": 0}),
        ("openai", Settings(stop=("a", "b")), {"stop": ["a", "b"]}),
        ("openai", Settings(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        ("openai", Settings(tool_choice="none"), {"tool_choice": "none"}),
        ("openai", Settings(tool_choice="required"), {"tool_choice": "required"}),
        (
            "openai",
            Settings(tool_choice="look"),
            {"tool_choice": {"type": "function", "function": {"name": "look"}}},
        ),
        (
            "openai-responses",
            Settings(temperature=0.0, top_p=0.0, max_tokens=9),
            {"temperature": 0.0, "top_p": 0.0, "max_output_tokens": 9},
        ),
        ("openai-responses", Settings(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        ("openai-responses", Settings(tool_choice="none"), {"tool_choice": "none"}),
        ("openai-responses", Settings(tool_choice="required"), {"tool_choice": "required"}),
        ("openai-responses", Settings(tool_choice="look"), {"tool_choice": {"type": "function", "name": "look"}}),
        ("anthropic", Settings(temperature=0.0, top_p=0.0), {"temperature": 0.0, "top_p": 0.0}),
        ("anthropic", Settings(stop=("a",)), {"stop_sequences": ["a"]}),
        (
            "anthropic",
            Settings(parallel_tool_calls=False),
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ("anthropic", Settings(tool_choice="none"), {"tool_choice": {"type": "none"}}),
        ("anthropic", Settings(tool_choice="required"), {"tool_choice": {"type": "any"}}),
        ("anthropic", Settings(tool_choice="look"), {"tool_choice": {"type": "tool", "name": "look"}}),
        (
            "google",
            Settings(temperature=0.0, top_p=0.0, seed=0, stop=("a",), max_tokens=9),
            {
                "generationConfig": {
                    "temperature": 0.0,
                    "topP": 0.0,
                    "seed": 0,
                    "stopSequences": ["a"],
                    "maxOutputTokens": 9,
                }
            },
        ),
        (
            "google",
            Settings(thinking_tokens=5),
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5, "includeThoughts": True}}},
        ),
        ("google", Settings(tool_choice="none"), {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
        ("google", Settings(tool_choice="required"), {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        (
            "google",
            Settings(tool_choice="look"),
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}},
        ),
    ],
)
def test_a_setting_is_sent_in_the_providers_words(dialect: str, settings: Settings, sent: JsonObject) -> None:
    plain, body = with_settings(dialect, Settings()), with_settings(dialect, settings)

    assert {k: v for k, v in body.items() if plain.get(k) != v} == sent


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_setting_that_is_none_is_not_sent(dialect: str) -> None:
    body = with_settings(dialect, Settings())

    assert set(body) <= {"model", "messages", "contents", "tools", "max_tokens", "input", "include", "store"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_extra_fields_lie_over_the_body_but_cannot_ask_for_a_stream(dialect: str) -> None:
    assert with_settings(dialect, Settings(extra={"new": {"a": 1}}))["new"] == {"a": 1}
    with pytest.raises(ValueError, match="stream"):
        with_settings(dialect, Settings(extra={"stream": True}))


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        (
            "openai",
            [
                {
                    "type": "function",
                    "function": {"name": "look", "description": "Look at a shelf.", "parameters": LOOK.schema},
                }
            ],
        ),
        (
            "openai-responses",
            [
                {
                    "type": "function",
                    "name": "look",
                    "description": "Look at a shelf.",
                    "parameters": LOOK.schema,
                    "strict": False,
                }
            ],
        ),
        ("anthropic", [{"name": "look", "description": "Look at a shelf.", "input_schema": LOOK.schema}]),
        (
            "google",
            [
                {
                    "functionDeclarations": [
                        {"name": "look", "description": "Look at a shelf.", "parametersJsonSchema": LOOK.schema}
                    ]
                }
            ],
        ),
    ],
)
def test_tools_are_told_in_the_providers_form(dialect: str, sent: JsonValue) -> None:
    assert with_settings(dialect, Settings())["tools"] == sent


# Crossings


HISTORIES: dict[str, tuple[Part, ...]] = {
    "openai": openai_answer(
        content="I look.",
        tool_calls=[{"id": "call_1", "function": {"name": "look", "arguments": '{"sku": "A"}'}}],
    ).parts,
    "openai/mistral": openai_answer(
        content=[{"type": "thinking", "thinking": "SECRET BLOCK"}, {"type": "text", "text": "I look."}],
        reasoning_content="SECRET THOUGHT",
        reasoning_details=[{"data": "SECRET DETAIL"}],
        annotations=[{"type": "file", "file": {"name": "SECRET FILE"}}],
        tool_calls=[{"id": "call_1", "function": {"name": "look", "arguments": '{"sku": "A"}'}}],
    ).parts,
    "openai-responses": responses_answer(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "SECRET THOUGHT"}],
            "encrypted_content": "SECRET DATA",
        },
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}], "phase": "SECRET PHASE"},
        {"type": "web_search_call", "id": "ws_1", "action": "SECRET SEARCH"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"sku": "A"}'},
    ).parts,
    "anthropic": anthropic_answer(
        {"type": "thinking", "thinking": "SECRET THOUGHT", "signature": "SECRET SIGNATURE"},
        {"type": "redacted_thinking", "data": "SECRET DATA"},
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "SECRET TOOL", "input": {}},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"sku": "A"}},
    ).parts,
    "google": google_answer(
        {"text": "SECRET THOUGHT", "thought": True, "thoughtSignature": "SECRET SIGNATURE"},
        {"text": "I look.", "thoughtSignature": "SECRET SIGNATURE"},
        {"executableCode": {"code": "SECRET CODE"}},
        {
            "functionCall": {"id": "call_1", "name": "look", "args": {"sku": "A"}},
            "thoughtSignature": "SECRET SIGNATURE",
        },
        {"text": "", "thoughtSignature": "SECRET SIGNATURE"},
    ).parts,
}


@pytest.mark.parametrize("to", SERVERS)
@pytest.mark.parametrize(("parts", "made_by"), [(d, m) for d in HISTORIES for m in (d, "")])
def test_only_the_dialect_that_made_a_turn_is_shown_what_only_it_understands(parts: str, made_by: str, to: str) -> None:
    sent = said(to, *HISTORIES[parts], made_by=made_by)

    written = json.dumps(sent)
    assert "I look." in written
    assert "look" in written
    assert ("SECRET" in written) is (made_by == to != "openai")  # OpenAI sends no more than texts and calls


@pytest.mark.parametrize(("to", "goes_back"), [("openai", False), ("openai/mistral", True)])
def test_a_turn_saved_before_servers_had_names_is_one_of_the_compatible_server(to: str, goes_back: bool) -> None:
    [sent] = said(to, *HISTORIES["openai/mistral"], made_by="openai")

    found = [each for each in ("BLOCK", "THOUGHT", "DETAIL", "FILE") if f"SECRET {each}" in json.dumps(sent)]
    assert found == (["BLOCK", "THOUGHT", "DETAIL", "FILE"] if goes_back else [])


@pytest.mark.parametrize("made_by", HISTORIES)
@pytest.mark.parametrize("to", SERVERS)
def test_text_and_calls_cross_from_every_dialect_to_every_other(made_by: str, to: str) -> None:
    first, *others = said(to, *HISTORIES[made_by], made_by="" if made_by != to else made_by)
    sent: JsonValue = [first, *others] if to == "openai-responses" else first

    match to:
        case "openai-responses":
            items = [item for item in objs(sent) if item.get("type") not in ("reasoning", "web_search_call")]
            assert [item.get("content") or item.get("name") for item in items] == ["I look.", "look"]
            assert (items[1]["call_id"], json.loads(str(items[1]["arguments"]))) == ("call_1", {"sku": "A"})
        case "openai" | "openai/mistral" | "openai/groq":
            call = obj(objs(obj(sent)["tool_calls"])[0]["function"])
            content = obj(sent)["content"]
            assert (content if isinstance(content, str) else objs(content)[-1]["text"]) == "I look."
            assert (call["name"], json.loads(str(call["arguments"]))) == ("look", {"sku": "A"})
        case "anthropic":
            blocks = [b for b in objs(obj(sent)["content"]) if b["type"] in ("text", "tool_use")]
            assert blocks == [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call_1", "name": "look", "input": {"sku": "A"}},
            ]
        case _:
            calls = [obj(p["functionCall"]) for p in objs(obj(sent)["parts"]) if "functionCall" in p]
            assert [(c["name"], c["args"]) for c in calls] == [("look", {"sku": "A"})]


def test_arguments_that_were_no_json_go_back_where_the_model_can_see_them() -> None:
    call = ToolCall("c", "look", {}, '{"sku": ')
    history = ModelRequest([Message("assistant", (call,), "openai"), user_message([ToolResult("c", "?", name="look")])])

    def openai(official: bool) -> JsonValue:
        sent = objs(openai_wire.encode(history, "m", official=official)["messages"])[0]
        return obj(objs(sent["tool_calls"])[0]["function"])["arguments"]

    assert openai(True) == '{"sku": '
    assert json.loads(str(openai(False))) == {"INVALID_JSON": '{"sku": '}
    assert objs(obj(said("anthropic", call, made_by="openai")[0])["content"])[0]["input"] == {
        "INVALID_JSON": '{"sku": '
    }
    assert obj(said("openai-responses", call, made_by="openai")[0])["arguments"] == '{"sku": '
    elsewhere = objs(responses_body(history, official=False)["input"])[0]
    assert json.loads(str(elsewhere["arguments"])) == {"INVALID_JSON": '{"sku": '}
    part = objs(obj(said("google", call, made_by="openai")[0])["parts"])[0]
    assert obj(part["functionCall"])["args"] == {"INVALID_JSON": '{"sku": '}


@pytest.mark.parametrize("to", DIALECTS)
def test_reasoning_without_a_signature_is_dropped_from_a_message_of_no_dialect(to: str) -> None:
    assert "Hm." not in json.dumps(said(to, ReasoningPart("Hm."), TextPart("x"), made_by=""))


@pytest.mark.parametrize("to", DIALECTS)
def test_an_assistants_message_that_holds_nothing_is_left_out(to: str) -> None:
    assert said(to, made_by=to) == []


def test_a_users_opaque_part_is_sent_as_it_is() -> None:
    part = OpaquePart({"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}})

    body = encode("openai", ModelRequest([user_message([part])]))

    assert objs(body["messages"])[0]["content"] == [part.data]


def test_letters_that_are_hard_to_send_arrive_as_they_were() -> None:
    words = "日本\u2028\u0085\U0001f600 \ud83d\ude00"
    answers = Answers(httpx.Response(200, json=OPENAI_REPLY))

    MAKERS["openai"](answers, "test-key").complete(ModelRequest([user_message(words)]))

    assert answers.body()["messages"] == [{"role": "user", "content": "日本\u2028\u0085\U0001f600 \U0001f600"}]


@pytest.mark.parametrize("provider", sorted(MAKERS))
def test_half_a_surrogate_pair_is_sent_as_the_sign_for_what_is_no_letter(provider: str) -> None:
    call = ToolCall("c", "look", {"file\udcff": "x\ud83d"})
    messages = [Message("assistant", (call,)), user_message([ToolResult("c", "\udc80\ud83d", name="look")])]
    answers = Answers(httpx.Response(400))

    with pytest.raises(ProviderError):
        MAKERS[provider](answers, "k").complete(ModelRequest(messages, system="a\ud800"))

    sent = answers.requests[0].content
    assert from_json(sent)  # a strict parser, which refuses the escape of one half too
    assert sent.count("\ufffd".encode()) == 5


def test_arguments_may_be_any_mapping() -> None:
    call = ToolCall("c", "look", MappingProxyType({"where": MappingProxyType({"shelf": 7})}))

    [sent] = said("openai", call, made_by="openai")

    function = obj(objs(obj(sent)["tool_calls"])[0]["function"])
    assert json.loads(str(function["arguments"])) == {"where": {"shelf": 7}}


def test_a_number_that_json_lacks_is_refused_before_anything_is_sent() -> None:
    answers = Answers(httpx.Response(200, json=OPENAI_REPLY))

    weigh = ToolSpec("weigh", "", {"type": "object", "maximum": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        MAKERS["openai"](answers, "test-key").complete(ModelRequest(HELLO.messages, tools=(weigh,)))

    assert answers.requests == []
