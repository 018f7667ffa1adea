"""Tool results that end a run, and the results of the other calls of that round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.vocabulary.messages import ToolErrorKind, ToolResult

from .rounds import cut_short
from .spec import RunSpec
from .state import Failure, FailureKind, RunState
from .steps import FailRun, InvalidCall, Resolution

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


def resolutions_for(
    spec: RunSpec, invalid: Sequence[InvalidCall], resolutions: Mapping[int, Resolution]
) -> Mapping[int, Resolution]:
    """Return the resolutions, plus `FailRun` for each unresolved invalid call of a tool whose errors end the run."""
    if not invalid:
        return resolutions
    ending: dict[int, Resolution] = {bad.position: FailRun() for bad in invalid if spec.raises(bad.call.name)}
    return {**ending, **resolutions} if ending else resolutions
