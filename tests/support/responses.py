"""Responses of OpenAI's Responses API, and clients that get them."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.http import Answers
from understudy.providers import OpenAIResponses
from understudy.vocabulary.messages import JsonObject, JsonValue

DIALECT = "openai-responses"
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID: dict[str, Any] = {"role": "assistant", "content": "Hi."}
SEARCH: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def message(*texts: str, **more: Any) -> dict[str, Any]:
    """Return an item with texts of the model."""
    return {"type": "message", "content": [{"type": "output_text", "text": each} for each in texts], **more}


def call(call_id: str = "a") -> dict[str, Any]:
    """Return an item with a call."""
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "look", "arguments": "{}"}


def response(*output: JsonObject, id: str = "resp_1", **more: JsonValue) -> dict[str, Any]:
    """Return the body of a response with these items."""
    return {"id": id, "status": "completed", "output": list(output), **more}


def client(transport: httpx.BaseTransport, model: str = "gpt-5", **options: Any) -> OpenAIResponses:
    """Return a client with one attempt."""
    return OpenAIResponses(model, api_key="k" * 20, attempts=1, transport=transport, **options)


def answering(*bodies: JsonValue) -> Answers:
    """Return a transport that answers with these bodies in turn."""
    return Answers(*[httpx.Response(200, json=body) for body in bodies])
