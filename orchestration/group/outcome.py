"""The outcome of an orchestrator's run, from its definition and its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from understudy.vocabulary.messages import NO_USAGE, Usage
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, TaskResult

from .children import ChildResult
from .state import GroupState


class Totals(TypedDict):
    """The sums over all completed children."""

    iterations: int
    turns: int
    usage: Usage


def results_of(state: GroupState) -> list[ChildResult]:
    """Return the results of all completed children, in the children's order."""
    return [child.result for child in state.children if child.result is not None]


def usage_of(state: GroupState) -> Usage:
    """Return the tokens of all completed children."""
    return sum([result.usage for result in results_of(state)], NO_USAGE)


def totals_of(state: GroupState) -> Totals:
    """Return the sums over all completed children."""
    results = results_of(state)
    return {
        "iterations": sum([each.iterations for each in results]),
        "turns": sum([each.turns for each in results]),
        "usage": usage_of(state),
    }


def incomplete(runner_id: str, state: GroupState) -> Incomplete:
    """Return the outcome of a run in which children stopped short of their end; the runtime adds their last text."""
    reasons = [child.failure.message for child in state.children if child.is_incomplete and child.failure is not None]
    return Incomplete(agent_id=runner_id, completion_reason="; ".join(reasons), **totals_of(state))


def complete(
    runner_id: str,
    state: GroupState,
    text: str,
    reason: str,
    *,
    combined_text: str | None = None,
    tasks: Mapping[str, TaskResult] | None = None,
) -> Complete[str]:
    """Return the outcome of a run whose answer is `text`."""
    return Complete(
        agent_id=runner_id,
        completion_reason=reason,
        text=text,
        output=text,
        combined_text=combined_text,
        tasks=tasks or {},
        **totals_of(state),
    )
