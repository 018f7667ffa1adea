"""Writes settings as fields of a Messages request, and marks the blocks that the API caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from understudy.providers.wire.families import Family, check_family, family_of, is_reasoning, reasoning_word
from understudy.providers.wire.json_values import is_array, is_object
from understudy.providers.wire.settings import refuse, tier_word
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, Settings
from understudy.vocabulary.settings import CACHED_CONTENT

from .families import FAMILIES

PROVIDER = "anthropic"
DEFAULT_MAX_TOKENS = 4096  # The API requires a number; every model accepts this one, and it allows a long answer.
REASONING_MAX_TOKENS = 32_768  # Reasoning counts: room for it and for an answer; these models write up to 128,000.
HOTTEST = 1.0  # Claude API, Messages: `temperature`.
TIERS: Mapping[str, str] = {"auto": "auto", "standard": "standard_only"}
"""Neutral word -> the API's (Claude API, Service tiers; SDK 2.12, types/message_create_params.py)."""
TIMES: Mapping[bool | str, JsonObject] = {
    True: {"type": "ephemeral"},
    "5m": {"type": "ephemeral", "ttl": "5m"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}
"""Value of `cache` -> the mark on the last block that is cached (Claude API, Prompt caching)."""
UNMARKED = ("thinking", "redacted_thinking")  # Claude API, Prompt caching: these blocks bear no mark.


def settings_fields(
    settings: Settings, model: str, *, has_tools: bool, provider: str = PROVIDER
) -> dict[str, JsonValue]:
    """Return the fields that say how the model should answer.

    Args:
        provider: who serves the model, for errors.

    Raises:
        ValueError: the API or the model's family lacks a setting, or settings contradict each other.
    """
    family = family_of(FAMILIES, model)
    if settings.seed is not None:
        refuse(provider, "seed")
    if settings.verbosity is not None:
        refuse(provider, "verbosity", "say in the system prompt how long the answer should be")
    mark_of(settings, provider)
    check_family(provider, family, settings, hottest=HOTTEST)
    body = _reasoning(settings, family, provider)
    body["max_tokens"] = _max_tokens(settings, family, body, provider)
    plain: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stop_sequences": list(settings.stop) or None,
        "service_tier": tier_word(provider, TIERS, settings.service_tier),
        "tool_choice": _tool_choice(settings, has_tools) or None,
    }
    return body | {name: value for name, value in plain.items() if value is not None}


def _reasoning(settings: Settings, family: Family, provider: str) -> dict[str, JsonValue]:
    word = reasoning_word(provider, family, settings)
    if word is None:
        return {}
    if settings.asked_reasoning == "off":
        return {"thinking": {"type": word}}
    if isinstance(word, str):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}
    if settings.tool_choice not in ("auto", "none"):  # Claude API, Extended thinking: tool use
        refuse(provider, f"tool_choice={settings.tool_choice!r} for {family.name} while they reason", "use 'auto'")
    return {"thinking": {"type": "enabled", "budget_tokens": word}}


def _max_tokens(settings: Settings, family: Family, reasoning: Mapping[str, JsonValue], provider: str) -> int:
    """Claude API, Extended thinking: `max_tokens` counts the reasoning and must be above its budget."""
    thinking = reasoning.get("thinking")
    given = thinking.get("budget_tokens") if is_object(thinking) else None
    budget = given if isinstance(given, int) else 0
    if settings.max_tokens is None:
        adaptive = not budget and is_reasoning(family, settings)
        return REASONING_MAX_TOKENS if adaptive else budget + DEFAULT_MAX_TOKENS
    if settings.max_tokens <= budget:
        raise ValueError(
            f"settings: for {provider} max_tokens must be above the tokens for reasoning, "
            f"got {settings.max_tokens} and {budget}"
        )
    return settings.max_tokens


def _tool_choice(settings: Settings, has_tools: bool) -> JsonObject:
    one_at_most: dict[str, JsonValue] = (
        {} if settings.parallel_tool_calls is None else {"disable_parallel_tool_use": not settings.parallel_tool_calls}
    )
    match settings.tool_choice:
        case "auto":
            return {"type": "auto", **one_at_most} if has_tools and one_at_most else {}
        case "none":
            return {"type": "none"} if has_tools else {}
        case "required":
            return {"type": "any", **one_at_most}
        case name:
            return {"type": "tool", "name": name, **one_at_most}


def with_choice_allowed(request: ModelRequest, model: str) -> Settings:
    """Return the settings of a request, without a choice of the answer's tool if the family takes no forced choice.

    A run forces that choice by itself where the answer is the only call left; the tool's description asks for it too.
    """
    settings, output = request.settings, request.output
    forced = output is not None and output.tool == settings.tool_choice
    if forced and "tool_choice" in family_of(FAMILIES, model).lacks:
        return replace(settings, tool_choice="auto")
    return settings


# --- the cache


def mark_of(settings: Settings, provider: str = PROVIDER) -> JsonObject | None:
    """Return the mark for blocks that are cached; None to cache nothing, which is usual.

    Raises:
        ValueError: the API lacks this kind of cache.
    """
    if settings.cache is None or settings.cache is False:
        return None
    if settings.cache not in TIMES:
        what = "caches with a name" if CACHED_CONTENT in str(settings.cache) else f"cache={settings.cache!r}"
        refuse(provider, what, "expected True, False, '5m' or '1h'")
    return TIMES[settings.cache]


def marked(body: dict[str, JsonValue], mark: JsonObject) -> dict[str, JsonValue]:
    """Return the body with marks on its last tool, its system prompt and its last message.

    Claude API, Prompt caching: a mark caches all before it, tools, system and messages in this order. A request may have
    four; a cached beginning is found up to 20 blocks before a mark, so the two last messages of a user's bear one.
    """
    made = dict(body)
    tools, system, messages = body.get("tools"), body.get("system"), body.get("messages")
    if is_array(tools) and tools:
        made["tools"] = [*tools[:-1], _with_mark(tools[-1], mark)]
    if isinstance(system, str):
        made["system"] = [{"type": "text", "text": system, "cache_control": mark}]
    if is_array(messages):
        said = list(messages)
        users = [at for at, message in enumerate(said) if is_object(message) and message.get("role") == "user"]
        for at in users[-2:]:
            said[at] = _message_with_mark(said[at], mark)
        made["messages"] = said
    return made


def _message_with_mark(message: JsonValue, mark: JsonObject) -> JsonValue:
    content = message.get("content") if is_object(message) else None
    if not is_object(message) or not is_array(content):
        return message
    blocks = list(content)
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if is_object(block) and block.get("type") not in UNMARKED:
            blocks[at] = _with_mark(block, mark)
            break
    return {**message, "content": blocks}


def _with_mark(block: JsonValue, mark: JsonObject) -> JsonValue:
    """Return a block with the mark; one that has a mark of its own keeps it."""
    return {"cache_control": mark, **block} if is_object(block) else block
