"""`Budget` and `Price`: what they refuse, how two become one, and what tokens cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.copies import COPIES
from understudy.vocabulary.context.budget import LIMITS, PARTS_PER_DOLLAR, Budget, Price, in_dollars
from understudy.vocabulary.messages import Usage

WHOLE = ["total_tokens", "input_tokens", "output_tokens", "turns", "tool_calls"]
REAL = ["cost_usd", "seconds"]


def make(name: str, value: Any) -> Budget:
    return Budget(**{name: value})


def priced(name: str, value: Any) -> Price:
    given: dict[str, Any] = {"input": 1.0, "output": 1.0, name: value}
    return Price(**given)


def test_without_a_word_nothing_is_limited() -> None:
    assert [getattr(Budget(), name) for name in LIMITS] == [None] * 7
    assert sorted(LIMITS) == sorted(WHOLE + REAL)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", ["5", 5.0, True, [5]])
def test_a_limit_that_counts_is_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"budget: {name} must be a whole number"):
        make(name, value)


@pytest.mark.parametrize("name", WHOLE)
def test_a_limit_that_counts_has_a_least_value(name: str) -> None:
    least = 0 if name == "tool_calls" else 1  # no tool call is a run, no model call is none

    assert getattr(make(name, least), name) == least
    with pytest.raises(ValueError, match=f"budget: {name} must be at least {least}"):
        make(name, least - 1)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("value", ["5", True, [5.0]])
def test_a_limit_that_measures_is_a_number(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"budget: {name} must be a number"):
        make(name, value)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("value", [0, -0.5, float("nan"), float("inf")])
def test_a_limit_that_measures_is_above_zero_and_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"budget: {name} must be above 0 and finite"):
        make(name, value)


@pytest.mark.parametrize("prices", [["openai:x"], {"openai:x": 2.5}, {7: Price(1, 2)}])
def test_prices_map_model_strings_to_prices(prices: object) -> None:
    with pytest.raises(TypeError, match="budget: prices must map model strings to Price"):
        make("prices", prices)


def test_what_happens_to_the_mapping_of_prices_later_does_not_matter() -> None:
    prices = {"a:b": Price(1, 2)}
    budget = Budget(prices=prices)

    prices.clear()

    assert budget.prices == {"a:b": Price(1, 2)}


@pytest.mark.parametrize("way", COPIES)
def test_a_budget_is_a_value(way: Callable[[Budget], Budget]) -> None:
    budget = Budget(total_tokens=5, cost_usd=0.5, prices={"a:b": Price(1, 2, 0.5, 1.5)})

    again = way(budget)

    assert again == budget
    assert hash(again) == hash(budget)
    with pytest.raises(AttributeError):
        budget.total_tokens = 6  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # the mistake is the point


def test_of_two_budgets_the_lower_limits_hold() -> None:
    agents = Budget(total_tokens=100, turns=5, prices={"a:a": Price(1, 1), "b:b": Price(1, 1)})
    runs = Budget(total_tokens=40, turns=9, seconds=3, prices={"b:b": Price(2, 2)})

    both = agents.narrowed_by(runs)

    assert both == Budget(total_tokens=40, turns=5, seconds=3, prices={"a:a": Price(1, 1), "b:b": Price(2, 2)})


def test_a_raised_budget_keeps_what_is_not_named() -> None:
    raised = Budget(total_tokens=100, turns=5).raised_to(Budget(total_tokens=200, tool_calls=3))

    assert raised == Budget(total_tokens=200, turns=5, tool_calls=3)


def test_a_limit_cannot_be_lowered() -> None:
    with pytest.raises(ValueError, match="a budget can only be raised: turns is 5, got 4"):
        Budget(total_tokens=100, turns=5).raised_to(Budget(total_tokens=200, turns=4))


# --- prices


@pytest.mark.parametrize("name", ["input", "output", "cached_input", "cache_write", "cache_write_1h"])
def test_a_price_is_a_number_of_dollars(name: str) -> None:
    wrong: list[object] = ["1", True, [1]]
    for value in wrong:
        with pytest.raises(TypeError, match=f"price: {name} must be a number of dollars"):
            priced(name, value)
    for value in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"price: {name} must be finite and not negative"):
            priced(name, value)


def test_each_kind_of_token_has_its_price() -> None:
    price = Price(3.0, 15.0, cached_input=0.3, cache_write=3.75)
    usage = Usage(1_000_000, 100_000, cached_tokens=600_000, cache_write_tokens=200_000, reasoning_tokens=50_000)

    # 200,000 fresh, 600,000 read, 200,000 written, 100,000 answered, reasoning among them
    assert in_dollars(price.cost_of(usage)) == 3.03  # 0.60, 0.18, 0.75 and 1.50


@pytest.mark.parametrize(
    ("price", "dollars"),
    [
        (Price(3.0, 15.0, cache_write=3.75, cache_write_1h=6.0), 3.975),  # 1.80 fresh, 0.375 written, 1.80 for an hour
        (Price(3.0, 15.0, cache_write=3.75), 3.30),  # 1.80 fresh, 1.50 written
        (Price(3.0, 15.0), 3.0),
    ],
)
def test_what_is_kept_for_an_hour_has_a_price_of_its_own(price: Price, dollars: float) -> None:
    usage = Usage(1_000_000, 0, cache_write_tokens=400_000, cache_write_1h_tokens=300_000)

    assert in_dollars(price.cost_of(usage)) == dollars


def test_what_has_no_price_of_its_own_costs_what_input_costs() -> None:
    usage = Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=100_000)

    assert in_dollars(Price(2.0, 8.0).cost_of(usage)) == 2.0


@pytest.mark.parametrize("usage", [Usage(), Usage(1, None), Usage(None, 1)])
def test_tokens_that_nobody_counted_have_no_known_cost(usage: Usage) -> None:
    assert Price(1, 1).cost_of(usage) is None
    assert in_dollars(None) is None


def test_a_sum_of_costs_is_exact() -> None:
    # ten cents at a time, 0.1 + 0.1 + 0.1 is more than 0.3 in floats, and eight of them are less than 0.8
    cost = Price(0.1, 0).cost_of(Usage(1_000_000, 0))
    assert cost is not None

    assert [in_dollars(cost * times) for times in (1, 3, 8, 10)] == [0.1, 0.3, 0.8, 1.0]
    assert cost * 10 == PARTS_PER_DOLLAR


def test_a_price_that_is_known_here_is_found_by_the_model_string() -> None:
    known = Price.of("anthropic:claude-haiku-4-5")

    assert known is not None
    assert known.input < known.output
    assert Price.of("anthropic:claude-opus-5-5") is not None
    assert Price.of("openai:gpt-5-mini") is not None
    assert Price.of("gemini:gemini-3.5-flash") is not None
    assert Price.of("rehearsal") == Price(0, 0)
    assert Price.of("openai:no-such-model") is None
