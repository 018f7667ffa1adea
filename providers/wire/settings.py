"""Refuses settings that a provider lacks, and lays a provider's own fields over a request body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NoReturn

from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.settings import names_of_tools, two_tools

from .json_values import is_array, is_object

NEUTRAL_TIERS = ("auto", "standard", "flex", "priority")
HISTORY = ("messages", "contents", "input")
"""The field with the run's history, in the bodies of the APIs: what `extra` says instead would be sent at each turn."""


def refuse(provider: str, setting: str, instead: str = "leave it out") -> NoReturn:
    """Raise ValueError for a setting that the API lacks."""
    raise ValueError(f"settings: {provider} has no {setting}; {instead}")


def tier_word(provider: str, tiers: Mapping[str, str], tier: str | None) -> str | None:
    """Return the API's word for a service tier; None to send nothing.

    A word that is not neutral is the provider's own, and goes as it is.

    Raises:
        ValueError: the API lacks this tier, or the word looks like a misspelt one.
    """
    if tier is None:
        return None
    if tier not in NEUTRAL_TIERS:
        known = {*tiers, *tiers.values()}
        near = get_close_matches(tier.lower(), known, 1, cutoff=0.8)
        if near and tier not in known:
            refuse(
                provider,
                f"service_tier={tier!r}",
                f"did you mean {near[0]!r}? For a word of the provider's own use extra",
            )
        return tier
    if tier not in tiers:
        refuse(provider, f"service_tier={tier!r}", f"expected {', '.join(tiers) or 'none, so leave it out'}")
    return tiers[tier] or None


def lay_over(
    body: Mapping[str, JsonValue], extra: JsonObject, *, merged: tuple[str, ...] = (), joined: tuple[str, ...] = ()
) -> JsonObject:
    """Return `body` with the fields of `extra` in place of its own, and its list `tools` behind the body's own.

    Args:
        merged: names of objects whose fields are put together instead.
        joined: names of arrays that hold the entries of both instead, each entry once.

    Raises:
        ValueError: `extra` asks for a stream, which `complete` cannot read, or replaces the history; a field of `joined` is no
            array; its tools are no list of objects; or two tools have one name.
    """
    if extra.get("stream"):
        raise ValueError("settings: extra must not set stream; a stream is not what complete() reads")
    for key in HISTORY:
        if key in extra and key in body:
            raise ValueError(f"settings: extra must not set {key}; it would replace the messages of the run")
    result = {**body, **extra}
    for key in merged:
        mine, theirs = body.get(key), extra.get(key)
        if is_object(mine) and is_object(theirs):
            result[key] = {**mine, **theirs}
    for key in joined:
        mine, theirs = body.get(key), extra.get(key)
        if theirs is None:
            continue
        if not is_array(theirs):
            raise ValueError(f"settings: extra[{key!r}] must be a list, got {type(theirs).__name__}")
        own = list(mine) if is_array(mine) else []
        result[key] = [*own, *[each for each in theirs if each not in own]]
    if "tools" in extra:
        agents = _tools_in(body.get("tools", []))
        added = _tools_in(extra["tools"])
        if twice := two_tools(names_of_tools(agents), extra):
            raise ValueError(twice)
        result.pop("tools")
        if agents or added:  # the APIs refuse an empty list
            result["tools"] = [*agents, *added]
    return result


def asks_for_tools(extra: JsonObject) -> bool:
    """Whether `extra` brings tools of the provider."""
    return bool(extra.get("tools"))


def _tools_in(tools: JsonValue) -> Sequence[JsonValue]:
    if not is_array(tools) or not all(is_object(tool) for tool in tools):
        raise ValueError("settings: extra: tools must be a list of the provider's own tools, each an object")
    return tools
