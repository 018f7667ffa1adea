"""Checks the tasks of workflows by the workflow's own rules, the children of supervisors, and nested workflows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from understudy.orchestration import Workflow
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.graph.spec import TaskSpec, problems_of
from understudy.specs.grammar.groups import TaskGrammar
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem

from .definitions import Definition
from .tools import check_one_of_two

KEYS = {"name": "id"}
"""Argument of `Task` -> key in a spec, where they differ."""


def check_tasks(definition: Definition) -> Iterator[Problem]:
    """Yield the problems of a workflow's tasks: names, dependencies, references."""
    tasks = definition.located.at("tasks").items()
    for task in tasks:
        if task.is_mapping:
            yield from check_one_of_two(task, TaskGrammar)
    named = [task.at("id") for task in tasks]
    needed = [each for task in tasks for each in task.at("dependencies").items()]
    if not tasks or not all(each.text for each in (*named, *needed)):
        return  # without all ids, dependencies cannot be checked
    for problem in problems_of([_as_told(task) for task in tasks]):
        located = tasks[problem.task]
        for step in problem.where:
            located = located.items()[step] if isinstance(step, int) else located.at(KEYS.get(step, step))
        yield located.problem(problem.message)


def check_children(definition: Definition) -> Iterator[Problem]:
    """Yield a problem for each duplicate child of a supervisor."""
    seen: set[str] = set()
    for child in definition.located.at("children").items():
        id = child.text or child.at("ref").text
        if id is None:
            continue
        if id in seen:
            yield child.problem(f"the child {id!r} stands twice")
        seen.add(id)


def _as_told(task: LocatedValue) -> TaskSpec:
    """Return a task as the workflow's rules take it; values that are not text are left out, as the grammar reports them."""
    prompt = task.at("prompt").text
    return TaskSpec(
        name=task.at("id").text or "",
        runner="",
        prompt="${input}" if prompt is None else prompt,
        dependencies=tuple([each.text or "" for each in task.at("dependencies").items()]),
        when=task.at("when").text,
        asks_when=task.at("when").is_mapping,
        for_each=task.at("for_each").text,
        until=task.at("until").text,
        asks_until=task.at("until").is_mapping,
    )


def check_reach(definitions: Iterable[Definition], runners: Mapping[str, Runner[object]]) -> Iterator[Problem]:
    """Yield a problem for each nested workflow that does not get all of its parameters."""
    for definition in definitions:
        for id, place in definition.needs() if definition.kind != "supervisor" else ():
            inner = runners[id]
            missing = inner.parameters.difference(_given_at(place)) if isinstance(inner, Workflow) else None
            if missing:
                needed = ", ".join([f"${{{name}}}" for name in sorted(missing)])
                example = ", ".join([f"{name}: …" for name in sorted(missing)])
                yield place.problem(
                    f"workflow {id!r} refers to {needed}, and nothing gives it a value here; write "
                    f"{{ref: {id}, parameters: {{{example}}}}}"
                )


def _given_at(place: LocatedValue) -> Collection[str]:
    """Return the names of the parameters that a reference gives."""
    around: object = place.document.value
    for step in place.path[:-1]:
        around = cast("Mapping[str | int, object]", around)[step]
    given = cast("Mapping[str, object]", around).get("parameters") if isinstance(around, Mapping) else None
    return cast("Mapping[str, object]", given).keys() if isinstance(given, Mapping) else ()
