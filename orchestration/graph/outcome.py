"""The outcome of a workflow's run, from its definition and its state."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.errors import RunError
from understudy.orchestration.group.outcome import complete, totals_of
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, TaskResult, TaskStatus

from .spec import GraphSpec
from .state import GraphState, TaskState


def completed(spec: GraphSpec, state: GraphState) -> Complete[str]:
    """Return the outcome of a workflow without failed tasks."""
    count = sum(task.status == "done" for task in state.tasks)
    reason = f"{count} of {len(state.tasks)} tasks completed; the others were skipped"
    if count == len(state.tasks):
        reason = f"all {count} tasks completed"
    return complete(spec.runner_id, state, _last_done(spec, state).text, reason, tasks=task_results(spec, state))


def incomplete(spec: GraphSpec, state: GraphState, errors: Mapping[int, Exception]) -> Incomplete:
    """Return the outcome of a workflow with failed tasks.

    Args:
        spec: the workflow.
        state: its state.
        errors: position of a child -> its exception, for each child whose exception was not lost by saving.
    """
    tasks = task_results(spec, state, errors)
    reasons = [f"task {r.name!r} {r.status}: {r.reason}" for r in tasks.values() if r.status == "failed"]
    reasons += [f"task {r.name!r} was skipped" for r in tasks.values() if r.status == "skipped"]
    return Incomplete(
        agent_id=spec.runner_id,
        completion_reason="; ".join(reasons),
        last_text=_last_done(spec, state).text,
        tasks=tasks,
        **totals_of(state),
    )


def _last_done(spec: GraphSpec, state: GraphState) -> TaskState:
    """Return the last completed task without dependents, or else the last completed task."""
    needed = {name for task in spec.tasks for name in task.dependencies}
    done = [(each.name, task) for each, task in zip(spec.tasks, state.tasks, strict=True) if task.status == "done"]
    sinks = [task for name, task in done if name not in needed]
    return (sinks or [task for _, task in done] or [TaskState()])[-1]


def task_results(
    spec: GraphSpec, state: GraphState, errors: Mapping[int, Exception] | None = None
) -> dict[str, TaskResult]:
    """Return the result of each task, by name; `errors` as for `incomplete`."""
    return {
        each.name: TaskResult(
            name=each.name,
            status=_status(task, state),
            text=task.text,
            reason=task.reason,
            attempts=task.begun,
            error=_error_of(task, state, errors or {}) if task.status == "failed" else None,
        )
        for each, task in zip(spec.tasks, state.tasks, strict=True)
    }


def _error_of(task: TaskState, state: GraphState, errors: Mapping[int, Exception]) -> Exception:
    for position in task.children:
        failure = state.children[position].failure
        if failure is not None:
            return errors.get(position) or failure.to_error()
    return RunError(task.reason)  # it had no prompt, or no list of items


def _status(task: TaskState, state: GraphState) -> TaskStatus:
    """Return a task's status for callers: `paused` if all of its runs wait for a person."""
    if task.status != "running":
        return task.status
    phases = {state.children[position].phase for position in task.children}
    return "paused" if "paused" in phases and "pending" not in phases else "running"
