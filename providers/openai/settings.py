"""Writes settings as fields of a chat completions request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from understudy.providers.wire.families import Family, check_family, reasoning_word
from understudy.providers.wire.json_values import written
from understudy.providers.wire.settings import refuse, tier_word
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, Settings

from .families import COMPATIBLE, family_of

PROVIDER = "openai"
HOTTEST = 2.0  # OpenAI API, Chat completions and Responses: `temperature`.
TIERS: Mapping[str, str] = {"auto": "auto", "standard": "default", "flex": "flex", "priority": "priority"}
"""Neutral word -> the API's (SDK 3.54, types/chat/completion_create_params.py, service_tier)."""


def family(model: str, *, official: bool) -> Family:
    """Return the family of a model; `official` says whether OpenAI's own models are at the address."""
    return family_of(model) if official else COMPATIBLE


def chat_fields(
    settings: Settings, model: str, *, has_tools: bool, official: bool, provider: str = PROVIDER
) -> dict[str, JsonValue]:
    """Return the fields that say how the model should answer, without those of the cache.

    Raises:
        ValueError: the API or the model's family lacks a setting.
    """
    row = family(model, official=official)
    check_family(provider, row, settings, hottest=HOTTEST)
    if official and settings.reasoning == "max" and "max" in row.levels:
        refuse(provider, "reasoning='max' in chat completions", "expected 'xhigh' or below, or use the Responses API")
    cache_fields(settings, row, provider)
    plain: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        # OpenAI API, Chat completions: reasoning models refuse `max_tokens`; compatible servers may know only that.
        "max_completion_tokens" if official else "max_tokens": settings.max_tokens,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": list(settings.stop) or None,
        # OpenAI API, Chat completions: refused in a request without tools.
        "parallel_tool_calls": settings.parallel_tool_calls if has_tools else None,
        "reasoning_effort": reasoning_word(provider, row, settings),
        "verbosity": settings.verbosity,
        "service_tier": tier_word(provider, TIERS, settings.service_tier),
        "tool_choice": tool_choice(
            settings, lambda name: {"type": "function", "function": {"name": name}}, has_tools=has_tools
        ),
    }
    return {name: value for name, value in plain.items() if value is not None}


def tool_choice(settings: Settings, of_one: Callable[[str], JsonObject], *, has_tools: bool) -> JsonValue:
    """Return the field `tool_choice`; None to send nothing.

    Args:
        of_one: returns the API's form for the choice of one tool, by its name.
        has_tools: whether the request has tools; without any, `none` needs no field.
    """
    match settings.tool_choice:
        case "auto":
            return None
        case "none":
            return "none" if has_tools else None
        case "required":
            return "required"
        case name:
            return of_one(name)


def cache_fields(settings: Settings, row: Family, provider: str = PROVIDER) -> Mapping[str, JsonValue]:
    """Return the fields that say how long a cached prompt is kept.

    Raises:
        ValueError: the model's family lacks this kind of cache.
    """
    if settings.cache is None:
        return {}
    if settings.cache not in row.caches:
        known = ", ".join([repr(value) for value in row.caches])
        by_itself = f"it caches by itself; expected {known}" if known else "leave it out, or use extra"
        refuse(provider, f"cache={settings.cache!r} for {row.name}", by_itself)
    return row.caches[settings.cache]


def prompt_cache(request: ModelRequest, row: Family) -> dict[str, JsonValue]:
    """Return all fields of the cache.

    The key is a digest of the beginning that the requests of an agent have in common: OpenAI sends requests of one key to
    one machine (OpenAI API, Prompt caching).
    """
    cache = request.settings.cache
    if cache is None:
        return {}
    fields = dict(cache_fields(request.settings, row))
    if cache is False:
        return fields
    beginning: JsonValue = [request.system, [[tool.name, tool.description, tool.schema] for tool in request.tools]]
    digest = hashlib.sha256(written(beginning).encode("utf-8", "backslashreplace")).hexdigest()
    return {"prompt_cache_key": digest[:32], **fields}
