"""`Budget`: the limits of a run's spending, inner runs included. `Spending`: the figures so far. `Price`: of a model.

Costs are counted in whole trillionths of a dollar, so that sums are exact: ten times ten cents are one dollar. Users
see a `float` in dollars, rounded once. A small table has published prices; `Budget(prices=…)` extends or overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from understudy.vocabulary.messages import NO_USAGE, Usage
from understudy.vocabulary.other_names import explains_arguments

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


LIMITS = ("total_tokens", "input_tokens", "output_tokens", "cost_usd", "turns", "tool_calls", "seconds")
_LEAST = {"total_tokens": 1, "input_tokens": 1, "output_tokens": 1, "turns": 1, "tool_calls": 0}
"""The limits that are whole numbers, and their minimum: a run needs a turn, but no tool call."""


@explains_arguments(
    "Budget",
    {
        "calls": "use tool_calls=, or turns= for calls of the model",
        "cost": "use cost_usd=",
        "dollars": "use cost_usd=",
        "max_tokens": "use total_tokens=, or Settings(max_tokens=…) for one turn",
        "request_limit": "use turns=",
        "requests": "use turns=",
        "timeout": "use seconds=",
        "tokens": "use total_tokens=, input_tokens= or output_tokens=",
        "tool_calls_limit": "use tool_calls=",
        "total_tokens_limit": "use total_tokens=",
        "usd": "use cost_usd=",
    },
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a run may spend, runs inside of it included. None is no limit; each limit holds on its own.

    Checked before each model call and before each round of tool calls: a reached limit refuses further calls, and calls
    in flight end normally. So concurrent calls may exceed a limit. Only `tool_calls` is exact.

    Raises:
        TypeError: a limit is of the wrong type.
        ValueError: a limit is out of range.
    """

    total_tokens: int | None = None
    """Input and output together."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """US dollars. Every model that is called needs a price: in `prices`, or known to `Price.of`."""
    turns: int | None = None
    """Model calls that were answered, those of runs inside included."""
    tool_calls: int | None = None
    """Calls of tools; a round that would go beyond it does not run at all."""
    seconds: float | None = None
    """Time the run was active. Waiting for a person, or for a place in line, is not."""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price], hash=False)
    """Model string -> price, in place of what `Price.of` knows. A model object without a string goes by its type's name."""

    def __post_init__(self) -> None:
        for name in LIMITS:
            _check(name, getattr(self, name))
        if not isinstance(self.prices, Mapping):
            raise TypeError(f"budget: prices must map model strings to Price(…), got {self.prices!r}")
        for model, price in self.prices.items():
            if not isinstance(model, str) or not isinstance(price, Price):
                raise TypeError(f"budget: prices must map model strings to Price(…), got {model!r}: {price!r}")
        object.__setattr__(self, "prices", dict(self.prices))  # the caller's may change

    def narrowed_by(self, other: Budget) -> Budget:
        """Return a budget with the lower of each limit, and the prices of both; those of the other come first."""
        return self._with(other, min)

    def raised_to(self, other: Budget) -> Budget:
        """Return the budget with the limits of `other` in place of its own, where it has any.

        Raises:
            ValueError: a limit would be lowered. A limit where there was none is fine.
        """
        for name in LIMITS:
            old, new = getattr(self, name), getattr(other, name)
            if old is not None and new is not None and new < old:
                raise ValueError(f"a budget can only be raised: {name} is {old:,}, got {new:,}")
        return self._with(other, max)

    def _with(self, other: Budget, choose: Callable[[float, float], float]) -> Budget:
        changes: dict[str, Any] = {"prices": {**self.prices, **other.prices}}
        for name in LIMITS:
            mine, theirs = getattr(self, name), getattr(other, name)
            changes[name] = theirs if mine is None else mine if theirs is None else choose(mine, theirs)
        return replace(self, **changes)


def _check(name: str, limit: object) -> None:
    """Check one limit; `name` decides which kind of number it must be."""
    if limit is None:
        return
    if name in _LEAST:
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise TypeError(f"budget: {name} must be a whole number, or None for no limit; got {limit!r}")
        if limit < _LEAST[name]:
            raise ValueError(f"budget: {name} must be at least {_LEAST[name]}, or None for no limit; got {limit}")
        return
    if not isinstance(limit, (int, float)) or isinstance(limit, bool):
        raise TypeError(f"budget: {name} must be a number, or None for no limit; got {limit!r}")
    if not (isfinite(limit) and limit > 0):
        raise ValueError(f"budget: {name} must be above 0 and finite, or None for no limit; got {limit!r}")


@dataclass(slots=True, kw_only=True)
class Spending:
    """The spending of a run and its inner runs, and its budget."""

    usage: Usage = NO_USAGE
    """Tokens of all model calls."""
    all_turns: int = 0
    """Model calls that were answered."""
    tool_calls: int = 0
    """Calls of all admitted rounds, including calls that a person rejects."""
    cost: int | None = 0
    """In `PARTS_PER_DOLLAR`; None if a price or a count was unknown."""
    seconds: float = 0.0
    """Seconds that the run itself was active, at the last reading of its clock."""
    budget: Budget | None = None
    """The run's own budget; inner runs may have others, and are bound by this one too."""


def narrowed(budget: Budget | None, other: Budget | None) -> Budget | None:
    """Return the budget that keeps both; None if both are None."""
    return other if budget is None else budget if other is None else budget.narrowed_by(other)
