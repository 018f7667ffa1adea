"""Checks that the state of a saved run is possible: an edited text may hold states that no run reaches.

Each function returns the contradiction in words, or an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isfinite

from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Message, Usage

from .compaction.cuts import may_cut
from .context_state import ContextState
from .state import PausedChild, RunState, ToolRound

_MAY_BE_INFINITE = re.compile(r"NaN|Infinity|\d[eE]\+?\d{3}|\d{200}")
"""Matches each text that may hold an infinite number. A match inside of a string is harmless, so it is parsed then."""
_COUNTS = ("turns", "iterations", "continues", "invalid_retries", "rejections")
_INDEXES = (
    *("upto", "history_upto", "pruned", "shortened", "target", "reach", "begun"),
    *("looked_at", "shown_at", "billed_at"),
)
_SIZES = ("longest", "messages_before", "tokens_before", "pruned_now", "billed_input", "retry_from", "overflows")
_LIMITS = ("max_iterations", "max_turns", "max_continues", "max_output_retries")


def not_finite(text: str) -> str:
    """Name the first number of a JSON text that is not finite; empty if there is none, or if the text is no JSON."""
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
    except (ValueError, RecursionError):  # `load` reports a text that is no JSON
        return ""
    return f"the number {found[0][:40]} is not finite" if found else ""


# --- an agent's run


def contradiction(state: RunState) -> str:
    """Return the first contradiction in the state of an agent's run."""
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
        negative(numbers)
        or _beyond_limit(state)
        or in_spending(state)
        or ("" if state.round is None else _in_round(state.round))
        or _unpaired(state.messages[state.start :], state.round)
        or ("" if state.context is None else _in_context(state, state.context))
    )


def _in_context(state: RunState, context: ContextState) -> str:
    """Say which value of the compaction does not fit the run's messages; empty if all do."""
    numbers = {name: getattr(context, name) for name in (*_INDEXES, *_SIZES)}
    fault = negative(numbers) or negative(counts_of(context.spent))
    beyond = [name for name in _INDEXES if getattr(context, name) > len(state.messages)]
    if fault or beyond:
        return fault or f"{beyond[0]} is {getattr(context, beyond[0])} of {len(state.messages)} messages"
    if context.upto and not (context.summary and may_cut(state, context, context.upto)):
        return f"a summary of {context.upto} messages that cannot be cut there"
    if context.history_upto > state.start or bool(context.history_upto) != bool(context.history_summary):
        return f"a summary of {context.history_upto} messages of a history of {state.start}"
    if context.is_summing and not context.upto < context.reach <= context.target < len(state.messages):
        return f"a summary from {context.upto} over {context.reach} up to {context.target}"
    if not isfinite(context.scale) or context.scale < 1 or (context.window is not None and context.window < 1):
        return f"a window of {context.window} tokens, with a scale of {context.scale}"
    return ""


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
    noted = (round_.approved, round_.edited, round_.guarded, round_.reviewed)
    strange = sorted({id for ids_ in (*named, *noted) for id in ids_}.difference(ids))
    if strange:
        return f"a round of calls {ids} with answers for {strange}"
    for id, result in round_.results.items():
        if result.call_id != id:
            return f"the result of call {id!r} says that it is of {result.call_id!r}"
        if id in round_.waiting or id in round_.questions or id in round_.children:
            return f"call {id!r} has its result and waits"
    asking = [child for child in round_.children.values() if child.pauses or child.answers]  # others were stopped
    return next((fault for child in asking if (fault := in_pauses(child))), "")


def in_pauses(child: PausedChild) -> str:
    """Say that a paused child waits for nothing."""
    if child.pauses and all(pause.calls or pause.question is not None for pause in child.pauses):
        return ""
    return "a run that is paused and waits for nothing"


def _unpaired(messages: Sequence[Message], round_: ToolRound | None) -> str:
    """Say which calls are not followed by their results; `messages` are the run's own, its input first."""
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


def in_spending(spent: Spending) -> str:
    """Name a figure of the spending that is negative or not finite."""
    if not isfinite(spent.seconds):
        return f"{spent.seconds} seconds"
    numbers = {"all_turns": spent.all_turns, "tool_calls": spent.tool_calls, "seconds": spent.seconds}
    return negative({**numbers, "cost": spent.cost or 0, **counts_of(spent.usage)})


def counts_of(usage: Usage) -> dict[str, int]:
    """Return the known counts of tokens, by name."""
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def negative(numbers: dict[str, int] | dict[str, float]) -> str:
    """Name the first number below zero."""
    return next((f"{name} is {str(number)[:40]}" for name, number in numbers.items() if number < 0), "")
