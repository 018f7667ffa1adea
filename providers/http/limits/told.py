"""Reads what an answer says of the limits of its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf, isfinite
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


OPENAI = {"requests": "x-ratelimit-{}-requests", "tokens": "x-ratelimit-{}-tokens"}
"""OpenAI API, Rate limits, Headers; Groq, Azure and others send the same. A reset is a length: `1s`, `6m0s`, `12ms`."""
ANTHROPIC = {
    "requests": "anthropic-ratelimit-requests-{}",
    "tokens": "anthropic-ratelimit-tokens-{}",
    "input tokens": "anthropic-ratelimit-input-tokens-{}",
    "output tokens": "anthropic-ratelimit-output-tokens-{}",
}
"""Anthropic API, Rate limits, Response headers. A reset is a date of RFC 3339."""
TOKENS = ("tokens", "input tokens")
"""What a request takes its tokens of; of the others it takes one, for nobody knows how long its answer will be."""
_NAMES = [
    (what, name.format("limit"), name.format("remaining"), name.format("reset"))
    for names in (OPENAI, ANTHROPIC)
    for what, name in names.items()
]
_REMAINING = {remaining: what in TOKENS for what, _, remaining, _ in _NAMES}
"""Names of headers that say how many are left, and whether they count tokens."""
_NAMED = frozenset(_REMAINING)


class Left(NamedTuple):
    """How much an answer says is left. The rest of its headers is read when little is left.

    Attributes:
        requests: the fewest of what each request takes one of; infinite if the answer does not say.
        tokens: the fewest of what each request takes its tokens of; infinite if the answer does not say.
        headers: of the answer, by lower-case name.
        at: when it came, in seconds since the epoch.
    """

    requests: float
    tokens: float
    headers: Mapping[str, str]
    at: float

    def limits(self) -> Mapping[str, Told]:
        """Return all that the headers say, by what is limited."""
        return told_by(self.headers, self.at)


def left_by(headers: Mapping[str, str], wall_clock: Callable[[], float]) -> Left | None:
    """Return how much the headers of an answer say is left; None if they say nothing that can be read.

    Args:
        headers: by lower-case name.
        wall_clock: seconds since the epoch.
    """
    if _NAMED.isdisjoint(headers):
        return None
    requests = tokens = inf
    for name, is_tokens in _REMAINING.items():
        word = headers.get(name)
        number = None if word is None else _number(word)
        if number is None:
            continue
        if is_tokens:
            tokens = min(tokens, number)
        else:
            requests = min(requests, number)
    return None if requests == tokens == inf else Left(requests, tokens, headers, wall_clock())


def told_by(headers: Mapping[str, str], at: float) -> Mapping[str, Told]:
    """Return what the headers of an answer say, by what is limited; what cannot be read is left out.

    Args:
        headers: by lower-case name.
        at: when the answer came, in seconds since the epoch, to read dates.
    """
    found: dict[str, Told] = {}
    for what, limit, remaining, reset in _NAMES:
        left = headers.get(remaining)
        number = None if left is None else _number(left)
        if number is not None:
            found[what] = Told(_number(headers.get(limit, "")), number, _reset(headers.get(reset, ""), at))
    return found


def _number(word: str) -> float | None:
    if len(word) > LONGEST_WORD:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _reset(word: str, at: float) -> float | None:
    if len(word) > LONGEST_WORD:
        return None
    length = _length(word)
    return _until(word, at) if length is None and word else length


@lru_cache  # most answers of a provider say one of a few lengths
def _length(word: str) -> float | None:
    seconds = _number(word)
    if seconds is not None:
        return seconds
    if not _LENGTH.fullmatch(word):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(word))


def _until(word: str, at: float) -> float | None:
    from datetime import datetime  # imported here: few providers send a date

    try:
        date = datetime.fromisoformat(word)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(0.0, date.timestamp() - at)
