"""The next step of a run, from its state and account: its limits, what is due, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from understudy.errors import MaxIterationsExceeded, ProtocolViolation
from understudy.orchestration.agent.compaction.decisions import prepare
from understudy.orchestration.agent.compaction.summaries import due_summary
from understudy.orchestration.agent.compaction.view import shown
from understudy.orchestration.agent.feed_checks import MOST
from understudy.orchestration.agent.pauses import pauses_of
from understudy.orchestration.agent.rounds import close_if_complete, end_if_failed, error_result
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import Phase, RunState, ToolRound, Transcript
from understudy.orchestration.agent.steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done, Step
from understudy.orchestration.agent.turns import ask_to_continue
from understudy.orchestration.agent.typed_answers import invalid_output
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, in_dollars
from understudy.vocabulary.messages import Message, ModelRequest
from understudy.vocabulary.runs.outcomes import Complete, Incomplete


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


def due_step(spec: RunSpec, state: RunState, account: Account) -> Step:
    """Return the next step; raises the same errors as `AgentRun.next_step`."""
    if state.phase == "tools" and state.round is not None:
        step = _work_round(spec, state, account, state.round)
        if step is not None:
            return step
    if state.phase == "model":
        return _call_model(spec, state, account)
    if state.phase == "input":
        return AwaitInput(state.question)
    if state.phase == "bad_output":
        raise invalid_output(spec, state)
    if state.failure is not None:
        raise state.failure.to_error()
    return Done(outcome_of(spec, state))


def _call_model(spec: RunSpec, state: RunState, account: Account) -> CallModel:
    check_model_call(spec, state, account)
    turn = state.turns + 1
    if state.context is None:
        view: Sequence[Message] = Transcript(state.messages, len(state.messages))
    else:
        prepare(spec, state, state.context)
        due = due_summary(spec, state)
        if due is not None:
            return due
        view = shown(state)
    return CallModel(ModelRequest(view, state.system, spec.offered_tools, spec.settings_for(turn), turn, spec.output))


def _work_round(
    spec: RunSpec, state: RunState, account: Account, round_: ToolRound
) -> CallTools | AwaitApproval | AwaitInput | None:
    admit(spec, state, account, round_)
    if spec.watched and round_.is_complete():
        end_if_failed(spec, state)  # done by `review` already, unless nobody called that
    close_if_complete(state)
    if state.round is None:
        return None
    pending = round_.pending()
    if pending:
        return CallTools(pending)
    first = pauses_of(spec.agent_id, state)[0]
    return AwaitApproval(first.calls) if first.question is None else AwaitInput(first.question)


# --- calls out of order


def check_turn_is_due(spec: RunSpec, state: RunState) -> None:
    """Raise `ProtocolViolation` unless the run waits for a model's turn."""
    if state.phase != "model":
        raise out_of_order(spec, state, "a model response", "model")
    if state.turns >= state.max_turns:
        raise ProtocolViolation(f"a model response beyond the run's {state.max_turns} model turns (max_turns)")


def current_round(spec: RunSpec, state: RunState, what: str) -> ToolRound:
    """Return the open round of tool calls. Raises `ProtocolViolation`, which names `what`, if there is none."""
    if state.round is None:
        raise out_of_order(spec, state, what, "tools")
    return state.round


def admitted_round(spec: RunSpec, state: RunState, what: str) -> ToolRound:
    """Return the open round, which must be counted already. Raises `ProtocolViolation`, which names `what`."""
    round_ = state.round
    if round_ is None or not round_.admitted:
        raise out_of_order(spec, state, what, "tools")
    return round_


def out_of_order(spec: RunSpec, state: RunState, what: str, phase: Phase) -> ProtocolViolation:
    """Return the error for `what`, which was fed in another phase than `phase`."""
    return ProtocolViolation(
        f"{what} came out of order: the run of agent {spec.agent_id!r} is in phase {state.phase!r}, "
        f"and that belongs to phase {phase!r}; ask next_step() what is due"
    )


RUN_ENDED = "Not run to its end: the run ended first."


def new_messages(state: RunState) -> tuple[Message, ...]:
    """Return the messages that the run added to the history, its input first."""
    return tuple(state.messages[state.start :])


def messages_so_far(state: RunState) -> tuple[Message, ...]:
    """Return the messages of a run that ends now; calls without a result are answered as not run to their end."""
    added, round_ = new_messages(state), state.round
    if round_ is None:
        return added
    found = [round_.results.get(call.id) or error_result(call, "not_run", RUN_ENDED) for call in round_.calls]
    return (*added, Message("user", tuple(found)))


def outcome_of(spec: RunSpec, state: RunState) -> Complete[str] | Incomplete:
    """Return the outcome of a run that is done or incomplete."""
    if state.phase == "incomplete":
        return Incomplete(
            agent_id=spec.agent_id,
            completion_reason=state.completion_reason,
            iterations=state.iterations,
            turns=state.turns,
            usage=state.usage,
            cost_usd=in_dollars(state.cost),
            messages=new_messages(state),
            model=state.model,
            response_id=state.response_id,
            request_id=state.request_id,
            last_text=state.text,
        )
    return Complete(
        agent_id=spec.agent_id,
        completion_reason=state.completion_reason,
        iterations=state.iterations,
        turns=state.turns,
        usage=state.usage,
        cost_usd=in_dollars(state.cost),
        messages=new_messages(state),
        model=state.model,
        response_id=state.response_id,
        request_id=state.request_id,
        text=state.text,
        output=state.text,
        finish_reason=state.finish_reason,
    )
