"""Reads what an answer says of the limits of its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_WORD = 40  # Characters; a date of RFC 3339 has at most 35. Longer ones could take long to read.
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")
_LENGTH = re.compile(rf"(?:{_PART.pattern})+")


class Told(NamedTuple):
    """What is left of one limit.

    Attributes:
        limit: how many there are when none is used; None if the answer does not say.
        remaining: how many are left.
        reset: seconds until all of them are there again; None if the answer does not say.
    """

    limit: float | None
    remaining: float
    reset: float | None


_NOTHING: Mapping[str, Told] = {}

OPENAI = {"requests": "x-ratelimit-{}-requests", "tokens": "x-ratelimit-{}-tokens"}
"""OpenAI API, Rate limits, Headers; Groq, Azure and others send the same. A reset is a length: `1s`, `6m0s`, `12ms`."""
ANTHROPIC = {
    "requests": "anthropic-ratelimit-requests-{}",
    "tokens": "anthropic-ratelimit-tokens-{}",
    "input tokens": "anthropic-ratelimit-input-tokens-{}",
    "output tokens": "anthropic-ratelimit-output-tokens-{}",
}
"""Anthropic API, Rate limits, Response headers. A reset is a date of RFC 3339."""
_NAMES = [
    (what, name.format("limit"), name.format("remaining"), name.format("reset"))
    for names in (OPENAI, ANTHROPIC)
    for what, name in names.items()
]
_REMAINING = frozenset(remaining for _, _, remaining, _ in _NAMES)


def told_by(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> Mapping[str, Told]:
    """Return what the headers of an answer say, by what is limited; what cannot be read is left out.

    Args:
        headers: by lower-case name.
        wall_clock: seconds since the epoch, to read dates.
    """
    if _REMAINING.isdisjoint(headers):
        return _NOTHING
    found: dict[str, Told] = {}
    for what, limit, remaining, reset in _NAMES:
        left = headers.get(remaining)
        number = None if left is None else _number(left)
        if number is not None:
            found[what] = Told(_number(headers.get(limit, "")), number, _reset(headers.get(reset, ""), wall_clock))
    return found


def _number(word: str) -> float | None:
    if len(word) > LONGEST_WORD:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _reset(word: str, wall_clock: Callable[[], float]) -> float | None:
    if len(word) > LONGEST_WORD:
        return None
    length = _length(word)
    return _until(word, wall_clock) if length is None and word else length


@lru_cache  # most answers of a provider say one of a few lengths
def _length(word: str) -> float | None:
    seconds = _number(word)
    if seconds is not None:
        return seconds
    if not _LENGTH.fullmatch(word):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(word))


def _until(word: str, wall_clock: Callable[[], float]) -> float | None:
    from datetime import datetime  # imported here: few providers send a date

    try:
        date = datetime.fromisoformat(word)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(0.0, date.timestamp() - wall_clock())
