"""Recorded streams by way of LiteLLM: what its proxy would send on is read as the same turn.

LiteLLM reads each recording with decoders of its own, and writes it in OpenAI's format, as it does for any client behind it. The tests
are skipped where it is not installed, for it brings half a hundred packages along.
"""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support import wire
from tests.support.http import HELLO
from tests.support.wire_streams import StreamCase, stream_cases

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices when it is imported
litellm: Any = pytest.importorskip("litellm")

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)

OWN_TOOLS = "anthropic-msgs-pause-turn-stream-a"
"""LiteLLM sends on the searches of the provider itself as calls of tools of the client."""
CASES = [
    case
    for case in stream_cases()
    if case.name != OWN_TOOLS
    and case.expected["error"] is None
    and (case.api in ("anthropic", "gemini") or case.path.endswith("/chat/completions"))
]


def address_of(case: StreamCase, server: str) -> tuple[str, str]:
    """Return LiteLLM's name of the model, and the base URL as it wants it."""
    base = f"{server}/{case.name}"
    match case.api:
        case "anthropic":
            return f"anthropic/{case.model}", base + case.path
        case "gemini":
            return f"gemini/{case.model}", f"{base}/v1beta"
        case _:
            return f"openai/{case.model}", base + case.path.removesuffix("/chat/completions")


def sent_on(case: StreamCase, server: str) -> bytes:
    """Return the body that LiteLLM's proxy makes of a recorded stream."""
    model, base = address_of(case, server)
    chunks = litellm.completion(
        model=model,
        api_base=base,
        api_key="test-key",
        messages=[{"role": "user", "content": "Hello"}],
        stream=True,
        stream_options={"include_usage": True},
        num_retries=0,
    )
    events = [f"data: {chunk.model_dump_json(exclude_none=True, exclude_unset=True)}\n\n" for chunk in chunks]
    return "".join([*events, "data: [DONE]\n\n"]).encode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stream_that_litellm_sends_on_gives_the_turn_of_the_original(case: StreamCase, server: str) -> None:
    body = sent_on(case, server)
    reply = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    assembler = us.TurnAssembler()
    with us.OpenAI(case.model, api_key="k", transport=httpx.MockTransport(lambda _: reply)) as model:
        for piece in model.stream(HELLO):
            assembler.add(piece)

    turn = assembler.turn()
    assert turn.text == case.turn.text
    assert turn.thinking == case.turn.thinking
    assert [(call.name, call.arguments) for call in turn.tool_calls] == [
        (call.name, call.arguments) for call in case.turn.tool_calls
    ]
    assert turn.finish_reason == case.turn.finish_reason
    counted = case.turn.usage
    if counted.output_tokens is not None:  # else LiteLLM counts the tokens itself
        assert (turn.usage.input_tokens, turn.usage.output_tokens) == (counted.input_tokens, counted.output_tokens)
