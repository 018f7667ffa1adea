"""Reads request bodies with the types of the official libraries, which are installed by hand and not by the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pydantic
import pytest

from understudy.vocabulary.messages import JsonObject

PARAMS = {
    "openai": "openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming",
    "openai-responses": "openai.types.responses.response_create_params.ResponseCreateParamsNonStreaming",
    "anthropic": "anthropic.types.message_create_params.MessageCreateParamsNonStreaming",
}
"""API -> the class of its parameters."""


def params_of(api: str) -> pydantic.TypeAdapter[Any]:
    """Return a reader of whole bodies; skips the test where the library is not installed."""
    module, _, name = PARAMS[api].rpartition(".")
    sdk: Any = pytest.importorskip(module, reason=f"{module.partition('.')[0]} is not installed")
    return pydantic.TypeAdapter(getattr(sdk, name))


def as_read(api: str, body: JsonObject) -> object:
    """Return what the library's types keep of a body: all of it, if each field has its name and its type there."""
    if api in ("gemini", "vertex"):
        return _as_google_reads(body)
    types = params_of(api)  # kept: iterables are checked when they are read
    return _plain(types.validate_python(body))


def _as_google_reads(body: JsonObject) -> object:
    """The library has no type for a whole body, but one for each of its fields; these take no other fields."""
    types: Any = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    readers: dict[str, Any] = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    for name, value in body.items():
        pydantic.TypeAdapter(readers[name]).validate_json(pydantic.TypeAdapter(object).dump_json(value))
    return body


def _plain(value: Any) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value
