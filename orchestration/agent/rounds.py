"""An open round of tool calls: it takes results and decisions, and ends with one message of results, or ends the run.

Arguments that do not fit raise before anything changes. `turns` opens the round.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import Failure, FailureKind, RunState, ToolRound
from understudy.orchestration.agent.steps import (
    InvalidKind,
    RepairCall,
)
from understudy.vocabulary.context.session_values import is_same
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolErrorKind, ToolResult
from understudy.vocabulary.runs.outcomes import Approve, Decision, Reject
from understudy.vocabulary.tools.reconciling import Happened

CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
"""Finish reasons of a cut-off turn, in lower case, as providers send them: a turn with calls has no neutral one."""


def was_cut_off(turn: ModelTurn) -> bool:
    """Whether the turn ended at a limit of tokens."""
    return turn.finish_reason == "length" or (turn.raw_finish_reason or "").lower() in CUT_OFF


def cut_calls(turn: ModelTurn, calls: Sequence[ToolCall]) -> frozenset[int]:
    """Return the positions of the calls whose arguments may not have come whole; `calls` are those of the turn.

    Models write calls in their order, so the turn can have ended only in the last one. Its arguments may be an object all the
    same: OpenAI sends an empty text then, and Anthropic an object with the arguments that came. Other calls without
    arguments are left out too, for a server may send the calls in another order.
    """
    if not calls or not was_cut_off(turn):
        return frozenset()
    last = len(calls) - 1
    return frozenset(
        at for at, call in enumerate(calls) if at == last or (not call.arguments and call.bad_arguments is None)
    )


def error_result(call: ToolCall, kind: InvalidKind | ToolErrorKind, reason: str) -> ToolResult:
    """Return the result of a call that has no value."""
    return ToolResult(call.id, reason, is_error=True, error_kind=kind, name=call.name)


def repair(call: ToolCall, resolution: RepairCall) -> ToolCall:
    """Return the call with the name and arguments of the resolution."""
    name = call.name if resolution.name is None else resolution.name
    if resolution.arguments is None:
        return replace(call, name=name)
    return replace(call, name=name, arguments=resolution.arguments, bad_arguments=None)


IN_DOUBT = "in_doubt: the process ended during this call, and nobody knows whether it had its effect"


def take_results(round_: ToolRound, results: Sequence[ToolResult]) -> None:
    """Store the results of pending calls.

    Raises:
        ProtocolViolation: there are no results, or an id is unknown or already answered.
    """
    calls = {call.id: call for call in round_.pending()}
    unanswered = dict(calls)
    for result in results:
        if unanswered.pop(result.call_id, None) is None:
            raise ProtocolViolation(
                f"a result for {result.call_id!r}, which is not a pending call or was answered twice; "
                f"pending: {', '.join(calls) or 'none'}"
            )
    if not results:
        raise ProtocolViolation("no tool results were given; expected at least one")
    for result in results:
        named = result if result.name else replace(result, name=calls[result.call_id].name)
        round_.results[result.call_id] = named
        if round_.children:
            round_.children.pop(result.call_id, None)


def check_decisions(waiting: Sequence[str], decisions: Mapping[str, Decision], in_doubt: Container[str]) -> None:
    """Check decisions against the ids of the waiting calls, and those among them that are in doubt.

    Raises:
        ProtocolViolation: there are no decisions, or a call does not wait.
        TypeError: a value is no decision.
    """
    unknown = [call_id for call_id in decisions if call_id not in waiting]
    if unknown or not decisions:
        raise ProtocolViolation(f"decisions for {unknown or 'no call'}; waiting calls: {', '.join(waiting) or 'none'}")
    for call_id, decision in decisions.items():
        if isinstance(decision, Happened) and call_id in in_doubt:
            _check_result(call_id, decision.result)
            continue
        if not isinstance(decision, (Approve, Reject)):  # False, or the class Reject, must not run the call
            expected = "Approve, Reject or Happened" if call_id in in_doubt else "Approve or Reject"
            raise TypeError(f"call {call_id!r}: expected {expected}, got {decision!r}")


def _check_result(call_id: str, result: object) -> None:
    try:
        json.dumps(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"call {call_id!r}: Happened(…) must have a JSON value: {error}") from None


def take_decisions(round_: ToolRound, decisions: Mapping[str, Decision]) -> None:
    """Let approved calls run, and give rejected ones an error result; raises what `check_decisions` raises."""
    check_decisions(round_.waiting, decisions, round_.in_doubt)
    round_.waiting = tuple([i for i in round_.waiting if i not in decisions])
    round_.in_doubt = tuple([i for i in round_.in_doubt if i not in decisions])
    calls = list(round_.calls)
    for position, call in enumerate(calls):
        match decisions.get(call.id):
            case Reject(reason=reason):
                words = f"Rejected: {reason or 'a person decided that this call must not run'}"
                round_.results[call.id] = error_result(call, "rejected", words)
            case Happened(result=result):
                text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
                round_.results[call.id] = ToolResult(call.id, text, name=call.name)
            case Approve(arguments=arguments) if arguments is not None:
                calls[position] = repair(call, RepairCall(arguments=arguments))
                if not is_same(dict(arguments), dict(call.arguments)) and call.id not in round_.edited:
                    round_.edited += (call.id,)
            case _:
                pass
    round_.calls = tuple(calls)
    approved = tuple([call_id for call_id, decision in decisions.items() if isinstance(decision, Approve)])
    round_.approved += approved
    round_.guarded = tuple([call_id for call_id in round_.guarded if call_id not in approved])


def put_in_doubt(round_: ToolRound, call_ids: Iterable[str]) -> None:
    """Have calls wait for a decision that were under way when the run's process died."""
    new = tuple([call_id for call_id in call_ids if call_id not in round_.waiting])
    round_.waiting += new
    round_.in_doubt += new
    round_.reasons.update(dict.fromkeys(new, IN_DOUBT))


