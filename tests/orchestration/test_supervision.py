"""Restart budgets: a table of failures in time. Erlang/OTP, supervisor: intensity restarts in period seconds are borne."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.orchestration.supervision.restarts import (
    Directive,
    OneForAll,
    OneForOne,
    Restart,
    RestartBudget,
    RestForOne,
    RunsInARow,
    Strategy,
    decide,
)


@pytest.mark.parametrize(
    ("limit", "failures", "borne"),
    [
        (OneForOne(max_restarts=0, within=5), [0.0], [False]),
        (OneForOne(max_restarts=1, within=5), [0.0, 1.0], [True, False]),
        (OneForOne(max_restarts=3, within=5), [0.0, 1.0, 2.0, 3.0], [True, True, True, False]),
        (OneForOne(max_restarts=1, within=5), [0.0, 5.0], [True, False]),  # the period's end belongs to it
        (OneForOne(max_restarts=1, within=5), [0.0, 5.1], [True, True]),
        (OneForOne(max_restarts=2, within=5), [0.0, 4.0, 5.5, 6.0], [True, True, True, False]),
        (OneForOne(max_restarts=2, within=5), [0.0, 0.0, 0.0], [True, True, False]),
    ],
)
def test_a_restart_is_borne_while_fewer_than_the_limit_lie_in_the_window(
    limit: OneForOne, failures: list[float], borne: list[bool]
) -> None:
    budget = RestartBudget(limit)

    assert [budget.spend(now) for now in failures] == borne


def test_the_failures_of_one_run_in_a_period_take_one_restart() -> None:
    budget = RestartBudget(OneForOne(max_restarts=2, within=5))

    runs = ["a", "a", "b", "a", "b", "c", "c"]
    assert [budget.spend(float(now), run) for now, run in enumerate(runs[:4])] == [True] * 4
    assert [budget.spend(4.0, run) for run in runs[4:]] == [True, False, False]
    assert budget.spend(5.5, "c")  # the restart for "a" is no more in the window


def test_so_many_different_runs_in_a_row_are_too_many_however_far_apart_they_fail() -> None:
    budget = RunsInARow(3)

    assert [budget.spend(now, run) for now, run in [(0.0, "a"), (9.0, "a"), (1e6, "b"), (2e6, "c")]] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("begin_anew", [RunsInARow.worked, RunsInARow.renew])
def test_a_success_or_a_new_attempt_begins_the_count_of_runs_anew(begin_anew: Callable[[RunsInARow], None]) -> None:
    budget = RunsInARow(2)
    budget.spend(0.0, "a")

    begin_anew(budget)

    assert [budget.spend(0.0, "b"), budget.spend(0.0, "c")] == [True, False]


def test_a_renewed_budget_is_whole_again() -> None:
    budget = RestartBudget(OneForOne(max_restarts=1, within=60))
    budget.spend(0.0)

    budget.renew()

    assert budget.spend(0.0) is True


@pytest.mark.parametrize(
    ("strategy", "failed", "affected"),
    [
        (OneForOne(), "b", "b"),
        (OneForAll(), "b", "abc"),
        (RestForOne(), "a", "abc"),
        (RestForOne(), "b", "bc"),
        (RestForOne(), "c", "c"),
    ],
)
def test_the_strategy_says_who_is_restarted_in_the_order_of_their_start(
    strategy: Strategy, failed: str, affected: str
) -> None:
    assert strategy.affected(list("abc"), failed) == tuple(affected)


@pytest.mark.parametrize(
    ("wanted", "restart", "left", "done"),
    [
        ("restart", "permanent", 1, "restart"),
        ("restart", "transient", 1, "restart"),
        ("restart", "temporary", 1, "stop"),
        ("restart", "permanent", 0, "escalate"),
        ("restart", "transient", 0, "escalate"),
        ("restart", "temporary", 0, "stop"),
        ("resume", "temporary", 0, "resume"),
        ("stop", "permanent", 1, "stop"),
        ("escalate", "transient", 1, "escalate"),
    ],
)
def test_what_is_done_about_a_failure(wanted: Directive, restart: Restart, left: int, done: Directive) -> None:
    budget = RestartBudget(OneForOne(max_restarts=left))

    assert decide(wanted, restart, budget, 0.0) == done


def test_only_a_restart_is_taken_from_the_budget() -> None:
    budget = RestartBudget(OneForOne(max_restarts=1))
    wishes: list[Directive] = ["resume", "stop", "escalate", "restart", "restart"]

    assert [decide(wish, "transient", budget, 0.0) for wish in wishes] == [*wishes[:4], "escalate"]


@pytest.mark.parametrize(("chance", "delays"), [(0.0, [1.0, 2.0, 3.0, 3.0]), (1.0, [0.8, 1.6, 2.4, 2.4])])
def test_a_backoff_doubles_up_to_the_most_and_chance_takes_off_a_fifth(chance: float, delays: list[float]) -> None:
    budget, found = RestartBudget(OneForOne(max_restarts=4, backoff=(1.0, 3.0))), list[float]()

    for _ in delays:
        budget.spend(0.0)
        found.append(budget.delay(chance))

    assert found == pytest.approx(delays)


def test_a_backoff_stays_at_the_most_after_thousands_of_restarts_in_one_period() -> None:
    budget = RestartBudget(OneForOne(max_restarts=5_000, within=3600.0, backoff=(0.001, 0.01)))

    assert all(budget.spend(0.0) for _ in range(5_000))

    assert budget.delay(0.0) == 0.01
