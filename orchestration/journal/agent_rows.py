"""An agent's run as rows of a journal: one for each message, and a head of bounded size.

A step writes the rows that are new or that changed. A message of results that stand in rows of their own names these rows
and does not repeat them. If a round of calls is done and nothing else has changed, its message is written without a head, and
says what else a head would.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, cast

from pydantic import TypeAdapter

from understudy.orchestration.agent.rounds import IN_DOUBT
from understudy.orchestration.agent.saved_text import read_version, written
from understudy.orchestration.agent.snapshot import FORMAT, Snapshot
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import RunState
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Message, ToolCall, ToolResult

from .heads import calls_of_round, closing_row, count_of, has_calls_of, head_of, head_row
from .places import key_of_result
from .rows import CHANGE, DEFINITION, MESSAGE, RESULT, SYSTEM, JournalRow, Written

_NOT_IN_HEAD = {"parts": True, "state": {"messages": True, "system": True, "round": {"results"}}}
_NOR_CALLS = {"parts": True, "state": {"messages": True, "system": True, "round": {"results", "calls"}}}

_COMPARED_APART = {"messages", "round", "phase", "seconds", "problems", "context"}
_rest = attrgetter(*[each.name for each in fields(RunState) if each.name not in _COMPARED_APART])


def rows_of(
    state: RunState, spec: RunSpec, before: Written, begins: Collection[ToolCall] = (), events: int = 0
) -> tuple[list[JournalRow], Written]:
    """Return the rows that are new or changed, and what is written once they are.

    Args:
        state: of the run; nobody changes it meanwhile.
        spec: of the run.
        before: what is written.
        begins: calls that are about to begin: without a result, they are in doubt if the process dies.
        events: the number of the next event.
    """
    if not begins and _is_closed(state, before):
        return [_closing(state, before, events)], Written(len(state.messages), is_defined=True)
    begun: frozenset[str] = frozenset()
    if state.round is not None:
        earlier = before.begun if before.messages == len(state.messages) else begun
        begun = earlier.union([call.id for call in begins]) - state.round.results.keys()
    rows = [head_row(_machine(state), events, begun, None if state.round is None else len(state.messages))]
    if not before.is_defined:
        rows.append(JournalRow(SYSTEM, "", json.dumps(state.system)))
        rows.append(JournalRow(DEFINITION, "", json.dumps([spec.fingerprint(), spec.parts()])))
    for index in range(before.messages, len(state.messages)):
        rows.append(JournalRow(MESSAGE, str(index), _message(state.messages[index], before.results)))
    open_, count = state.round, len(state.messages)
    results: dict[str, ToolResult] = {}
    changes: frozenset[str] = frozenset()
    if open_ is not None:
        known: Mapping[str, ToolResult] = before.results if before.messages == count else {}
        for call_id, result in open_.results.items():
            if known.get(call_id) is not result:
                rows.append(JournalRow(RESULT, key_of_result(count, call_id), written(_result(), result)))
        results = dict(open_.results)
        # A process that goes on with the run has put the changes into the session, and begins with nothing written.
        told = before.changes if before.is_defined else frozenset(open_.results)
        changes = told - open_.results.keys()
        rows += [JournalRow(CHANGE, key_of_result(count, each), "") for each in sorted(told - changes)]
    open_state = None if open_ is None else _rest_of(state)
    return rows, Written(count, results, True, changes, begun, open_state=open_state)


def _rest_of(state: RunState) -> tuple[object, ...]:
    """Return what of a state is as before if its round was closed and nothing else has happened."""
    context = state.context
    return _rest(state), len(state.problems), None if context is None else replace(context, news=list(context.news))


def _is_closed(state: RunState, before: Written) -> bool:
    """Whether nothing has happened since the last head was written, but that the results closed its round."""
    return (
        before.open_state is not None
        and state.round is None
        and state.phase == "model"
        and len(state.messages) == before.messages + 1
        and all(isinstance(part, ToolResult) for part in state.messages[-1].parts)
        and _rest_of(state) == before.open_state
    )


def _closing(state: RunState, before: Written, events: int) -> JournalRow:
    parts = cast("Sequence[ToolResult]", state.messages[-1].parts)
    texts = [
        json.dumps(part.call_id) if before.results.get(part.call_id) is part else written(_result(), part)
        for part in parts
    ]
    return closing_row(before.messages, texts, events, state.seconds)


def _machine(state: RunState) -> str:
    """Return the machine without what stands in other rows, and without what is as in a run that has just begun."""
    round_ = state.round
    are_known = round_ is not None and has_calls_of(state.messages[-1], round_.calls)
    return written(
        _snapshot(),
        Snapshot(FORMAT, "", state),
        _NOR_CALLS if are_known else _NOT_IN_HEAD,
        # Answers for runs inside are told apart by a field that has its default.
        exclude_defaults=round_ is None or not round_.children,
    )


def rows_of_result(
    state: RunState, before: Written, result: ToolResult, change: str
) -> tuple[list[JournalRow], Written]:
    """Return the rows of a call that is done while others of its round run, and what is written once they are.

    Args:
        state: of the run, which has not taken the result yet; nobody changes it meanwhile.
        before: what is written.
        result: of the call.
        change: what the call changed in the session, as a row says it; empty for nothing.
    """
    key = key_of_result(len(state.messages), result.call_id)
    rows, changes = [JournalRow(RESULT, key, written(_result(), result))], before.changes
    if change or result.call_id in changes:  # an attempt before a crash may have changed something
        rows.append(JournalRow(CHANGE, key, change))
        changes |= {result.call_id}
    return rows, before._replace(results={**before.results, result.call_id: result}, changes=changes)


def _message(message: Message, results: Mapping[str, ToolResult]) -> str:
    parts = message.parts
    if not results or not all(isinstance(part, ToolResult) for part in parts):
        return written(_message_adapter(), message)
    named: list[object] = []
    for part in cast("Sequence[ToolResult]", parts):
        is_written = results.get(part.call_id) is part
        named.append(part.call_id if is_written else json.loads(written(_result(), part)))
    return json.dumps({"results": named})


def machine_of(rows: Mapping[tuple[str, str], str], repeats: Mapping[str, bool]) -> str:
    """Return the text of a run that has these rows, as `AgentRun.to_json` gives it.

    A call that began and has no result is in doubt. It is pending again if its tool may be repeated; otherwise it waits for
    a decision.

    Args:
        rows: kind and key of each row -> its body.
        repeats: name of a tool -> whether its calls in doubt are just made again.

    Raises:
        KeyError: a row is missing.
        ValueError: a row is no JSON.
    """
    head = head_of(rows)
    data, state = head.machine, head.machine["state"]
    data["fingerprint"], data["parts"] = json.loads(rows[DEFINITION, ""])
    state["system"] = json.loads(rows[SYSTEM, ""])
    results = {key: json.loads(body) for (kind, key), body in rows.items() if kind == RESULT}
    count = count_of(rows)
    state["messages"] = [_joined(json.loads(rows[MESSAGE, str(index)]), index, results) for index in range(count)]
    round_ = state.get("round")
    if round_ is not None:
        round_["calls"] = calls_of_round(head, rows)
        there = {each["call_id"]: each for key, each in results.items() if key.startswith(f"{count}/")}
        _join_round(round_, head.begun, there, repeats)
    whole = read_version(_snapshot(), json.dumps(data), "saved run", FORMAT)
    return written(_snapshot(), whole)  # with the fields that have their defaults


def _joined(message: dict[str, Any], index: int, results: Mapping[str, Any]) -> dict[str, Any]:
    named = message.get("results")
    if named is None:
        return message
    parts = [results[key_of_result(index, each)] if isinstance(each, str) else each for each in named]
    return {"role": "user", "parts": parts}


def _join_round(
    round_: dict[str, Any], begun: frozenset[str], results: Mapping[str, Any], repeats: Mapping[str, bool]
) -> None:
    round_["results"] = {call["id"]: results[call["id"]] for call in round_["calls"] if call["id"] in results}
    known = {*results, *round_.get("waiting", ()), *round_.get("questions", ()), *round_.get("children", ())}
    doubted = [call for call in round_["calls"] if call["id"] in begun and call["id"] not in known]
    asked = [call["id"] for call in doubted if not repeats.get(call["name"], False)]
    round_["in_doubt"] = [*round_.get("in_doubt", ()), *asked]
    round_["waiting"] = [*round_.get("waiting", ()), *asked]
    round_["reasons"] = {**round_.get("reasons", {}), **dict.fromkeys(asked, IN_DOUBT)}


def spending_text(spending: Spending) -> str:
    """Return the figures of an account as the body of a row."""
    return written(_spending(), spending)


def with_spending(state: dict[str, Any], body: str) -> None:
    """Have a run's state, as JSON, count what a later row says."""
    state.update(json.loads(body))


@cache
def _snapshot() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


@cache
def _message_adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


@cache
def _result() -> TypeAdapter[ToolResult]:
    return TypeAdapter(ToolResult)


@cache
def _spending() -> TypeAdapter[Spending]:
    return TypeAdapter(Spending)