def settle_doubts(round_: ToolRound, found: Mapping[str, ToolResult | None]) -> None:
    """Give results to calls in doubt that happened, and let those run again that did not. Raises `ProtocolViolation`."""
    unknown = [call_id for call_id in found if call_id not in round_.in_doubt]
    if unknown:
        doubted = ", ".join(round_.in_doubt) or "none"
        raise ProtocolViolation(f"what became of {unknown}, which are not in doubt; calls in doubt: {doubted}")
    round_.waiting = tuple([i for i in round_.waiting if i not in found])
    round_.in_doubt = tuple([i for i in round_.in_doubt if i not in found])
    for call_id, result in found.items():
        round_.reasons.pop(call_id, None)
        if result is not None:
            round_.results[call_id] = result


def close_if_complete(state: RunState) -> None:
    """Close the round if every call has its result: one message with all results, then the model is next."""
    round_ = state.round
    if round_ is not None and round_.is_complete():
        state.messages.append(round_.message())
        state.round = None
        state.phase = "model"


def cut_off(round_: ToolRound, call_ids: Iterable[str], why: str) -> None:
    """Give an error result to those of the calls that are pending; they do not run again."""
    pending = {call.id: call for call in round_.pending()}
    for call_id in call_ids:
        if call_id in pending:
            round_.results[call_id] = error_result(pending[call_id], "not_run", why)
            round_.children.pop(call_id, None)


def cut_short(state: RunState, why: str) -> None:
    """Close the round early. Calls without a result get an error result: providers refuse a history without one."""
    round_ = state.round
    if round_ is None:
        return
    for call in round_.calls:
        round_.results.setdefault(call.id, error_result(call, "not_run", why))
    state.messages.append(round_.message())
    state.round = None


ENDING: Mapping[ToolErrorKind, FailureKind] = {
    "": "tool",  # a result made by hand, without a kind
    "raised": "tool",
    "too_large": "tool",
    "bad_arguments": "tool",
    "timed_out": "tool_timeout",
    "unavailable": "tool_unavailable",
}
"""Kinds that are missing here are no failures of a tool: `Retry`, a person's rejection, calls that did not run."""

CANCELLED = "Not run to its end: another tool call of the same turn ended the run."


def failure_of(spec: RunSpec, result: ToolResult) -> Failure | None:
    """Return the failure with which a result ends the run, or None. The result must have the tool's name."""
    kind = ENDING.get(result.error_kind) if result.is_error else None
    if kind is None or not spec.raises(result.name):
        return None
    return Failure(kind, result.content, result.name, result.call_id)


def end_if_failed(spec: RunSpec, state: RunState) -> None:
    """End the run if a result of its round is a failure that ends runs; calls without a result get an error result."""
    round_ = state.round
    if round_ is None or (spec.on_tool_error == "result" and not spec.tool_errors):
        return
    failures = [failure_of(spec, round_.results[call.id]) for call in round_.calls if call.id in round_.results]
    failure = next((found for found in failures if found is not None), None)
    if failure is None:
        return
    cut_short(state, CANCELLED)
    state.fail(failure)
