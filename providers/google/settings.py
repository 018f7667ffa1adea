"""Writes settings as fields of a generateContent request."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.providers.wire.families import Family, check_family, family_of, reasoning_word
from understudy.providers.wire.output_formats import google_format
from understudy.providers.wire.settings import refuse, tier_word
from understudy.vocabulary.messages import JsonObject, JsonValue, OutputSpec, Settings
from understudy.vocabulary.settings import CACHED_CONTENT

from .families import FAMILIES

HOTTEST = 2.0  # Gemini API, GenerationConfig: `temperature`.
TIERS: Mapping[str, Mapping[str, str]] = {
    "gemini": {"standard": "standard", "flex": "flex", "priority": "priority"},
    "vertex": {},
}
"""Provider -> neutral word -> the API's (SDK 3.4, types.py, ServiceTier). Vertex AI takes tiers by headers only."""


def settings_fields(
    settings: Settings, model: str, *, has_tools: bool, provider: str, output: OutputSpec | None = None
) -> dict[str, JsonValue]:
    """Return the fields that say how the model should answer, and in which form.

    Raises:
        ValueError: the API or the model's family lacks a setting.
    """
    family = family_of(FAMILIES, model)
    if settings.parallel_tool_calls is False:
        refuse(provider, "way to forbid parallel_tool_calls")
    if settings.verbosity is not None:
        refuse(provider, "verbosity", "say in the system prompt how long the answer should be")
    if settings.strict_tools:
        hint = "leave it out; extra={'toolConfig': {'functionCallingConfig': {'mode': 'VALIDATED'}}} comes near to it"
        refuse(provider, "strict_tools", hint)
    check_family(provider, family, settings, hottest=HOTTEST)
    body: dict[str, JsonValue] = {}
    config = _config(settings, family, provider) | google_format(output)
    if config:
        body["generationConfig"] = config
    calling = _calling(settings, has_tools)
    if calling:
        body["toolConfig"] = {"functionCallingConfig": calling}
    tier = tier_word(provider, TIERS[provider], settings.service_tier)
    if tier is not None:
        if provider == "vertex":
            refuse(provider, f"service_tier={tier!r}", "leave it out")
        body["serviceTier"] = tier
    cached = cached_content(settings, provider)
    return body | ({} if cached is None else {"cachedContent": cached})


def _config(settings: Settings, family: Family, provider: str) -> dict[str, JsonValue]:
    plain: dict[str, JsonValue] = {
        "temperature": settings.temperature,
        "maxOutputTokens": settings.max_tokens,
        "topP": settings.top_p,
        "seed": settings.seed,
        "stopSequences": list(settings.stop) or None,
        "thinkingConfig": _thinking(reasoning_word(provider, family, settings)),
    }
    return {name: value for name, value in plain.items() if value is not None}


def _thinking(word: str | int | None) -> JsonObject | None:
    match word:
        case None:
            return None
        case "off":
            return {"thinkingBudget": 0, "includeThoughts": False}
        case int():
            return {"thinkingBudget": word, "includeThoughts": True}
        case str():
            return {"thinkingLevel": word, "includeThoughts": True}


def _calling(settings: Settings, has_tools: bool) -> JsonObject:
    match settings.tool_choice:
        case "auto":
            return {}
        case "none":
            return {"mode": "NONE"} if has_tools else {}
        case "required":
            return {"mode": "ANY"}
        case name:
            return {"mode": "ANY", "allowedFunctionNames": [name]}


def cached_content(settings: Settings, provider: str) -> str | None:
    """Return the name of a cache that was made before; None without one.

    True asks for nothing: Gemini models cache the beginnings of prompts by themselves (Gemini API, Context caching).

    Raises:
        ValueError: the API lacks this kind of cache.
    """
    if settings.cache is None or settings.cache is True:
        return None
    if settings.cache is False or CACHED_CONTENT not in settings.cache:
        expected = f"expected True, or the name of a cache: '{CACHED_CONTENT}…'"
        refuse(provider, f"cache={settings.cache!r}", f"it caches by itself; {expected}")
    return settings.cache
