"""Finds in the state of a saved run what no run can have reached, as after an edit of its text; each function says it in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isfinite

from understudy.orchestration.group.children import ChildState
from understudy.orchestration.group.state import GraphState, GroupState
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Message, Usage

from .state import PausedChild, RunState, ToolRound

_MAY_BE_INFINITE = re.compile(r"NaN|Infinity|\d[eE]\+?\d{3}|\d{200}")
"""In a text without this no number can be infinite; with it, one that stands in a string is no fault."""
_COUNTS = ("turns", "iterations", "continues", "invalid_retries", "rejections")
_LIMITS = ("max_iterations", "max_turns", "max_continues", "max_output_retries")


def not_finite(text: str) -> str:
    """Say which number of a JSON text is not finite; empty if all are, or if the text is no JSON."""
    if not _MAY_BE_INFINITE.search(text):
        return ""
    found: list[str] = []

    def checked(number: str) -> float:
        value = float(number)
        if not isfinite(value):
            found.append(number)
        return value

    try:
        json.loads(text, parse_float=checked, parse_constant=checked)
    except (ValueError, RecursionError):  # `load` says what is wrong with the text
        return ""
    return f"the number {found[0][:40]} is not finite" if found else ""


# --- an agent's run


def contradiction(state: RunState) -> str:
    """Say what in the state of an agent's run cannot be; empty if all fits together."""
    if not 0 <= state.start < len(state.messages):
        return f"the run begins at message {state.start} of {len(state.messages)}"
    if (state.phase == "failed") != (state.failure is not None):
        return f"phase {state.phase!r} with failure {state.failure!r}"
    if (state.phase == "tools") != (state.round is not None):
        return f"phase {state.phase!r} {'without' if state.round is None else 'with'} a round of tool calls"
    if state.phase == "bad_output" and not state.problems:
        return "an answer that does not fit, and nothing wrong with it"
    numbers = {name: getattr(state, name) for name in (*_COUNTS, *_LIMITS)}
    return (
        _negative(numbers)
        or _beyond_limit(state)
        or _in_spending(state)
        or ("" if state.round is None else _in_round(state.round))
        or _unpaired(state.messages[state.start :], state.round)
    )


def _beyond_limit(state: RunState) -> str:
    for count, limit in {"turns": "max_turns", "iterations": "max_iterations", "continues": "max_continues"}.items():
        if getattr(state, count) > getattr(state, limit):
            return f"{count} is {getattr(state, count)}, and {limit} is {getattr(state, limit)}"
    return ""


def _in_round(round_: ToolRound) -> str:
    ids = [call.id for call in round_.calls]
    if not ids or len(set(ids)) < len(ids):
        return f"a round of calls {ids}"
    named = (round_.waiting, round_.results, round_.questions, round_.children, round_.reasons)
    noted = (round_.approved, round_.guarded, round_.reviewed)
    strange = sorted({id for ids_ in (*named, *noted) for id in ids_}.difference(ids))
    if strange:
        return f"a round of calls {ids} with answers for {strange}"
    for id, result in round_.results.items():
        if result.call_id != id:
            return f"the result of call {id!r} says that it is of {result.call_id!r}"
        if id in round_.waiting or id in round_.questions or id in round_.children:
            return f"call {id!r} has its result and waits"
    return next((fault for child in round_.children.values() if (fault := _in_pauses(child))), "")


def _in_pauses(child: PausedChild) -> str:
    if child.pauses and all(pause.calls or pause.question is not None for pause in child.pauses):
        return ""
    return "a run that is paused and waits for nothing"


