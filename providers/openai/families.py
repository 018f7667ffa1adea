"""Which of OpenAI's two APIs a model has, by the family of its name and the host of its requests."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

OPENAI = "https://api.openai.com/v1"


class Family(NamedTuple):
    """Models whose names begin alike."""

    name: re.Pattern[str]
    """Matches the beginning of a name."""
    has_responses: bool
    """Whether the Responses API is the one to ask: newer models refuse function tools on chat completions."""
    reasons: bool
    """Whether encrypted reasoning can be asked for; other models refuse the request with status 400."""


FAMILIES = (
    Family(re.compile(r"gpt-(3|4|audio|realtime|oss|image)|chatgpt|davinci|babbage"), False, False),
    Family(re.compile(r"gpt-[\w.]+-search-(api|preview)"), False, False),
    Family(re.compile(r"gpt-5-chat"), True, False),
    Family(re.compile(r"gpt-|o\d|codex"), True, True),  # of names that nobody knows yet, too
    Family(re.compile(r"computer-use"), True, False),
)
"""The first one that matches counts (OpenAI API, Models and the Responses migration guide, as of 2026-11-23)."""
UNKNOWN = Family(re.compile(""), False, False)
FINE_TUNED = "ft:"


def family_of(model: str) -> Family:
    """Return the family of a model; a name of no family is one that only compatible servers know."""
    base = model.removeprefix(FINE_TUNED)
    return next((family for family in FAMILIES if family.name.match(base)), UNKNOWN)


def is_official(base_url: str) -> bool:
    """Whether an address is OpenAI's own, or that of one of its regions (OpenAI API, Data residency)."""
    host = urlsplit(base_url).hostname or ""
    own = urlsplit(OPENAI).hostname or ""
    return host == own or host.endswith(f".{own}")
