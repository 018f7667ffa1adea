"""The families of Google's models, and what each makes of the settings."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.providers.wire.families import NEVER_REASONS, Family

BUDGETS: Mapping[str, str | int] = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576}
"""Level -> `thinkingBudget`, as Google itself translates levels (Gemini API, OpenAI compatibility: Thinking)."""

THINKING = "Gemini API, Thinking: thinking levels and budgets"
LATEST = "Gemini API, What's new in Gemini 3.6: sampling parameters are ignored"


def _levels(*words: str) -> Mapping[str, str | int]:
    return {word: word for word in words}


FAMILIES = (
    Family(
        name="Gemini image models",
        pattern=r"gemini-[\w.-]*image",
        example="gemini-2.5-flash-image",
        source=THINKING,
        levels=NEVER_REASONS,
    ),
    Family(
        name="Gemini 2.5 Pro",
        pattern=r"gemini-2\.5-pro",
        example="gemini-2.5-pro",
        source=THINKING,
        levels=BUDGETS,
        tokens=(128, 32_768),
        reasons=True,
    ),
    Family(
        name="Gemini 2.5 Flash-Lite",
        pattern=r"gemini-2\.5-flash-lite",
        example="gemini-2.5-flash-lite",
        source=THINKING,
        levels={"off": "off", **BUDGETS},
        tokens=(512, 24_576),
    ),
    Family(
        name="Gemini 2.5 Flash",
        pattern=r"gemini-2\.5",
        example="gemini-2.5-flash",
        source=THINKING,
        levels={"off": "off", **BUDGETS},
        tokens=(1, 24_576),
        reasons=True,
    ),
    Family(
        name="Gemini 2.0 and before, and Gemma",
        pattern=r"gemini-([12](?!\d)|pro$)|gemma",
        example="gemini-2.0-flash",
        source=THINKING,
        levels=NEVER_REASONS,
    ),
    Family(
        name="Gemini 3 Pro",
        pattern=r"gemini-3-pro",
        example="gemini-3-pro-preview",
        source=THINKING,
        levels=_levels("low", "high"),
        reasons=True,
    ),
    Family(
        name="Gemini 3.1 Pro",
        pattern=r"gemini-3\.1-pro",
        example="gemini-3.1-pro-preview",
        source=THINKING,
        levels=_levels("low", "medium", "high"),
        reasons=True,
    ),
    Family(
        name="Gemini 3.5 Flash-Lite and 3.6 Flash",
        pattern=r"gemini-3\.(5-flash-lite|6)",
        example="gemini-3.6-flash",
        source=f"{THINKING}; {LATEST}",
        levels=_levels("minimal", "low", "medium", "high"),
        reasons=True,
        sampling="never",
    ),
    Family(
        name="Gemini 3 Flash to 3.5 Flash",
        pattern=r"gemini-3(\.[1-5])?-",
        example="gemini-3-flash-preview",
        source=THINKING,
        levels=_levels("minimal", "low", "medium", "high"),
        reasons=True,
    ),
    Family(
        name="Gemini 3.7 and later",
        pattern=r"gemini-([3-9]|[1-9]\d|(flash|pro|flash-lite)-latest)",
        example="gemini-3.8-flash",
        source=f"{THINKING}; {LATEST}; models without a row of their own: assumed",
        levels=_levels("low", "medium", "high"),
        reasons=True,
        sampling="never",
    ),
    Family(
        name="models whose names tell no family",
        pattern="",
        example="tunedModels/mine",
        source="names that only an account knows: nothing is refused",
        levels={"off": "off", **BUDGETS},
        tokens=(1, 1_000_000),
    ),
)
