"""Rounds, turns and budgets: what does not begin any more, and what goes on once the limit is raised."""

from __future__ import annotations

from tests.support.machines import answers, asked, asks, call, gives, said
from understudy import Approve, Budget, Price, RetryTurn, RetryWithFeedback
from understudy.vocabulary.messages import ModelTurn, TextPart, Usage, says

from .cast import Guard, clerk, resolve
from .scenario import Scenario

A, B, C = asks(call("a")), asks(call("b")), asks(call("c"))
SEVEN = says("Seven.")
PRICES = {"ScenarioModel": Price(1.0, 1.0)}
"""A token costs a millionth of a dollar."""


def spent(turn: ModelTurn) -> ModelTurn:
    """Return the turn with a usage of ten tokens."""
    return ModelTurn(turn.parts, Usage(6, 4), turn.finish_reason, turn.raw_finish_reason)


LIMITS = (
    Scenario(
        rule="a text after the last allowed round completes the run",
        agent=clerk(max_iterations=1),
        turns=(A, SEVEN),
        steps="model > tools a > model > complete",
        rounds=1,
    ),
    *[
        Scenario(
            rule=f"so many rounds run and the next does not: {limit}",
            agent=clerk(max_iterations=limit),
            turns=tuple([asks(call(f"c{n}")) for n in range(limit + 1)]),
            steps=f"model > {''.join([f'tools c{n} > model > ' for n in range(limit)])}MaxIterationsExceeded",
            text="max_iterations",
            error={"limit": limit, "what": "max_iterations"},
        )
        for limit in (0, 1, 2, 5)
    ],
    *[
        Scenario(
            rule=f"so many model calls are made and no more: {limit}",
            agent=clerk(max_turns=limit),
            turns=tuple([asks(call(f"c{n}")) for n in range(limit)]),
            steps=f"{''.join([f'model > tools c{n} > ' for n in range(limit)])}MaxIterationsExceeded",
            text="max_turns",
            error={"limit": limit, "what": "max_turns"},
        )
        for limit in (1, 2, 4)
    ],
    Scenario(
        rule="a question may still be answered when no turn is left to use the answer",
        agent=clerk(max_turns=1),
        turns=(says("__ask_user__: Which city?"), SEVEN),
        answers=("Paris", {"max_turns": 2}),
        steps="model > asks Which city? > MaxIterationsExceeded > model > complete",
        history=(said(TextPart("__ask_user__: Which city?")), asked("Paris"), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="raising the limit runs the round that was refused",
        agent=clerk(max_iterations=0),
        turns=(A, B, SEVEN),
        answers=({"max_iterations": 1}, {"max_iterations": 2}),
        steps="model > MaxIterationsExceeded > tools a > model > MaxIterationsExceeded > tools b > model > complete",
        rounds=2,
        history=(said(call("a")), answers(gives("a")), said(call("b")), answers(gives("b")), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="a round in which every call was refused counts",
        # Otherwise a model that only errs would never reach the limit.
        agent=clerk(max_iterations=1),
        turns=(asks(call("a", "lok")), B),
        steps="model > model > MaxIterationsExceeded",
        text="max_iterations",
    ),
    Scenario(
        rule="the last allowed turn may answer",
        agent=clerk(max_turns=2),
        turns=(A, SEVEN),
        steps="model > tools a > model > complete",
    ),
    Scenario(
        rule="results of the last allowed turn are kept for when the limit is raised",
        agent=clerk(max_turns=1),
        turns=(A, SEVEN),
        answers=({"max_turns": 2},),
        steps="model > tools a > MaxIterationsExceeded > model > complete",
        results=(gives("a"),),
    ),
)

BUDGETS = (
    Scenario(
        rule="a round does not run when the tokens are spent",
        agent=clerk(budget=Budget(total_tokens=20)),
        turns=(spent(A), spent(B)),
        steps="model > tools a > model > BudgetExceeded",
        text="spent 20 of the 20 total_tokens",
        error={"what": "total_tokens", "limit": 20, "spent": 20, "inherited": False},
    ),
    Scenario(
        rule="an answer beyond the budget is an answer",
        agent=clerk(budget=Budget(total_tokens=5)),
        turns=(spent(SEVEN),),
        steps="model > complete",
        usage=Usage(6, 4),
    ),
    Scenario(
        rule="a raised budget goes on where the run stopped",
        agent=clerk(budget=Budget(total_tokens=10)),
        turns=(spent(A), spent(B), spent(SEVEN)),
        answers=({"budget": Budget(total_tokens=20)}, {"budget": Budget(total_tokens=30)}),
        steps="model > BudgetExceeded > tools a > model > BudgetExceeded > tools b > model > complete",
        rounds=2,
        usage=Usage(18, 12),
    ),
    Scenario(
        rule="the turns of a budget are model calls",
        agent=clerk(budget=Budget(turns=1)),
        turns=(A, B),
        steps="model > tools a > BudgetExceeded",
        text="turns",
        error={"what": "turns", "limit": 1, "spent": 1},
    ),
    Scenario(
        rule="a round that would go beyond the tool calls does not run at all",
        agent=clerk(budget=Budget(tool_calls=3)),
        turns=(asks(call("a"), call("b")), asks(call("c"), call("d")), SEVEN),
        answers=({"budget": Budget(tool_calls=4)},),
        steps="model > tools a b > model > BudgetExceeded > tools c d > model > complete",
    ),
    Scenario(
        rule="without tool calls nothing is called",
        agent=clerk(budget=Budget(tool_calls=0)),
        turns=(A,),
        steps="model > BudgetExceeded",
        text="tool_calls",
        error={"what": "tool_calls", "limit": 0, "spent": 0},
    ),
    Scenario(
        rule="without tool calls a run may answer",
        agent=clerk(budget=Budget(tool_calls=0)),
        turns=(SEVEN,),
        steps="model > complete",
    ),
    Scenario(
        rule="calls that do not run are not counted",
        agent=clerk(budget=Budget(tool_calls=1), on_invalid_call=resolve),
        turns=(asks(call("a", "lok"), call("b")), asks(call("c", "lok")), asks(call("d", "lok")), asks(call("e"))),
        resolutions={"d": RetryTurn("No such tool.")},
        steps="model > tools b > model > model > model > BudgetExceeded",
        text="tool_calls",
        error={"what": "tool_calls", "limit": 1, "spent": 1},
    ),
    Scenario(
        rule="calls that wait for a person are counted with their round",
        agent=clerk(budget=Budget(tool_calls=2)),
        turns=(asks(call("a"), call("b", "refund")), asks(call("c"))),
        answers=({"b": Approve()},),
        steps="model > tools a > waits for b > tools b > model > BudgetExceeded",
        text="tool_calls",
        error={"what": "tool_calls", "limit": 2, "spent": 2},
    ),
    Scenario(
        rule="a turn that a callback rejects is spent",
        agent=clerk(budget=Budget(total_tokens=10), callbacks=[Guard()]),
        turns=(spent(SEVEN),),
        after_model={"Seven.": RetryWithFeedback("Say more.")},
        steps="model > BudgetExceeded",
        text="total_tokens",
        error={"what": "total_tokens", "limit": 10, "spent": 10},
    ),
    Scenario(
        rule="dollars are limited and told",
        agent=clerk(budget=Budget(cost_usd=15e-6, prices=PRICES)),
        turns=(spent(A), spent(B), spent(SEVEN)),
        answers=({"budget": Budget(cost_usd=1.0)},),
        steps="model > tools a > model > BudgetExceeded > tools b > model > complete",
        cost_usd=30e-6,
    ),
)

SCENARIOS = (*LIMITS, *BUDGETS)
