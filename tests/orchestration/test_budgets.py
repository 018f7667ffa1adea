"""A machine keeps its run's budget: what it can know of it, and what it is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import pytest

from tests.support.machines import (
    asks,
    call,
    completed,
    gives,
    make_spec,
    model_step,
    reloaded,
    run_of,
    saved,
    tool_ids,
    waiting_ids,
)
from understudy.errors import BudgetExceeded
from understudy.orchestration import Agent, AgentRun, RunSpec
from understudy.orchestration.definitions.agent import account_of
from understudy.testing import ScriptedModel
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Price, Spending
from understudy.vocabulary.messages import ModelTurn, TextPart, Usage, says
from understudy.vocabulary.runs.outcomes import Reject

PRICES = {"test:model": Price(1.0, 1.0)}
"""A token costs a millionth of a dollar."""


def spec_with(budget: Budget | None = None, *, refund: bool = False) -> RunSpec:
    spec = make_spec("look", "refund", approvals={"refund": refund})
    return replace(spec, budget=budget, priced_as="test:model")


def refused(run: AgentRun) -> tuple[str, float, float]:
    """Return limit, number and what was spent, of a run that must not go on, here and where it is loaded again."""
    before = run.to_json()
    for again in (run, run, reloaded(run)):
        with pytest.raises(BudgetExceeded) as caught:
            again.next_step()
        assert again.to_json() == before
        assert again.at_limit()
    return caught.value.what, caught.value.limit, caught.value.spent


def test_a_round_of_which_nothing_runs_is_not_held_up_by_calls_that_others_made() -> None:
    run = run_of(spec_with(Budget(tool_calls=1)), [asks(call("a", "lok"))])

    run.charge(tool_calls=5)

    assert model_step(run)


def test_a_round_that_waits_for_a_person_waits_though_the_tokens_are_spent() -> None:
    run = run_of(spec_with(Budget(tool_calls=5, turns=9, total_tokens=10), refund=True))
    model_step(run)
    run.model_response(asks(call("b", "refund"), usage=Usage(3, 3)))
    assert waiting_ids(run) == ["b"]

    run.charge(Usage(5, 5), 0.0)

    assert waiting_ids(run) == ["b"]
    run.decisions({"b": Reject()})
    assert refused(run) == ("total_tokens", 10, 16)


def test_the_outcome_tells_the_cost_where_a_price_is_known() -> None:
    unknown = run_of(spec_with(), [says("Seven.", usage=Usage(3, 2))])
    known = run_of(spec_with(Budget(prices=PRICES)), [says("Seven.", usage=Usage(3, 2))])
    uncounted = run_of(spec_with(Budget(prices=PRICES)), [says("Seven.")])

    assert [completed(run).cost_usd for run in (unknown, known, uncounted)] == [None, 5e-6, None]


def test_a_limit_of_dollars_needs_a_price() -> None:
    with pytest.raises(ValueError, match="no price for model 'test:model'"):
        AgentRun(spec_with(Budget(cost_usd=1.0)), "Hi")


def test_a_run_s_own_budget_narrows_the_agent_s() -> None:
    spec = spec_with(Budget(total_tokens=20, turns=2))

    run = AgentRun(spec, "Hi", budget=Budget(total_tokens=10, turns=9))
    run.model_response(asks(call("a"), usage=Usage(6, 4)))

    assert refused(run) == ("total_tokens", 10, 10)
    run.extend(budget=Budget(total_tokens=100))
    assert tool_ids(run) == ["a"]
    run.tool_results([gives("a")])
    run.model_response(asks(call("b")))
    run.next_step()
    run.tool_results([gives("b")])
    assert refused(run) == ("turns", 2, 2)


# --- what the machine is told


def test_what_ran_inside_is_spent_by_the_run() -> None:
    run = run_of(spec_with(Budget(total_tokens=100, turns=5, prices=PRICES)), [asks(call("a"), usage=Usage(6, 4))])
    assert tool_ids(run) == ["a"]

    run.charge(Usage(60, 30), 90e-6, turns=2, tool_calls=1)
    run.tool_results([gives("a")])

    assert refused(run) == ("total_tokens", 100, 100)
    run.extend(budget=Budget(total_tokens=1000))
    run.model_response(says("Seven.", usage=Usage(1, 1)))
    outcome = completed(run)
    assert (outcome.usage.total_tokens, outcome.cost_usd, outcome.turns) == (102, 102e-6, 2)
    assert run.usage == Usage(67, 35)


def test_tokens_without_a_cost_make_the_cost_unknown() -> None:
    run = run_of(spec_with(Budget(cost_usd=1.0, prices=PRICES)), [asks(call("a"), usage=Usage(6, 4))])
    assert tool_ids(run) == ["a"]

    run.charge(Usage(60, 30))
    run.tool_results([gives("a")])

    what, limit, spent = refused(run)
    assert (what, limit, spent) == ("cost_usd", 1.0, float("inf"))


def test_time_is_what_the_caller_says_it_is() -> None:
    run = AgentRun(spec_with(Budget(seconds=2)), "Hi")
    run.charge(seconds=1.5)
    assert model_step(run)

    run.charge(seconds=0.5)

    assert refused(run) == ("seconds", 2, 2.0)


# --- what nobody reports


def test_tokens_that_nobody_reports_are_guessed_if_a_budget_needs_them() -> None:
    spec = replace(spec_with(Budget(total_tokens=1000)), tools=(), system="x" * 40)

    run = run_of(spec, [ModelTurn((TextPart("y" * 20),))], input="z" * 39)

    assert run.usage == Usage(20, 5, estimated=True)  # 79 characters of prompt are 19 tokens and three quarters
    assert completed(run).usage.estimated


def test_a_number_that_is_reported_is_taken_as_it_is() -> None:
    run = run_of(spec_with(Budget(total_tokens=1000)), [ModelTurn((TextPart("y" * 20),), Usage(7))])

    assert run.usage == Usage(7, 5, estimated=True)


@pytest.mark.parametrize("budget", [None, Budget(turns=5, seconds=60, tool_calls=3)])
def test_nothing_is_guessed_that_no_budget_needs(budget: Budget | None) -> None:
    run = run_of(spec_with(budget), [says("Seven.")])

    assert run.usage == Usage()


def test_a_call_that_was_cut_off_is_its_prompt_if_a_budget_needs_it() -> None:
    spec = replace(spec_with(Budget(total_tokens=1000)), tools=(), system="x" * 40)
    counting, other = AgentRun(spec, "z" * 40), AgentRun(replace(spec, budget=Budget(turns=5)), "z" * 40)

    for run in (counting, other):
        run.write_off(None)

    assert (counting.usage, counting.state.all_turns, counting.state.turns) == (Usage(20, 0, estimated=True), 1, 0)
    assert (other.usage, other.state.all_turns) == (Usage(), 0)


@pytest.mark.parametrize(
    ("ahead", "usage", "spent"),
    [
        ([Usage(6, 4)], Usage(6, 4), Usage(6, 4)),
        ([Usage(6, 4)], Usage(9, 5), Usage(9, 5)),  # with the tokens of an attempt that failed
        ([Usage(6, 4), Usage(3, 1)], Usage(3, 1), Usage(9, 5)),  # a model that asks two clients, and gives one's turn
        ([Usage()], Usage(6, 4), Usage(6, 4)),
    ],
)
def test_what_was_paid_ahead_is_not_charged_again(ahead: list[Usage], usage: Usage, spent: Usage) -> None:
    account = Account("clerk", "test:model", Spending(budget=Budget(cost_usd=1, prices=PRICES)))

    for each in ahead:
        account.pay_ahead(each)
    account.charge_turn(usage)
    account.charge_turn(Usage(1, 1))

    assert account.spending.usage == spent + Usage(1, 1)
    assert account.spending.cost == (account.spending.usage.total_tokens or 0) * 10**6
    assert account.spending.all_turns == 2


def test_nothing_is_paid_ahead_without_a_budget() -> None:
    account = Account("clerk", "test:model", Spending())

    account.pay_ahead(Usage(6, 4))

    assert account.spending.usage == Usage()


def test_a_reported_number_is_no_guess() -> None:
    run = run_of(spec_with(Budget(total_tokens=1000)), [says("Seven.", usage=Usage(3, 2))])

    assert run.usage == Usage(3, 2)


# --- saving


def test_what_was_spent_and_what_may_be_is_saved_with_the_run() -> None:
    run = AgentRun(spec_with(), "Hi", budget=Budget(total_tokens=100, cost_usd=1.0, prices=PRICES))
    run.model_response(asks(call("a"), call("b"), usage=Usage(6, 4)))
    assert tool_ids(run) == ["a", "b"]
    run.charge(Usage(50, 40), 0.5, turns=3, tool_calls=4, seconds=2.5)

    state = saved(run)["state"]
    again = reloaded(run)

    assert isinstance(state, dict)
    assert {name: state[name] for name in ("all_turns", "tool_calls", "cost", "seconds")} == {
        "all_turns": 4,
        "tool_calls": 6,
        "cost": 500_010_000_000,
        "seconds": 2.5,
    }
    assert again.state.budget == Budget(total_tokens=100, cost_usd=1.0, prices=PRICES)
    again.tool_results([gives("a"), gives("b")])
    assert refused(again) == ("total_tokens", 100, 100)


def test_time_is_saved_up_to_the_moment() -> None:
    now = [100.0]
    account = Account("clerk", "test:model", Spending(budget=Budget(seconds=5)))
    run = AgentRun(spec_with(), "Hi", account=account)
    account.start(lambda: now[0])
    now[0] = 105.0

    again = reloaded(run)

    assert again.state.seconds == 5.0
    assert refused(again) == ("seconds", 5, 5.0)


def test_a_loaded_run_draws_from_the_run_that_it_goes_on_inside_of() -> None:
    agent = Agent("clerk", model=ScriptedModel([]))
    outer = Spending(budget=Budget(turns=1))
    machine = reloaded(run_of(agent.run_spec, [says("__ask_user__: Which?")]))

    account = account_of(agent, None, machine, Account("lead", "test:model", outer))
    machine.answer("This.")
    machine.model_response(says("That one."))

    assert account is machine.account
    assert (outer.all_turns, machine.state.all_turns) == (1, 2)


def test_a_run_that_was_saved_without_such_figures_counts_its_turns_and_knows_no_cost() -> None:
    run = run_of(spec_with(), [asks(call("a"))])
    data = saved(run)
    state = data["state"]
    assert isinstance(state, dict)
    for name in ("all_turns", "tool_calls", "cost", "seconds", "budget"):
        del state[name]
    old = AgentRun.from_json(json.dumps(data), run.spec)

    assert (old.state.all_turns, old.state.cost) == (1, None)


def test_a_budget_changes_no_fingerprint() -> None:
    assert spec_with(Budget(turns=3)).fingerprint() == spec_with().fingerprint()


# --- raising


def test_a_budget_is_raised_from_the_run_s_beginning_and_never_lowered() -> None:
    run = run_of(spec_with(Budget(total_tokens=20, turns=9)), [asks(call("a"), usage=Usage(15, 5))])
    before = run.to_json()

    with pytest.raises(ValueError, match="a budget can only be raised: total_tokens is 20, got 19"):
        run.extend(max_turns=60, budget=Budget(total_tokens=19))
    with pytest.raises(TypeError, match="budget must be Budget"):
        run.extend(max_turns=60, budget=30)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point
    assert run.to_json() == before

    run.extend(budget=Budget(total_tokens=21))
    assert tool_ids(run) == ["a"]


def test_what_is_not_the_limit_s_to_lift_stays() -> None:
    run = run_of(spec_with(Budget(total_tokens=20)), [asks(call("a"), usage=Usage(15, 5))])

    run.extend(max_iterations=99, budget=Budget(turns=99))

    assert refused(run) == ("total_tokens", 20, 20)


# --- agents


def test_an_agent_checks_its_budget() -> None:
    model = ScriptedModel([])
    with pytest.raises(TypeError, match=r"agent 'clerk': budget must be Budget\(…\) or None, got 5"):
        Agent("clerk", model=model, budget=cast(Budget, 5))
    with pytest.raises(ValueError, match="agent 'clerk': .* no price for model 'ScriptedModel'"):
        Agent("clerk", model=model, budget=Budget(cost_usd=1.0))
    with pytest.raises(ValueError, match="no price for model 'openai:gpt-x'"):
        Agent("clerk", model="openai:gpt-x", budget=Budget(cost_usd=1.0))

    Agent("clerk", model=model, budget=Budget(cost_usd=1.0, prices={"ScriptedModel": Price(1, 1)}))
    Agent("clerk", model="openai:gpt-4o", budget=Budget(cost_usd=1.0))
    Agent("clerk", model="rehearsal", budget=Budget(cost_usd=1.0))


def test_the_machine_of_an_agent_has_its_budget_and_a_copy_may_have_another() -> None:
    agent = Agent("clerk", model="openai:gpt-4o", budget=Budget(turns=3))

    assert RunSpec.of(agent).budget == Budget(turns=3)
    assert RunSpec.of(agent).priced_as == "openai:gpt-4o"
    assert agent.replace(budget=None).budget is None
