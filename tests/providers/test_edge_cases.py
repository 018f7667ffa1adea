"""Edge cases of other clients, where no test would have failed: named after what must not happen."""

from __future__ import annotations

import httpx
import pytest

from tests.support.http import HELLO, MAKERS, Answers
from understudy.errors import BadReply, ProviderError
from understudy.vocabulary.messages import JsonValue

NAMELESS: dict[str, JsonValue] = {
    "openai": {"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"arguments": '{"word": "x"}'}}]}}]},
    "openai-responses": {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "a", "arguments": '{"word": "x"}'}],
    },
    "anthropic": {"content": [{"type": "tool_use", "id": "a", "input": {"word": "x"}}], "stop_reason": "tool_use"},
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"args": {"word": "x"}}}]}}]},
    "vertex": {"candidates": [{"content": {"parts": [{"functionCall": {"args": {"word": "x"}}}]}}]},
}


@pytest.mark.parametrize("provider", sorted(MAKERS))
def test_arguments_whose_tool_has_no_name_are_no_call(provider: str) -> None:
    client = MAKERS[provider](Answers(httpx.Response(200, json=NAMELESS[provider])), "k" * 20)

    with pytest.raises(BadReply, match="name"):
        client.complete(HELLO)


@pytest.mark.parametrize("shift", range(4))
def test_an_error_page_is_not_cut_in_the_middle_of_a_letter(shift: int) -> None:
    body = b"x" * shift + "🎭".encode() * 400
    client = MAKERS["openai"](Answers(httpx.Response(500, content=body)), "k" * 20)

    with pytest.raises(ProviderError) as caught:
        client.complete(HELLO)

    said = str(caught.value)
    assert said.count("🎭") == 200 - shift
    assert "\ufffd" not in said
    said.encode()
