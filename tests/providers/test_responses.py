"""OpenAI's Responses API: what of a history goes back, tools of OpenAI's own, and answers that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.http import HELLO
from tests.support.responses import DIALECT, SAID, SEARCH, THOUGHT, answering, call, client, message, response
from tests.support.sdk_types import as_read
from tests.support.wire import objs
from understudy.errors import BadReply, ProviderError
from understudy.providers import OpenAIResponses
from understudy.providers.openai.responses.answer import decode
from understudy.providers.openai.responses.input_items import items_of
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    OpaquePart,
    OutputSpec,
    Part,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    user_message,
)

SECOND: dict[str, Any] = {**THOUGHT, "id": "rs_2"}
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


def sent_with(settings: Settings | None = None, model: str = "gpt-5", **fields: Any) -> dict[str, Any]:
    answers = answering(response(message("Hi.")))
    client(answers, model).complete(replace(HELLO, settings=settings or Settings(), **fields))
    return answers.body()


# --- what goes back


def back(*output: JsonObject, official: bool = True, reasons: bool = True, store: bool = False) -> list[JsonObject]:
    """Return the items that a turn becomes."""
    turn = decode(response(*output))
    return items_of([Message("assistant", turn.parts, turn.dialect)], official=official, reasons=reasons, store=store)


CALLED = {key: value for key, value in call().items() if key != "id"}
ITEMS: list[tuple[list[Any], list[Any]]] = [
    ([THOUGHT, message("Hi.")], [THOUGHT, SAID]),
    ([THOUGHT, call(), SECOND, message("Hi.")], [THOUGHT, CALLED, SECOND, SAID]),
    ([THOUGHT, SECOND, call()], [THOUGHT, SECOND, CALLED]),
    ([THOUGHT, call("a"), call("b")], [THOUGHT, CALLED, {**CALLED, "call_id": "b"}]),
    ([{**THOUGHT, "status": None, "content": []}, call()], [{**THOUGHT, "content": []}, CALLED]),
    ([message("Hi."), THOUGHT], [SAID]),
    ([THOUGHT], []),
    ([THOUGHT, message("")], []),
    ([THOUGHT, message(""), call()], [CALLED]),
    ([THOUGHT, SEARCH, message("Hi.")], [THOUGHT, SEARCH, SAID]),
    ([SEARCH], [SEARCH]),
    ([message("H"), message("i.")], [SAID]),
    ([message("H", "i.")], [SAID]),
    ([message("H"), THOUGHT, message("i.")], [{**SAID, "content": "H"}, THOUGHT, {**SAID, "content": "i."}]),
    ([message("H", phase="commentary"), message("i.")], [{**SAID, "content": "H", "phase": "commentary"}, {**SAID, "content": "i."}]),
    ([{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}], []),
]  # fmt: skip


@pytest.mark.parametrize(("output", "items"), ITEMS)
def test_items_go_back_in_their_order_and_reasoning_before_what_followed_it(
    output: list[Any], items: list[Any]
) -> None:
    assert back(*output) == items


@pytest.mark.parametrize(
    ("official", "reasons", "store", "encrypted", "goes"),
    [
        (True, True, False, True, True),
        (True, True, False, False, False),  # nobody has it
        (True, True, True, False, True),  # OpenAI has it
        (True, False, False, True, False),  # a model that takes no reasoning
        (True, False, True, True, False),
        (False, False, False, False, True),  # a server with models of its own
    ],
)
def test_reasoning_goes_where_it_is_known_and_a_search_only_with_its_reasoning(
    official: bool, reasons: bool, store: bool, encrypted: bool, goes: bool
) -> None:
    thought = THOUGHT if encrypted else {**THOUGHT, "encrypted_content": None}

    items = back(thought, SEARCH, message("Hi."), official=official, reasons=reasons, store=store)

    assert [item.get("type", "message") for item in items] == [
        *(["reasoning", SEARCH["type"]] if goes else []),
        "message",
    ]


@pytest.mark.parametrize("official", [True, False])
def test_fields_of_a_call_that_only_a_compatible_server_knows_go_back_to_it(official: bool) -> None:
    own = {"provider_specific_fields": {"thought_signature": "SIG=="}}
    item: JsonObject = {**CALLED, "id": "fc_1", "status": "completed", "empty": None, **own}

    assert back(item, official=official) == [CALLED if official else {**CALLED, **own}]


def test_a_history_of_chat_completions_goes_on_in_responses_and_back() -> None:
    history = [
        user_message("Go"),
        Message("assistant", (OpaquePart({"reasoning_details": [1]}), TextPart("I look."), ToolCall("a", "look")), "openai"),
        user_message([ToolResult("a", "seven", name="look")]),
    ]  # fmt: skip

    assert items_of(history, official=True, reasons=True, store=False) == [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": "I look."},
        CALLED,
        {"type": "function_call_output", "call_id": "a", "output": "seven"},
    ]


@pytest.mark.parametrize(
    ("parts", "items"),
    [
        ([TextPart("a")], [{"role": "user", "content": "a"}]),
        ([], [{"role": "user", "content": ""}]),
        (
            [TextPart("a"), ImagePart("QQ==", "image/gif"), ImagePart(url="https://x.test/a.png")],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "a"},
                        {"type": "input_image", "image_url": "data:image/gif;base64,QQ==", "detail": "auto"},
                        {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "auto"},
                    ],
                }
            ],
        ),
        (
            [FilePart("QQ==", "application/pdf", name="a.pdf"), FilePart(url="https://x.test/b.pdf")],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        {"type": "input_file", "file_url": "https://x.test/b.pdf"},
                    ],
                }
            ],
        ),
        (
            [OpaquePart({"type": "input_file", "file_id": "f"}), OpaquePart({"type": "mcp_approval_response"})],
            [{"type": "mcp_approval_response"}, {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}],
        ),
    ],
)
def test_a_users_parts_become_contents_and_items(parts: list[Part], items: list[JsonObject]) -> None:
    assert items_of([user_message(parts)], official=True, reasons=True, store=False) == items


def test_sound_is_refused_by_its_type() -> None:
    with pytest.raises(ValueError, match="audio/wav"):
        items_of([user_message([FilePart("QQ==", "audio/wav")])], official=True, reasons=True, store=False)


# --- requests


def test_nothing_is_stored_and_reasoning_is_asked_for_encrypted_where_the_model_has_it() -> None:
    assert sent_with(system="Be brief.") == {
        "model": "gpt-5",
        "input": [{"role": "user", "content": "Hello"}],
        "instructions": "Be brief.",
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert "include" not in sent_with(model="gpt-4o")
    assert "include" not in sent_with(Settings(extra={"include": None}))


@pytest.mark.parametrize(
    ("extra", "field", "value"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools", ["look", "web_search"]),
        ({"tools": []}, "tools", ["look"]),
        ({"include": ["web_search_call.action.sources"]}, "include", ["reasoning.encrypted_content", "web_search_call.action.sources"]),
        ({"include": ["reasoning.encrypted_content"]}, "include", ["reasoning.encrypted_content"]),
        ({"reasoning": {"effort": "low"}}, "reasoning", {"effort": "low"}),
        ({"store": True}, "store", True),
        ({"metadata": {"a": "b"}}, "metadata", {"a": "b"}),
    ],
)  # fmt: skip
def test_extra_fields_stand_beside_what_the_agent_needs(extra: dict[str, Any], field: str, value: object) -> None:
    sent = sent_with(Settings(extra=extra), tools=(LOOK,))[field]

    assert ([tool.get("name", tool["type"]) for tool in sent] if field == "tools" else sent) == value


def test_extra_tools_alone_are_sent_and_can_be_chosen() -> None:
    sent = sent_with(Settings(extra={"tools": [{"type": "web_search"}]}, tool_choice="none", parallel_tool_calls=False))

    assert (sent["tools"], sent["tool_choice"]) == ([{"type": "web_search"}], "none")
    assert sent["parallel_tool_calls"] is False


@pytest.mark.parametrize("wrong", [{"type": "web_search"}, "web_search", 5, True])
@pytest.mark.parametrize("field", ["tools", "include"])
@pytest.mark.parametrize("also", [(), (LOOK,)])
def test_an_extra_field_that_is_no_list_is_refused_before_anything_is_sent(
    field: str, wrong: JsonValue, also: tuple[ToolSpec, ...]
) -> None:
    answers = answering(response())

    with pytest.raises(ValueError, match=f"{field}.*list"):
        client(answers).complete(replace(HELLO, tools=also, settings=Settings(extra={field: wrong})))

    assert answers.requests == []


def test_a_stream_may_be_silent_for_longer_than_those_of_other_apis() -> None:
    assert OpenAIResponses("gpt-5").idle_timeout == 300.0
    assert OpenAIResponses("gpt-5", idle_timeout=7).idle_timeout == 7.0
    assert OpenAIResponses("gpt-5", idle_timeout=None).idle_timeout is None


@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_store_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(TypeError, match="store must be True or False"):
        OpenAIResponses("gpt-5", store=wrong)


# --- answers


def test_an_answer_is_read_item_by_item() -> None:
    turn = decode(
        response(
            {
                **THOUGHT,
                "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
            },
            SEARCH,
            message("Hi."),
            call(),
            model="gpt-5-2025",
            usage={
                "input_tokens": 9,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
        )
    )

    assert [part.kind for part in turn.parts] == ["reasoning", "opaque", "opaque", "text", "tool_call"]
    assert turn.thinking == "One.\n\nTwo."
    assert turn.tool_calls == (ToolCall("a", "look"),)
    assert turn.usage == Usage(9, 5, 4, 3, 2)
    assert (turn.finish_reason, turn.raw_finish_reason) == ("tool_calls", "completed")
    assert (turn.model, turn.response_id, turn.dialect) == ("gpt-5-2025", "resp_1", DIALECT)


@pytest.mark.parametrize(
    ("body", "reason", "raw"),
    [
        (response(message("Hi.")), "stop", "completed"),
        (response(call()), "tool_calls", "completed"),
        (response(), "stop", "completed"),
        (response(message("Hi."), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length", "max_output_tokens"),
        (response(call(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "tool_calls", "max_output_tokens"),
        (response(call(), status="incomplete", incomplete_details={"reason": "content_filter"}), "blocked", "content_filter"),
        (response({**call(), "status": "incomplete"}), "other", "incomplete"),
        (response({**call(), "status": "incomplete"}, call("b"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "other", "incomplete"),
        (response(call(), {**call("b"), "status": "incomplete"}, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "tool_calls", "max_output_tokens"),
        (response(message("Hi."), status="incomplete", incomplete_details={"reason": "steered"}), "other", "steered"),
        (response(message("Hi."), status="incomplete", incomplete_details=None), "other", "incomplete"),
        (response(message("Hi."), status="failed"), "other", "failed"),
        (response(message("Hi."), status="in_progress"), "other", "in_progress"),
        (response(message("Hi."), status=5), "stop", None),
        ({"output": []}, "other", None),
        (response({"type": "computer_call", "call_id": "c"}), "other", "computer_call"),
        (response(message("May I?"), {"type": "mcp_approval_request", "id": "m"}), "other", "mcp_approval_request"),
        (response({"type": "shell_call", "call_id": "c"}, {"type": "shell_call_output", "call_id": "c"}, message("Hi.")), "stop", "completed"),
        (response({"type": "mcp_call", "id": "m"}, message("Hi.")), "stop", "completed"),
    ],
)  # fmt: skip
def test_the_end_of_an_answer_has_a_neutral_word(body: JsonObject, reason: str, raw: str | None) -> None:
    turn = decode(body)

    assert (turn.finish_reason, turn.raw_finish_reason) == (reason, raw)


def test_an_item_that_no_agent_can_answer_is_named_by_the_error() -> None:
    with pytest.raises(BadReply, match="'computer_call'") as caught:
        client(answering(response(call(), {"type": "computer_call", "call_id": "c"}))).complete(HELLO)

    assert not caught.value.retryable


def test_a_refusal_is_no_text() -> None:
    refusal: JsonObject = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}

    turn = decode(response(refusal))

    assert (turn.text, turn.refusal, turn.finish_reason) == ("", "I will not.", "stop")


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        ({"code": "server_error", "message": "oh"}, ProviderError, 500, True),
        ({"code": "rate_limit_exceeded", "message": "oh"}, us.RateLimited, 429, True),
        ({"code": "insufficient_quota", "message": "oh"}, us.RateLimited, 429, False),
        ({"code": "vector_store_timeout", "message": "oh"}, us.ProviderTimeout, 504, True),
        ({"code": "invalid_image", "message": "oh"}, ProviderError, 200, False),
    ],
)
def test_a_response_that_failed_is_the_error_of_its_code(
    error: JsonObject, kind: type[ProviderError], status: int, retryable: bool
) -> None:
    body = response(message("Half"), status="failed", error=error)

    with pytest.raises(ProviderError, match="oh") as caught:
        client(answering(body)).complete(HELLO)

    assert (type(caught.value), caught.value.status, caught.value.retryable) == (kind, status, retryable)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Half"


@pytest.mark.parametrize(
    "output",
    [[1], [None], "x", {"a": 1}, [{"type": "message", "content": 5}], [{"type": "message", "content": [5]}], [{"type": "function_call", "name": 5}]],
)  # fmt: skip
def test_output_of_a_wrong_shape_is_a_bad_reply(output: JsonValue) -> None:
    with pytest.raises(BadReply):
        client(answering({"status": "completed", "output": output})).complete(HELLO)


def test_sources_of_pages_and_files_are_citations_and_probabilities_are_beside() -> None:
    page = {"type": "url_citation", "url": "https://u.test", "title": "T", "start_index": 0, "end_index": 2}
    file = {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 2}
    block: dict[str, Any] = {
        "type": "output_text",
        "text": "Hi.",
        "annotations": [page, file, 5],
        "logprobs": [{"token": "Hi"}],
    }

    turn = decode(response({"type": "message", "content": [block]}))

    assert [(each.title, each.url, each.start, each.end) for each in turn.citations] == [
        ("T", "https://u.test", 0, 2),
        ("a.pdf", "", 0, 3),
    ]
    assert turn.metadata == {"logprobs": {"content": [{"token": "Hi"}]}}
    assert items_of([Message("assistant", turn.parts, DIALECT)], official=True, reasons=True, store=False) == [SAID]


# --- beside the official library, and on a tape


EVERYTHING = ModelRequest(
    [
        user_message(
            [
                TextPart("Look at these."),
                ImagePart("QQ==", "image/png"),
                FilePart("QQ==", "application/pdf", name="a.pdf"),
                FilePart(url="https://x.test/b.pdf", media_type="application/pdf"),
            ]
        ),
        Message(
            "assistant",
            (OpaquePart({**THOUGHT, "content": []}), OpaquePart({**SEARCH, "action": {"type": "search", "query": "a"}}))
            + (TextPart("I look.", "commentary"), OpaquePart(SECOND), ToolCall("a", "look"), ToolCall("b", "look")),
            DIALECT,
        ),
        user_message(
            [
                ToolResult("a", "seven", name="look"),
                ToolResult("b", "a photo", name="look", parts=(ImagePart("QQ=="), FilePart("QQ==", "application/pdf"))),
            ]
        ),
    ],
    system="Be brief.",
    tools=(LOOK,),
    settings=Settings(
        max_tokens=900,
        tool_choice="look",
        parallel_tool_calls=False,
        reasoning="low",
        verbosity="low",
        service_tier="flex",
        cache=True,
        extra={"tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"]},
    ),
    output=OutputSpec("Verdict", {"type": "object", "properties": {"label": {"type": "string"}}}),
)


@pytest.mark.parametrize("store", [False, True])
def test_a_request_has_the_types_of_the_official_library(store: bool) -> None:
    answers = answering(response(message("Hi.")))
    client(answers, store=store).complete(EVERYTHING)
    sent = answers.body()

    assert as_read("openai-responses", sent) == sent


def test_a_loop_with_reasoning_is_replayed_from_a_tape(path: Path) -> None:
    @us.tool
    def look() -> str:
        """Look."""
        return "seven"

    answers = answering(response(THOUGHT, SEARCH, call()), response(message("Seven."), id="resp_2"))
    with us.Recorder(path) as recorder:
        recorded = us.Agent("clerk", model=recorder.record(client(answers)), tools=[look]).run("How many?")

    replayed = us.Agent("clerk", model=us.Replay(path), tools=[look]).run("How many?")

    assert (replayed.text, replayed.messages) == (recorded.text, recorded.messages) != ("", ())
    assert objs(answers.body()["input"])[1:3] == [THOUGHT, SEARCH]
