"""Restart budgets: a table of failures in time. Erlang/OTP, supervisor: intensity restarts in period seconds are borne."""

from __future__ import annotations

import pytest

from understudy.orchestration.supervision import RestartBudget, RestartLimit


@pytest.mark.parametrize(
    ("limit", "failures", "borne"),
    [
        (RestartLimit(max_restarts=0, within=5), [0.0], [False]),
        (RestartLimit(max_restarts=1, within=5), [0.0, 1.0], [True, False]),
        (RestartLimit(max_restarts=3, within=5), [0.0, 1.0, 2.0, 3.0], [True, True, True, False]),
        (RestartLimit(max_restarts=1, within=5), [0.0, 5.0], [True, False]),  # the period's end belongs to it
        (RestartLimit(max_restarts=1, within=5), [0.0, 5.1], [True, True]),
        (RestartLimit(max_restarts=2, within=5), [0.0, 4.0, 5.5, 6.0], [True, True, True, False]),
        (RestartLimit(max_restarts=2, within=5), [0.0, 0.0, 0.0], [True, True, False]),
    ],
)
def test_a_restart_is_borne_while_fewer_than_the_limit_lie_in_the_window(
    limit: RestartLimit, failures: list[float], borne: list[bool]
) -> None:
    budget = RestartBudget(limit)

    assert [budget.spend(now) for now in failures] == borne


def test_a_renewed_budget_is_whole_again() -> None:
    budget = RestartBudget(RestartLimit(max_restarts=1, within=60))
    budget.spend(0.0)

    budget.renew()

    assert budget.spend(0.0) is True
