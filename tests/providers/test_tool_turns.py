"""What must not become of a turn with tool calls when it is sent again: nothing of it is lost, split or left unanswered."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.http import ANTHROPIC_REPLY, GOOGLE_REPLY, MAKERS, OPENAI_REPLY, RESPONSES_REPLY, Answers
from understudy.vocabulary.messages import Message, ModelRequest, TextPart, ToolCall, ToolResult, ToolSpec, user_message

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
CALLS = (ToolCall("a", "look", {"word": "tide"}), ToolCall("b", "look", {"word": "ebb"}))
RESULTS = (ToolResult("a", "line 7", name="look"), ToolResult("b", "line 9", name="look", is_error=True))


def sent(provider: str, *said: TextPart) -> dict[str, Any]:
    """Send a turn with two calls and their results, and return the request's body."""
    replies = {"openai": OPENAI_REPLY, "openai-responses": RESPONSES_REPLY, "anthropic": ANTHROPIC_REPLY}
    reply = replies.get(provider, GOOGLE_REPLY)
    transport = Answers(httpx.Response(200, json=reply))
    messages = [user_message("Look"), Message("assistant", (*said, *CALLS)), Message("user", RESULTS)]
    MAKERS[provider](transport, "k" * 20).complete(ModelRequest(messages, tools=(ToolSpec("look", "Look.", SCHEMA),)))
    return transport.body()


@pytest.mark.parametrize("said", [(), (TextPart("Let me see."),)], ids=["calls alone", "beside text"])
def test_no_result_is_sent_to_openai_without_its_call_before_it(said: tuple[TextPart, ...]) -> None:
    _, turn, *results = sent("openai", *said)["messages"]

    assert [call["id"] for call in turn["tool_calls"]] == ["a", "b"]
    assert [(message["role"], message["tool_call_id"]) for message in results] == [("tool", "a"), ("tool", "b")]


def test_no_result_is_sent_to_the_responses_api_without_its_call_before_it() -> None:
    _, *items = sent("openai-responses")["input"]

    assert [(item["type"], item["call_id"]) for item in items] == [
        ("function_call", "a"),
        ("function_call", "b"),
        ("function_call_output", "a"),
        ("function_call_output", "b"),
    ]


def test_no_result_is_sent_to_anthropic_without_its_call_before_it() -> None:
    _, turn, results = sent("anthropic")["messages"]

    assert [part["id"] for part in turn["content"]] == ["a", "b"]
    assert [part["tool_use_id"] for part in results["content"]] == ["a", "b"]


@pytest.mark.parametrize("provider", ["gemini", "vertex"])
def test_the_results_of_one_turn_are_not_split_over_messages_for_google(provider: str) -> None:
    _, turn, results = sent(provider)["contents"]

    assert [part["functionCall"]["args"]["word"] for part in turn["parts"]] == ["tide", "ebb"]
    assert [part["functionResponse"]["name"] for part in results["parts"]] == ["look", "look"]


@pytest.mark.parametrize("provider", sorted(MAKERS))
def test_no_tool_is_told_without_the_schema_of_its_arguments(provider: str) -> None:
    tools = str(sent(provider)["tools"])

    assert "'word'" in tools
    assert "'required': ['word']" in tools
