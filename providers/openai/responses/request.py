"""Writes the bodies of requests to OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.providers.openai.families import family_of
from understudy.providers.wire.output_formats import responses_format
from understudy.providers.wire.settings import lay_over, refuse
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, Settings, ToolSpec

ENCRYPTED = "reasoning.encrypted_content"
OTHER_API = "leave it out, or use the chat API if the model has it there: 'openai-chat:MODEL'"


def encode(
    request: ModelRequest, history: Sequence[JsonObject], model: str, *, store: bool = False, previous: str = ""
) -> dict[str, JsonValue]:
    """Return the body for `request`.

    Args:
        history: the items of its messages, without those that the answer `previous` stands for.
        store: whether OpenAI keeps the answer.
        previous: the id of the stored answer that this request continues; empty if `history` is all of it.

    Raises:
        ValueError: the API lacks a setting, or `extra` is not of its form.
    """
    body: dict[str, JsonValue] = {"model": model, "input": history, "store": store}
    if previous:
        body["previous_response_id"] = previous
    if request.system:
        body["instructions"] = request.system
    if family_of(model).reasons:
        body["include"] = [ENCRYPTED]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    extra = request.settings.extra
    body.update(_settings(request.settings, bool(request.tools or extra.get("tools"))))
    body.update(responses_format(request.output))
    laid = lay_over(body, extra, merged=("reasoning", "text"), joined=("tools", "include"))
    return {key: value for key, value in laid.items() if value is not None}


def _tool(tool: ToolSpec) -> JsonObject:
    described: JsonObject = {"description": tool.description} if tool.description else {}
    # OpenAI API, Responses: a function without `strict` is strict, and most schemas are not.
    return {"type": "function", "name": tool.name, **described, "parameters": tool.schema, "strict": False}


def _settings(settings: Settings, has_tools: bool) -> dict[str, JsonValue]:
    if settings.stop:
        refuse("openai's Responses API", "stop", OTHER_API)
    if settings.seed is not None:
        refuse("openai's Responses API", "seed", OTHER_API)
    if settings.thinking_tokens is not None:
        refuse("openai's Responses API", "thinking_tokens", "pass extra={'reasoning': {'effort': …}}")
    plain: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_tokens,
        "top_p": settings.top_p,
        "parallel_tool_calls": settings.parallel_tool_calls if has_tools else None,
        "tool_choice": _tool_choice(settings.tool_choice, has_tools),
    }
    return {key: value for key, value in plain.items() if value is not None}


def _tool_choice(choice: str, has_tools: bool) -> JsonValue:
    match choice:
        case "auto":
            return None
        case "none":
            return "none" if has_tools else None
        case "required":
            return "required"
        case name:
            return {"type": "function", "name": name}
