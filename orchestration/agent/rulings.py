"""The decisions of callbacks, as data, and how they change a run's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from understudy.errors import ProtocolViolation
from understudy.vocabulary.messages import Message, ModelTurn, TextPart, ToolCall, ToolResult, user_message
from understudy.vocabulary.runs.callbacks import (
    Abort,
    Block,
    CallbackAction,
    OverrideResponse,
    RequireApproval,
    RetryWithFeedback,
    RewriteArguments,
    RewriteResult,
    Skip,
)

from .rounds import cut_short, error_result, repair
from .spec import RunSpec
from .state import Failure, RunState, ToolRound
from .steps import RepairCall, Verdict
from .turns import check_verdicts, count_turn, question_of, verdict_on

ENDING = (OverrideResponse, Abort)
"""Actions that end a run, at whatever point."""
CALLBACK_ENDED = "Not run: a callback ended the run."


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of one callback: the first one that does not return `Continue` decides."""

    by: str
    """The callback's name."""
    action: CallbackAction


# --- about the run


def end_run(state: RunState, ruling: Ruling) -> None:
    """End the run with a text or an error, in any phase. Calls without a result get an error result.

    Raises:
        ProtocolViolation: the action does not end runs.
    """
    match ruling.action:
        case OverrideResponse(text=text):
            cut_short(state, CALLBACK_ENDED)
            _append_text(state, text)
            state.text = text
            state.question = ""
            state.failure = None
            state.completion_reason = f"callback {ruling.by!r} gave the text"
            state.phase = "done"
        case Abort(message=message):
            cut_short(state, CALLBACK_ENDED)
            state.fail(Failure("callback", message, callback=ruling.by))
        case _:
            raise _unfit(ruling, "a run")


def _append_text(state: RunState, text: str) -> None:
    if not text:
        return  # providers refuse an empty message
    last = state.messages[-1]
    if last.role == "assistant":  # assistant messages must not follow each other; no request holds this one yet
        state.messages[-1] = replace(last, parts=(*last.parts, TextPart(text)))
    else:
        state.messages.append(Message("assistant", (TextPart(text),)))


def replace_turn(spec: RunSpec, state: RunState, turn: ModelTurn, ruling: Ruling) -> None:
    """Count a turn and apply a callback's decision in its place: the turn itself does not go into the history.

    Raises:
        ProtocolViolation: the action does not apply to turns; nothing has changed.
    """
    if not isinstance(ruling.action, (OverrideResponse, RetryWithFeedback, Abort)):
        raise _unfit(ruling, "a turn")
    count_turn(state, turn)
    if not isinstance(ruling.action, RetryWithFeedback):
        end_run(state, ruling)
        return
    if state.rejections >= spec.max_rejections:
        times = f"{state.rejections + 1} turns in a row, the last one with: {ruling.action.feedback}"
        end_run(state, Ruling(ruling.by, Abort(f"callback {ruling.by!r} rejected {times}")))
        return
    state.rejections += 1
    state.messages.append(user_message(ruling.action.feedback))


def _unfit(ruling: Ruling, what: str) -> ProtocolViolation:
    return ProtocolViolation(f"callback {ruling.by!r} decided {ruling.action!r}, which does nothing to {what}")


# --- about calls


def unguarded(round_: ToolRound) -> tuple[ToolCall, ...]:
    """Return the calls that callbacks must still decide about, in call order."""
    return tuple([c for c in round_.calls if c.id not in round_.results and c.id not in round_.guarded])


def guard_calls(
    spec: RunSpec, state: RunState, round_: ToolRound, rulings: Mapping[str, Ruling], approvals: Mapping[str, Verdict]
) -> None:
    """Apply the decisions of callbacks to the unguarded calls.

    Args:
        spec: the run's spec.
        state: the run's state.
        round_: its round.
        rulings: call id -> the decision; a call without one is left as it is.
        approvals: call id -> whether a person must agree to the rewritten call, for tools whose rule is a function.

    Raises:
        ProtocolViolation: the call of a ruling is not unguarded, or the action does not apply to calls; nothing has
            changed.
    """
    check_verdicts(approvals)
    ids = [call.id for call in unguarded(round_)]
    _check(rulings, ids, (RewriteArguments, Skip, Block, RequireApproval, *ENDING), "call")
    round_.guarded = (*round_.guarded, *ids)
    round_.calls = tuple([_guarded(spec, round_, call, rulings.get(call.id), approvals) for call in round_.calls])
    _end_if(state, ids, rulings)


