"""Checks that the state of a group's saved run is possible; each function returns the contradiction in words."""

from __future__ import annotations

from understudy.orchestration.agent.contradictions import counts_of, in_pauses, in_spending, negative

from .children import ChildState
from .merge_rule import rule_of
from .spec import GroupSpec
from .state import GroupState


def contradiction_of_group(state: GroupState, spec: GroupSpec) -> str:
    """Return the first contradiction in the state of a sequence's or a parallel group's run, or an empty text."""
    if fault := contradiction_of_children(state):
        return fault
    children, order = state.children, state.order
    over = ("done", "failed", "limit") if rule_of(spec).keeps_errors else ("done", "failed")
    ended = [position for position, child in enumerate(children) if child.phase in over]
    if sorted(order) != ended:
        return f"children {ended} ended, in the order {order}"
    if any(child.phase == "failed" and child.failure is None for child in children):
        return "a child failed of nothing"
    return in_spending(state.spending)


def contradiction_of_children(state: GroupState) -> str:
    """Return the first contradiction in the states of an orchestrator's children, or an empty text."""
    children, order = state.children, state.order
    if len(set(order)) < len(order) or any(not 0 <= position < len(children) for position in order):
        return f"{len(children)} children that ended in the order {order}"
    for position, child in enumerate(children):
        fault = _in_child(child)
        if fault:
            return f"child {position}: {fault}"
    return ""


def _in_child(child: ChildState) -> str:
    if (child.phase == "done") != (child.result is not None):
        return f"phase {child.phase!r} {'without' if child.result is None else 'with'} a result"
    if child.phase in ("paused", "limit") and child.paused is None:
        return f"phase {child.phase!r} without its run"
    if child.phase == "paused" and child.paused is not None and (fault := in_pauses(child.paused)):
        return fault
    if child.phase == "limit" and child.failure is None:
        return "a limit, and no word of which"
    counts: dict[str, int] = {"attempts": child.attempts}
    if child.result is not None:
        counts |= {"iterations": child.result.iterations, "turns": child.result.turns, **counts_of(child.result.usage)}
    return negative(counts)