def _unpaired(messages: Sequence[Message], round_: ToolRound | None) -> str:
    """Say which calls of the run's own messages have not their results behind them; its input comes first."""
    open_: list[str] = []
    for message in messages[1:]:
        results = [result.call_id for result in message.tool_results] if message.role == "user" else []
        if results != open_:
            return f"calls {open_} with the results of {results}"
        open_ = [call.id for call in message.tool_calls] if message.role == "assistant" else []
        if len(set(open_)) < len(open_):
            return f"two calls with one id in {open_}"
    pending = [] if round_ is None else [call.id for call in round_.calls]
    return "" if open_ == pending else f"the last message calls {open_}, and the round {pending}"


# --- what was spent


def _in_spending(spent: Spending) -> str:
    if not isfinite(spent.seconds):
        return f"{spent.seconds} seconds"
    numbers = {"all_turns": spent.all_turns, "tool_calls": spent.tool_calls, "seconds": spent.seconds}
    return _negative({**numbers, "cost": spent.cost or 0, **_counts_of(spent.usage)})


def _counts_of(usage: Usage) -> dict[str, int]:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _negative(numbers: dict[str, int] | dict[str, float]) -> str:
    return next((f"{name} is {str(number)[:40]}" for name, number in numbers.items() if number < 0), "")


# --- a group's run


def contradiction_of_group(state: GroupState) -> str:
    """Say what in the state of an orchestrator's run cannot be; empty if all fits together."""
    children, order = state.children, state.order
    if len(set(order)) < len(order) or any(not 0 <= position < len(children) for position in order):
        return f"{len(children)} children that ended in the order {order}"
    for position, child in enumerate(children):
        fault = _in_child(child)
        if fault:
            return f"child {position}: {fault}"
    if isinstance(state, GraphState):
        return _in_spending(state.spending) or _in_tasks(state)
    ended = sorted(position for position, child in enumerate(children) if child.phase in ("done", "failed"))
    if sorted(order) != ended:
        return f"children {ended} ended, in the order {order}"
    if any(child.phase == "failed" and child.failure is None for child in children):
        return "a child failed of nothing"
    return _in_spending(state.spending)


def _in_child(child: ChildState) -> str:
    if (child.phase == "done") != (child.result is not None):
        return f"phase {child.phase!r} {'without' if child.result is None else 'with'} a result"
    if child.phase in ("paused", "limit") and child.paused is None:
        return f"phase {child.phase!r} without its run"
    if child.phase == "paused" and child.paused is not None and (fault := _in_pauses(child.paused)):
        return fault
    if child.phase == "limit" and child.failure is None:
        return "a limit, and no word of which"
    counts: dict[str, int] = {"attempts": child.attempts}
    if child.result is not None:
        counts |= {"iterations": child.result.iterations, "turns": child.result.turns, **_counts_of(child.result.usage)}
    return _negative(counts)


def _in_tasks(state: GraphState) -> str:
    positions = [position for task in state.tasks for position in task.children]
    if len(set(positions)) < len(positions) or any(not 0 <= p < len(state.children) for p in positions):
        return f"tasks with the children {positions} of {len(state.children)}"
    early = [p for p in state.order if state.children[p].phase not in ("done", "failed")]
    if early:
        return f"children {early} did not end, and the order in which children ended is {state.order}"
    unordered = [p for p, child in enumerate(state.children) if child.result is not None and p not in state.order]
    if unordered:
        return f"children {unordered} are done, and the order in which children ended is {state.order}"
    for number, task in enumerate(state.tasks):
        fault = _negative({"repeats": task.repeats, "begun": task.begun})
        if not fault and task.status == "running" and len(task.prompts) != len(task.children):
            fault = f"{len(task.children)} children with {len(task.prompts)} prompts"
        phases = {state.children[position].phase for position in task.children}
        if not fault and task.status == "running" and phases.isdisjoint(("pending", "paused")):
            fault = "it runs, and none of its children does"
        if not fault and task.status == "done" and phases - {"done"}:
            fault = f"it is done, and its children are {', '.join(sorted(phases))}"
        if not fault and task.status == "pending" and task.children:
            fault = "it has not begun, and has children"
        if fault:
            return f"task {number}: {fault}"
    return ""