def _guarded(
    spec: RunSpec, round_: ToolRound, call: ToolCall, ruling: Ruling | None, approvals: Mapping[str, Verdict]
) -> ToolCall:
    """Return the call as it will run, and note whether it runs, waits for a person, or has a result."""
    match None if ruling is None else ruling.action:
        case Block(reason=reason):
            _answer(round_, error_result(call, "blocked", f"Blocked: {reason}"))
        case Skip(result=result):
            _answer(round_, ToolResult(call.id, result, error_kind="skipped", name=call.name))
        case RewriteArguments(arguments=arguments):
            verdict = verdict_on(spec, call, approvals.get(call.id, True))
            if isinstance(verdict, str):
                _answer(round_, error_result(call, "blocked", verdict))
                return call
            must_wait = verdict
            if call.id in round_.approved and arguments != call.arguments:
                # A person approved other arguments than these, so they must be asked again.
                round_.approved = tuple([each for each in round_.approved if each != call.id])
                round_.edited = tuple([each for each in round_.edited if each != call.id])
                must_wait = True
            _wait(round_, call.id, must_wait)
            call = repair(call, RepairCall(arguments=arguments))
            if call.id in round_.questions:
                round_.questions[call.id] = question_of(call) or round_.questions[call.id]
        case RequireApproval(reason=reason):
            _wait(round_, call.id, True)
            if reason:
                round_.reasons[call.id] = reason
        case _:
            pass
    return call


def _wait(round_: ToolRound, call_id: str, must_wait: bool) -> None:
    others = [waiting for waiting in round_.waiting if waiting != call_id]
    # No second question: a person approved the call already, or the call is itself a question.
    asked_anyway = call_id in round_.approved or call_id in round_.questions
    round_.waiting = (*others, call_id) if must_wait and not asked_anyway else tuple(others)


def _answer(round_: ToolRound, result: ToolResult) -> None:
    round_.results[result.call_id] = result
    _wait(round_, result.call_id, False)
    round_.questions.pop(result.call_id, None)


# --- about results


def unreviewed(round_: ToolRound) -> tuple[tuple[ToolCall, ToolResult], ...]:
    """Return the results that callbacks have not seen, in call order; none while calls are pending."""
    if round_.pending():
        return ()
    found = [(call, round_.results.get(call.id)) for call in round_.calls if call.id not in round_.reviewed]
    return tuple([(call, result) for call, result in found if result is not None])


def review_results(state: RunState, round_: ToolRound, rulings: Mapping[str, Ruling]) -> None:
    """Mark the unreviewed results as seen by callbacks, and apply their decisions, by call id.

    Raises:
        ProtocolViolation: the result of a ruling is not unreviewed, or the action does not apply to results; nothing
            has changed.
    """
    seen = unreviewed(round_)
    ids = [call.id for call, _ in seen]
    _check(rulings, ids, (RewriteResult, *ENDING), "result")
    round_.reviewed = (*round_.reviewed, *ids)
    for call, result in seen:
        ruling = rulings.get(call.id)
        if ruling is not None and isinstance(ruling.action, RewriteResult):
            round_.results[call.id] = replace(result, content=ruling.action.content)
    _end_if(state, ids, rulings)


def _check(
    rulings: Mapping[str, Ruling], ids: Sequence[str], fitting: tuple[type[CallbackAction], ...], what: str
) -> None:
    for call_id, ruling in rulings.items():
        if call_id not in ids:
            raise ProtocolViolation(
                f"a ruling of callback {ruling.by!r} about {call_id!r}, which is no {what} to rule on"
            )
        if not isinstance(ruling.action, fitting):
            raise _unfit(ruling, f"a {what}")


def _end_if(state: RunState, ids: Sequence[str], rulings: Mapping[str, Ruling]) -> None:
    for call_id in ids:  # the first in call order decides, not the first of the mapping
        ruling = rulings.get(call_id)
        if ruling is not None and isinstance(ruling.action, ENDING):
            return end_run(state, ruling)
