"""Checks that the state of a workflow's saved run is possible; each function returns the contradiction in words."""

from __future__ import annotations

from understudy.orchestration.agent.contradictions import in_spending, negative
from understudy.orchestration.group.contradictions import contradiction_of_children

from .spec import GraphSpec
from .state import GraphState


def contradiction_of_graph(state: GraphState, spec: GraphSpec) -> str:
    """Return the first contradiction in the state of a workflow's run, or an empty text."""
    return contradiction_of_children(state) or in_spending(state.spending) or _in_tasks(state) or _missing(state, spec)


def _missing(state: GraphState, spec: GraphSpec) -> str:
    """Name a parameter without a value that a prompt may still need."""
    missing = sorted((spec.parameters | spec.given.keys()) - state.parameters.keys())
    return f"parameter {missing[0]!r} has no value" if missing else ""


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
        fault = negative({"repeats": task.repeats, "begun": task.begun})
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
