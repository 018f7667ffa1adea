"""Outcomes as plain data, for JSON: what `outcome.to_dict()` returns and `--json` prints."""

from __future__ import annotations

from math import isfinite
from typing import TypeAlias, cast

from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall, Usage

from .outcomes import Complete, Incomplete, NeedsApproval, NeedsInput, Outcome, Pause, TaskResult

Plain: TypeAlias = "dict[str, JsonValue]"

DETAILS = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")
"""Counts that not every provider reports; they are left out where there is none."""


def plain_outcome(outcome: Outcome[object]) -> Plain:
    """Return what an outcome says, without its messages, session and artifacts."""
    told: Plain = {
        "status": outcome.status,
        "agent_id": outcome.agent_id,
        "run_id": outcome.run_id,
        "text": outcome.text if isinstance(outcome, Complete) else None,
        "completion_reason": outcome.completion_reason,
        "iterations": outcome.iterations,
        "turns": outcome.turns,
        "usage": _usage(outcome.usage),
        "cost_usd": outcome.cost_usd,
    }
    if outcome.tasks:
        told["tasks"] = {name: _task(task) for name, task in outcome.tasks.items()}
    if outcome.children:
        told["children"] = [plain_ending(child) for child in outcome.children]
    return told | _of_its_kind(outcome)


def plain_ending(ending: Outcome[object] | BaseException) -> Plain:
    """Return what an outcome or an error says."""
    if isinstance(ending, BaseException):
        return {"status": "failed", "error": {"type": type(ending).__name__, "message": str(ending)}}
    return plain_outcome(ending)


def _of_its_kind(outcome: Outcome[object]) -> Plain:
    """Return what one kind of outcome alone has."""
    if isinstance(outcome, Complete):
        told: Plain = {"output": plain_value(outcome.output), "finish_reason": outcome.finish_reason}
        return told if outcome.combined_text is None else {**told, "combined_text": outcome.combined_text}
    told = {}
    if outcome.token:
        told["token"] = outcome.token
    if outcome.pauses:
        told["pauses"] = [_pause(pause) for pause in outcome.pauses]
    match outcome:
        case NeedsInput(question=question):
            told["question"] = question
        case NeedsApproval(calls=calls):
            told["calls"] = [_call(call) for call in calls]
        case Incomplete(last_text=text):
            told["last_text"] = text
    return told


def _usage(usage: Usage) -> Plain:
    told: Plain = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    return told | {name: count for name in DETAILS if (count := getattr(usage, name)) is not None}


def _task(task: TaskResult) -> Plain:
    return {"status": task.status, "text": task.text, "reason": task.reason, "attempts": task.attempts}


def _pause(pause: Pause) -> Plain:
    told: Plain = {"id": pause.id, "path": list(pause.path)}
    if pause.question is not None:
        return {**told, "question": pause.question}
    calls: list[JsonValue] = []
    for call in pause.calls:
        why: Plain = {"reason": pause.reasons[call.id]} if call.id in pause.reasons else {}
        calls.append(_call(call) | why)
    return {**told, "calls": calls}


def _call(call: ToolCall) -> Plain:
    return {"id": call.id, "name": call.name, "arguments": cast(JsonObject, plain_value(call.arguments))}


def plain_value(value: object) -> JsonValue:
    """Return a value as JSON can carry it: models and dataclasses as mappings, what JSON has no form for as text."""
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and isfinite(value)):
        return value
    from pydantic_core import to_jsonable_python  # pydantic is loaded where there are such values

    return cast(JsonValue, to_jsonable_python(value, inf_nan_mode="null", bytes_mode="base64", serialize_unknown=True))
