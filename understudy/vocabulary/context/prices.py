"""Prices of models: `Price`, and a small table of published prices that `Budget(prices=…)` extends or overrides.

Costs are counted in whole trillionths of a dollar, so that sums are exact: ten times ten cents are one dollar. Users
see a `float` in dollars, rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from understudy.vocabulary.messages import Usage

PARTS_PER_DOLLAR = 10**12
"""A price is kept to a millionth of a dollar per million tokens, so that a token costs a whole number of these parts."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars per million tokens.

    Raises:
        TypeError: a price is no number.
        ValueError: a number is negative, or not finite.
    """

    input: float
    """The prompt."""
    output: float
    """The model's output, reasoning included."""
    cached_input: float | None = None
    """The part of the prompt that was read from a cache; None for the price of `input`."""
    cache_write: float | None = None
    """The part of the prompt that was written to a cache; None for the price of `input`."""
    cache_write_1h: float | None = None
    """The part of it that was written to be kept for an hour; None for the price of `cache_write`."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input", "cache_write", "cache_write_1h"):
            given = getattr(self, name)
            if given is None and name.startswith("cache"):
                continue
            if not isinstance(given, (int, float)) or isinstance(given, bool):
                raise TypeError(f"price: {name} must be a number of dollars per million tokens, got {given!r}")
            if not isfinite(given) or given < 0:
                raise ValueError(f"price: {name} must be finite and not negative, got {given!r}")

    @classmethod
    def of(cls, model: str) -> Price | None:
        """Return the published price of a model, by its string (`openai:gpt-4o`); None if it is unknown."""
        return _PUBLISHED.get(model)

    def cost_of(self, usage: Usage) -> int | None:
        """Return the cost of these tokens, in `PARTS_PER_DOLLAR`; None if their number is unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        for_an_hour = min(written, usage.cache_write_1h_tokens or 0)
        write = self.input if self.cache_write is None else self.cache_write
        return (
            max(0, usage.input_tokens - cached - written) * _of_a_token(self.input)
            + cached * _of_a_token(self.input if self.cached_input is None else self.cached_input)
            + (written - for_an_hour) * _of_a_token(write)
            + for_an_hour * _of_a_token(write if self.cache_write_1h is None else self.cache_write_1h)
            + usage.output_tokens * _of_a_token(self.output)
        )


def _of_a_token(per_million: float) -> int:
    return round(per_million * (PARTS_PER_DOLLAR // 1_000_000))


def in_dollars(cost: int | None) -> float | None:
    """Return a cost in dollars, for users; None if it is unknown."""
    return None if cost is None else cost / PARTS_PER_DOLLAR


# Standard prices for text, read on 2026-11-22 in copies of the providers' pages, or as others quote them where it says so.
# Prices change, so check what you rely on. Batch, priority and regional prices differ. Left out are models whose price
# depends on the length of the prompt (GPT-5.4 and 5.5, Claude Haiku 5.5, Gemini Pro) or ends on a day that is known (Gemini
# 3.8 Flash): no price is better than a wrong one.
_PUBLISHED = {
    # https://developers.openai.com/api/docs/pricing
    "openai:gpt-4o": Price(2.50, 10.00, 1.25),
    "openai:gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "openai:gpt-4.1": Price(2.00, 8.00, 0.50),
    "openai:gpt-4.1-mini": Price(0.40, 1.60, 0.10),  # quoted
    "openai:gpt-4.1-nano": Price(0.10, 0.40, 0.025),  # quoted
    "openai:gpt-5": Price(1.25, 10.00, 0.125),  # quoted
    "openai:gpt-5-mini": Price(0.25, 2.00, 0.025),
    "openai:gpt-5-nano": Price(0.05, 0.40, 0.005),
    "openai:gpt-5.1": Price(1.25, 10.00, 0.125),  # quoted
    "openai:gpt-5.4-mini": Price(0.75, 4.50, 0.075),  # quoted
    "openai:gpt-5.4-nano": Price(0.20, 1.25, 0.02),  # quoted
    # https://platform.claude.com/docs/en/about-claude/pricing; a cache of an hour costs twice the price of input to write.
    "anthropic:claude-haiku-4-5": Price(1.00, 5.00, 0.10, 1.25, 2.00),
    "anthropic:claude-sonnet-4-6": Price(3.00, 15.00, 0.30, 3.75, 6.00),
    "anthropic:claude-sonnet-5": Price(2.00, 10.00, 0.20, 2.50, 4.00),
    "anthropic:claude-opus-4-5": Price(5.00, 25.00, 0.50, 6.25, 10.00),
    "anthropic:claude-opus-4-6": Price(5.00, 25.00, 0.50, 6.25, 10.00),
    "anthropic:claude-opus-4-7": Price(5.00, 25.00, 0.50, 6.25, 10.00),
    "anthropic:claude-opus-4-8": Price(5.00, 25.00, 0.50, 6.25, 10.00),
    "anthropic:claude-opus-5": Price(5.00, 25.00, 0.50, 6.25, 10.00),
    "anthropic:claude-opus-5-5": Price(4.00, 20.00, 0.20, 5.00, 8.00),  # what concerns the cache is quoted
    "anthropic:claude-sonnet-5-5": Price(2.00, 10.00, 0.10, 2.50, 4.00),  # the cache since 2026-10-07, as quoted
    # https://ai.google.dev/gemini-api/docs/pricing; text, pictures and video, not sound.
    "gemini:gemini-2.5-flash": Price(0.30, 2.50, 0.03),
    "gemini:gemini-2.5-flash-lite": Price(0.10, 0.40, 0.01),
    "gemini:gemini-3-flash-preview": Price(0.50, 3.00),  # quoted; what a cache costs is not known here
    "gemini:gemini-3.5-flash": Price(1.50, 9.00, 0.15),  # quoted
    "rehearsal": Price(0, 0),
}
