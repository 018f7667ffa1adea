"""The next step of a run, from its state and account; and the errors for calls that come out of order."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.errors import ProtocolViolation
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.messages import Message, ModelRequest

from .compaction.decisions import prepare
from .compaction.summaries import due_summary
from .compaction.view import shown
from .limits import admit, check_model_call
from .outcome import outcome_of
from .pauses import pauses_of
from .rounds import close_if_complete
from .spec import RunSpec
from .state import Phase, RunState, ToolRound
from .steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done, Step
from .tool_failures import end_if_failed
from .transcript import Transcript
from .typed_answers import invalid_output


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
        end_if_failed(spec, state)  # done by `review` already, unless the driver did not call it
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
    round_ = current_round(spec, state, what)
    if not round_.admitted:
        raise out_of_order(spec, state, what, "tools")
    return round_


def out_of_order(spec: RunSpec, state: RunState, what: str, phase: Phase) -> ProtocolViolation:
    """Return the error for `what`, which was fed in another phase than `phase`."""
    return ProtocolViolation(
        f"{what} came out of order: the run of agent {spec.agent_id!r} is in phase {state.phase!r}, "
        f"and that belongs to phase {phase!r}; ask next_step() what is due"
    )
