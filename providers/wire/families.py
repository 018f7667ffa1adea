"""Model families: what a group of models makes of the settings that differ between the models of one API.

Each provider has a table of `Family` rows in its `families` module. The first row whose pattern is found in a model's name
holds for it; the last row is for all other names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from understudy.vocabulary.json_types import JsonObject
from understudy.vocabulary.settings import Settings

from .settings import refuse

NEVER_REASONS: Mapping[str, str | int] = {"off": ""}
"""The levels of models that do not reason: off is what they do, so nothing is sent."""

UNSET = (None, False, (), "auto", "none")
"""Values of settings that ask for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Models that take the same settings."""

    name: str
    """For people, in errors and in the table of docs/model-settings.md."""
    pattern: str
    """A regular expression, searched in the model's name in lower case."""
    example: str
    """The name of one of them."""
    source: str
    """Where the facts of the row stand."""
    levels: Mapping[str, str | int]
    """Level of reasoning -> the API's word for it, or tokens; an empty word where nothing needs to be sent."""
    tokens: tuple[int, int] | None = None
    """The least and most tokens of a budget for reasoning; None if the models take levels only."""
    reasons: bool = False
    """Whether they reason without being asked to."""
    sampling: Literal["always", "without reasoning", "never"] = "always"
    """When they take `temperature` and `top_p`."""
    one_sampling: bool = False
    """Whether they take only one of the two in a request."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Setting that only some families take -> what to do instead."""
    caches: Mapping[bool | str, JsonObject] = field(default_factory=dict["bool | str", "JsonObject"])
    """Value of `cache` -> the fields that it becomes, where that differs by family."""


@lru_cache(maxsize=1024)  # asked at each request; a program has few models
def family_of(families: tuple[Family, ...], model: str) -> Family:
    """Return the row that holds for a model."""
    name = model.lower()
    return next(family for family in families if re.search(family.pattern, name))


def reasoning_word(provider: str, family: Family, settings: Settings) -> str | int | None:
    """Return the API's word, or the tokens, for the reasoning asked for; None to send nothing.

    Raises:
        ValueError: the family has no such level, or no such budget.
    """
    asked = settings.asked_reasoning
    if asked is None:
        return None
    if isinstance(asked, int):
        return _budget(provider, family, asked)
    if asked not in family.levels:
        known = ", ".join(family.levels) + (" or a number of tokens" if family.tokens else "")
        refuse(provider, f"reasoning={asked!r} for {family.name}", f"expected {known or 'none, so leave it out'}")
    return family.levels[asked] or None


def _budget(provider: str, family: Family, tokens: int) -> int:
    if family.tokens is None:
        refuse(provider, f"budget of tokens for the reasoning of {family.name}", f"expected {', '.join(family.levels)}")
    least, most = family.tokens
    if not least <= tokens <= most:
        refuse(
            provider, f"reasoning={tokens} for {family.name}", f"expected from {least:,} to {most:,} tokens, or 'off'"
        )
    return tokens


def is_reasoning(family: Family, settings: Settings) -> bool:
    """Whether a model of the family reasons under these settings."""
    return settings.asks_for_reasoning or (settings.asked_reasoning is None and family.reasons)


def check_family(provider: str, family: Family, settings: Settings, *, hottest: float) -> None:
    """Refuse settings that only other families of the API have, reasoning apart, and a temperature that none has.

    Args:
        hottest: the highest temperature that the API takes. It does not hold for names that tell no family.

    Raises:
        ValueError: there is such a setting; it says what to do instead.
    """
    if family.pattern and settings.temperature is not None and settings.temperature > hottest:
        refuse(provider, f"temperature={settings.temperature:g}", f"expected from 0 to {hottest:g}")
    for setting, instead in family.lacks.items():
        if getattr(settings, setting) not in UNSET:
            refuse(provider, f"{setting}={getattr(settings, setting)!r} for {family.name}", instead)
    if family.sampling == "always" or (family.sampling == "without reasoning" and not is_reasoning(family, settings)):
        if family.one_sampling and settings.temperature is not None and settings.top_p is not None:
            refuse(provider, f"temperature beside top_p for {family.name}", "leave one of them out")
        return
    for setting in ("temperature", "top_p"):
        if getattr(settings, setting) is not None:
            off = family.sampling == "without reasoning" and "off" in family.levels
            instead = "leave it out" + (", or set reasoning='off'" if off else "")
            reasons = " while they reason" if family.sampling == "without reasoning" else ""
            refuse(provider, f"{setting} for {family.name}{reasons}", instead)
