"""A round of tool calls: it takes results and decisions, and ends with one message of results.

Arguments that do not fit raise before anything changes.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from understudy.errors import ProtocolViolation
from understudy.vocabulary.context.session_values import is_same
from understudy.vocabulary.messages import ToolResult
from understudy.vocabulary.runs.outcomes import Approve, Decision, Reject
from understudy.vocabulary.tools.reconciling import Happened

from .calls import error_result, repair
from .state import RunState, ToolRound
from .steps import RepairCall

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
