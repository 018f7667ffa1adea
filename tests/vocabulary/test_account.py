"""`Account`: what is spent inside of a run is spent by it, whatever races."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import fields
from typing import Any

import pytest

from tests.support.scripts import WAIT
from tests.support.together import all_at_once, restless_threads
from understudy.errors import BudgetExceeded
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Price, Spending
from understudy.vocabulary.messages import Usage

MODEL = "test:model"
PRICES = {MODEL: Price(1.0, 1.0)}
"""A token costs a millionth of a dollar."""


def account(budget: Budget | None = None, within: Account | None = None, owner: str = "clerk") -> Account:
    return Account(owner, MODEL, Spending(budget=budget), within)


def figures(spending: Spending) -> tuple[int | None, int, int]:
    return spending.usage.total_tokens, spending.all_turns, spending.tool_calls


def test_what_is_spent_inside_is_spent_outside_too() -> None:
    outer, inner, beside = Spending(), Spending(), Spending()
    root = Account("lead", MODEL, outer)
    Account("clerk", MODEL, inner, root).charge_turn(Usage(10, 5))
    Account("other", MODEL, beside, root).charge_turn(Usage(1, 1))
    root.charge_turn(Usage(100, 50))

    assert [figures(each) for each in (outer, inner, beside)] == [(167, 3, 0), (15, 1, 0), (2, 1, 0)]


@pytest.mark.parametrize(
    ("budget", "what", "spent"),
    [
        (Budget(total_tokens=15), "total_tokens", 15),
        (Budget(input_tokens=10), "input_tokens", 10),
        (Budget(output_tokens=5), "output_tokens", 5),
        (Budget(cost_usd=15e-6, prices=PRICES), "cost_usd", 15e-6),
        (Budget(turns=1), "turns", 1),
    ],
)
def test_a_limit_that_is_reached_lets_no_model_call_begin(budget: Budget, what: str, spent: float) -> None:
    run = account(budget)
    assert run.refusal() is None

    run.charge_turn(Usage(10, 5))

    refusal = run.refusal()
    assert refusal is not None
    assert (refusal.what, refusal.limit, refusal.spent, refusal.inherited) == (what, spent, spent, False)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(total_tokens=16, input_tokens=11, output_tokens=6, turns=2, cost_usd=16e-6, prices=PRICES),
        Budget(tool_calls=0, seconds=1),
        Budget(prices=PRICES),
    ],
)
def test_a_limit_that_is_not_reached_stops_nothing(budget: Budget) -> None:
    run = account(budget)

    run.charge_turn(Usage(10, 5))

    assert run.refusal() is None


def test_turns_do_not_hold_up_the_tools_that_the_last_one_asked_for() -> None:
    run = account(Budget(turns=1))

    run.charge_turn(Usage(10, 5))

    assert run.refusal(calls=3) is None
    run.take_calls(3)


def test_tokens_hold_up_tools_too() -> None:
    run = account(Budget(total_tokens=15))
    run.charge_turn(Usage(10, 5))

    with pytest.raises(BudgetExceeded) as caught:
        run.take_calls(1)

    assert caught.value.what == "total_tokens"


def test_a_round_that_would_go_beyond_the_limit_takes_nothing() -> None:
    outer, inner = Spending(budget=Budget(tool_calls=5)), Spending(budget=Budget(tool_calls=9))
    run = Account("clerk", MODEL, inner, Account("lead", MODEL, outer))
    run.take_calls(3)

    with pytest.raises(
        BudgetExceeded, match="spent 3 of the 5 tool_calls in its budget and asked for 3 more"
    ) as caught:
        run.take_calls(3)

    assert (caught.value.spent, caught.value.limit, caught.value.inherited) == (3, 5, True)
    assert (outer.tool_calls, inner.tool_calls) == (3, 3)
    run.take_calls(2)
    assert run.refusal(calls=0) is None


def test_the_innermost_budget_that_is_used_up_is_told() -> None:
    root = account(Budget(turns=1), owner="lead")
    run = account(Budget(turns=1), root)
    other = account(None, root, owner="other")

    run.charge_turn(Usage())

    own, inherited = run.refusal(), other.refusal()
    assert own is not None
    assert inherited is not None
    assert (own.inherited, inherited.inherited) == (False, True)
    assert "agent 'lead' spent 1 of the 1 turns in its budget, which agent 'other' is inside of" in str(inherited)


# --- dollars


def test_a_limit_of_dollars_needs_a_price_for_every_model_inside() -> None:
    root = Account("lead", MODEL, Spending(budget=Budget(cost_usd=1.0, prices=PRICES)))

    with pytest.raises(ValueError, match="agent 'clerk': .* no price for model 'test:other'; pass Budget"):
        Account("clerk", "test:other", Spending(), root)

    Account("clerk", "test:other", Spending(budget=Budget(prices={"test:other": Price(1, 1)})), root)
    Account("clerk", "test:other", Spending())  # nothing is limited here


def test_what_only_runs_others_needs_no_price_and_its_limits_hold_for_them() -> None:
    group = Account("panel", None, Spending(budget=Budget(cost_usd=2e-6, prices=PRICES)))
    run = account(None, group)

    run.charge_turn(Usage(1, 1))

    refusal = run.refusal()
    assert refusal is not None
    assert (refusal.what, refusal.spent, refusal.inherited) == ("cost_usd", 2e-6, True)


def test_prices_of_the_innermost_budget_go_first() -> None:
    outer, inner = Spending(budget=Budget(cost_usd=1.0, prices=PRICES)), Spending(budget=None)
    root = Account("lead", MODEL, outer)

    Account("clerk", MODEL, inner, root).charge_turn(Usage(1, 1))
    Account("other", MODEL, Spending(budget=Budget(prices={MODEL: Price(3, 3)})), root).charge_turn(Usage(1, 1))

    assert (inner.cost, outer.cost) == (2_000_000, 8_000_000)


def test_a_call_of_unknown_cost_makes_the_sum_unknown() -> None:
    root, inner = Spending(), Spending()
    account = Account("clerk", MODEL, inner, Account("lead", "rehearsal", root))

    account.charge_turn(Usage(1, 1))

    assert (inner.cost, root.cost) == (None, None)


# --- going on


def test_raising_a_limit_lets_calls_begin_again() -> None:
    run = account(Budget(total_tokens=15, turns=5))
    run.charge_turn(Usage(10, 5))

    run.extend(Budget(total_tokens=30))

    assert run.refusal() is None
    run.charge_turn(Usage(10, 5))
    assert run.refusal() is not None


def test_dollars_cannot_be_limited_once_some_were_spent_uncounted() -> None:
    run = account()
    run.charge_turn(Usage(1, 1))

    with pytest.raises(ValueError, match="cannot limit cost_usd"):
        run.extend(Budget(cost_usd=1.0, prices=PRICES))

    assert run.refusal() is None


def test_a_limit_of_dollars_without_a_price_changes_nothing() -> None:
    spending = Spending(budget=Budget(turns=3))

    with pytest.raises(ValueError, match="no price"):
        Account("clerk", MODEL, spending).extend(Budget(cost_usd=1.0))

    assert spending.budget == Budget(turns=3)


def test_a_run_draws_from_whatever_it_goes_on_inside_of() -> None:
    first, second, inner = Spending(), Spending(), Spending()
    run = Account("clerk", MODEL, inner, Account("lead", MODEL, first))
    run.charge_turn(Usage(1, 1))

    run.enter(Account("lead", MODEL, second))
    run.charge_turn(Usage(1, 1))

    assert [each.all_turns for each in (first, second, inner)] == [1, 1, 2]


def test_what_a_run_began_may_resume_it_and_no_chain_becomes_a_ring() -> None:
    root = account(owner="lead")
    inner = account(within=root)

    root.enter(inner)

    assert list(root.chain()) == [root]
    assert list(inner.chain()) == [inner, root]


def test_figures_move_with_what_was_spent_before() -> None:
    begun, state = Spending(budget=Budget(turns=2)), Spending()
    run = Account("clerk", MODEL, begun)
    run.charge_turn(Usage(1, 1))

    run.keep_in(state)
    run.charge_turn(Usage(1, 1))

    assert (state.all_turns, state.usage.total_tokens, state.budget) == (2, 4, Budget(turns=2))
    assert begun.all_turns == 1


def test_a_run_that_cannot_go_on_inside_of_another_draws_from_the_one_before() -> None:
    first = account(owner="lead")
    run = Account("clerk", "test:other", Spending(), first)

    with pytest.raises(ValueError, match="no price"):
        run.enter(account(Budget(cost_usd=1.0, prices=PRICES), owner="second"))

    assert list(run.chain()) == [run, first]


def test_a_sum_has_no_raw_counts_and_knows_of_guesses() -> None:
    spending = Spending()
    run = Account("clerk", MODEL, spending)

    run.charge_turn(Usage(1, 1, raw={"prompt_tokens": 1}))
    assert (spending.usage, dict(spending.usage.raw)) == (Usage(1, 1), {})
    run.charge_turn(Usage(1, 1, estimated=True))
    run.charge_turn(Usage(1, 1))

    assert spending.usage == Usage(3, 3, estimated=True)


# --- time


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_counts_while_the_clock_runs_and_adds_up() -> None:
    clock, spending = Clock(), Spending(budget=Budget(seconds=10))
    run = Account("clerk", MODEL, spending)

    run.start(clock)
    clock.now = 104.0
    run.start(clock)  # the run goes on after a crash, and nothing begins anew
    assert run.refusal() is None
    run.settle()
    assert spending.seconds == 4.0
    clock.now = 106.0
    run.stop()
    clock.now = 500.0  # a person thinks
    assert spending.seconds == 6.0
    assert run.refusal() is None
    run.start(clock)
    clock.now = 504.0

    refusal = run.refusal()
    assert refusal is not None
    assert (refusal.what, refusal.limit, refusal.spent) == ("seconds", 10, 10.0)


def test_time_inside_of_a_run_is_the_run_s_own_and_not_added() -> None:
    clock = Clock()
    outer, inner = Spending(budget=Budget(seconds=10)), Spending()
    root = Account("lead", MODEL, outer)
    run = Account("clerk", MODEL, inner, root)
    root.start(clock)
    run.start(clock)

    clock.now = 109.0
    run.stop()

    assert (inner.seconds, root.refusal()) == (9.0, None)
    clock.now = 110.0
    refusal = run.refusal()
    assert refusal is not None
    assert (refusal.what, refusal.inherited) == ("seconds", True)


# --- races


def test_threads_that_race_take_exactly_what_there_is() -> None:
    outer = [Spending(budget=Budget(tool_calls=2)) for _ in range(300)]
    roots = [Account("lead", MODEL, each) for each in outer]
    gate, taken = threading.Barrier(8), [0] * 8

    def race(place: int) -> None:
        for root in roots:
            run = account(None, root)
            gate.wait(WAIT)
            with contextlib.suppress(BudgetExceeded):
                run.take_calls(1)
                taken[place] += 1

    with restless_threads():
        all_at_once(race, range(8))

    assert [each.tool_calls for each in outer] == [2] * 300
    assert sum(taken) == 600


def test_no_charge_of_threads_that_race_is_lost() -> None:
    outer = Spending()
    root = Account("lead", MODEL, outer)

    def race(_: int) -> None:
        run = account(None, root)
        for _ in range(200):
            run.charge_turn(Usage(2, 1))

    with restless_threads():
        all_at_once(race, range(16))

    assert (outer.usage.total_tokens, outer.all_turns) == (16 * 200 * 3, 16 * 200)


def test_every_count_is_added_and_taken_off_what_was_paid_ahead() -> None:
    def usage(counts: dict[str, Any]) -> Usage:
        return Usage(**counts)

    counts = [field.name for field in fields(Usage) if field.name not in ("raw", "estimated")]
    one, three, six = [usage(dict.fromkeys(counts, number)) for number in (1, 3, 6)]
    run = account(Budget(total_tokens=100))

    for _ in range(2):
        run.pay_ahead(one)
        run.charge_turn(three)

    assert run.spending.usage == six
