"""Writes the bodies of requests to OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.providers.openai.families import family_of
from understudy.providers.openai.settings import HOTTEST, TIERS, family, prompt_cache, tool_choice
from understudy.providers.wire.families import Family, check_family, reasoning_word
from understudy.providers.wire.output_formats import responses_format, strict_fields
from understudy.providers.wire.settings import asks_for_tools, lay_over, refuse, tier_word
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, Settings, ToolSpec

ENCRYPTED = "reasoning.encrypted_content"
OTHER_API = "leave it out, or use the chat API if the model has it there: 'openai-chat:MODEL'"


def encode(
    request: ModelRequest,
    history: Sequence[JsonObject],
    model: str,
    *,
    official: bool = True,
    store: bool = False,
    previous: str = "",
) -> dict[str, JsonValue]:
    """Return the body for `request`.

    Args:
        history: the items of its messages, without those that the answer `previous` stands for.
        official: whether OpenAI's own models are at the address.
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
    if family_of(model).encrypted:
        body["include"] = [ENCRYPTED]
    settings, row = request.settings, family(model, official=official)
    if request.tools:
        body["tools"] = [_tool(tool, settings) for tool in request.tools]
    body.update(_settings(settings, row, bool(request.tools) or asks_for_tools(settings.extra)))
    body.update(prompt_cache(request, row))
    form = lay_over(body, responses_format(request.output), merged=("text",))
    laid = lay_over(form, settings.extra, merged=("reasoning", "text"), joined=("include",))
    return {key: value for key, value in laid.items() if value is not None}


def _tool(tool: ToolSpec, settings: Settings) -> JsonObject:
    described: JsonObject = {"description": tool.description} if tool.description else {}
    fields = strict_fields(tool, settings, "parameters", all_required=True)
    # OpenAI API, Responses: a function without `strict` is strict, and most schemas are not.
    return {"type": "function", "name": tool.name, **described, "strict": False, **fields}


def _settings(settings: Settings, row: Family, has_tools: bool) -> dict[str, JsonValue]:
    if settings.stop:
        refuse("openai's Responses API", "stop", OTHER_API)
    if settings.seed is not None:
        refuse("openai's Responses API", "seed", OTHER_API)
    check_family("openai", row, settings, hottest=HOTTEST)
    plain: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        "max_output_tokens": settings.max_tokens,
        "top_p": settings.top_p,
        "parallel_tool_calls": settings.parallel_tool_calls if has_tools else None,
        "tool_choice": tool_choice(settings, lambda name: {"type": "function", "name": name}, has_tools=has_tools),
        "reasoning": _reasoning(settings, row),
        "text": None if settings.verbosity is None else {"verbosity": settings.verbosity},
        "service_tier": tier_word("openai", TIERS, settings.service_tier),
    }
    return {key: value for key, value in plain.items() if value is not None}


def _reasoning(settings: Settings, row: Family) -> JsonObject | None:
    """Return the effort. A summary is not asked for: OpenAI refuses it to organisations that it has not verified."""
    effort = reasoning_word("openai", row, settings)
    return None if effort is None else {"effort": effort}
