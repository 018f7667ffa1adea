"""The limits of a run: checks before a model call and before a round, and how a limit is raised."""

from __future__ import annotations

from typing import TypedDict

from understudy.errors import MaxIterationsExceeded
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget

from .spec import RunSpec
from .state import RunState, ToolRound
from .turn_checks import MOST
from .turns import ask_to_continue


class Raised(TypedDict):
    """New limits by their names in a run's state; None keeps the present one."""

    max_iterations: int | None
    max_turns: int | None
    max_continues: int | None
    max_output_retries: int | None


def check_model_call(spec: RunSpec, state: RunState, account: Account) -> None:
    """Raise if the run may not call the model again.

    Raises:
        MaxIterationsExceeded: the run used all its model turns.
        BudgetExceeded: the budget is spent.
    """
    if state.turns >= state.max_turns:
        raise MaxIterationsExceeded(
            f"agent {spec.agent_id!r} used its {state.max_turns} model turns (max_turns) without an answer",
            limit=state.max_turns,
            what="max_turns",
        )
    refusal = account.refusal()
    if refusal is not None:
        raise refusal


def admit(spec: RunSpec, state: RunState, account: Account, round_: ToolRound) -> None:
    """Count a round of tool calls, so that it may run; does nothing if the round is counted already.

    Raises:
        MaxIterationsExceeded: the run used all its rounds; no call of this one runs.
        BudgetExceeded: the budget does not allow so many calls.
    """
    if round_.admitted:
        return
    if state.iterations >= state.max_iterations:
        raise MaxIterationsExceeded(
            f"agent {spec.agent_id!r} used its {state.max_iterations} rounds of tool calls "
            "(max_iterations) and asked for another; nothing of it ran",
            limit=state.max_iterations,
        )
    account.take_calls(round_.open_calls())
    round_.admitted = True
    state.iterations += 1


def at_limit(state: RunState, account: Account) -> bool:
    """Whether the run can only go on after `extend`."""
    return over_budget(state, account) or _limit_of_its_own(state) != "" or is_too_long(state)


def is_too_long(state: RunState) -> bool:
    """Whether the model refused the pending request as too long, and no compaction helped."""
    return state.phase == "model" and state.context is not None and state.context.overflows > 1


def limits_reached(state: RunState, account: Account) -> tuple[str, ...]:
    """Return the names of the limits that must be raised for the run to go on, as `extend` takes them."""
    own = _limit_of_its_own(state)
    budget = ("budget",) if over_budget(state, account) else ()
    return (own, *budget) if own else budget


def _limit_of_its_own(state: RunState) -> str:
    match state.phase:
        case "incomplete":
            return "max_continues"
        case "bad_output":
            return "max_output_retries"
        case "model" if state.turns >= state.max_turns:
            return "max_turns"
        case "tools" if state.round is not None and not state.round.admitted:
            return "max_iterations" if state.iterations >= state.max_iterations else ""
        case _:
            return ""


def over_budget(state: RunState, account: Account) -> bool:
    """Whether the budget does not allow the next step."""
    if state.phase == "tools" and state.round is not None and not state.round.admitted:
        return account.refusal(state.round.open_calls()) is not None
    return state.phase == "model" and account.refusal() is not None


def extend(spec: RunSpec, state: RunState, account: Account, raised: Raised, budget: Budget | None) -> None:
    """Raise limits; a run that had reached one of them goes on. An error changes nothing.

    Raises:
        TypeError: a limit is no whole number, or the budget is no `Budget`.
        ValueError: a number is lower than the present limit, or the budget limits dollars and the price is unknown.
    """
    for name, value in raised.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"{name} must be a whole number, got {value!r}")
        if value is not None and value >= MOST:
            raise ValueError(f"{name} must be below 2**63")
        if value is not None and value < getattr(state, name):
            raise ValueError(f"{name} can only be raised: it is {getattr(state, name)}, got {value}")
    if budget is not None:
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be Budget(…), got {budget!r}")
        account.extend(budget)
    for name, value in raised.items():
        if value is not None:
            setattr(state, name, value)
    if is_too_long(state) and state.context is not None:
        state.context.overflows = 0
    if state.phase == "incomplete" and state.continues < state.max_continues:
        ask_to_continue(spec, state)
    if state.phase == "bad_output" and len(state.problems) <= state.max_output_retries:
        state.phase = "model"
