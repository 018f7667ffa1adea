"""`Budget`: the limits of a run's spending, inner runs included. `Spending`: the figures so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from understudy.vocabulary.messages import NO_USAGE, Usage
from understudy.vocabulary.other_names import explains_arguments

from .prices import Price

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
