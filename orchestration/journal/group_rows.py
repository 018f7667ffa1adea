"""The run of a group or workflow as rows of a journal: one for each child and each task, and a head without them.

A step writes the rows of the children and tasks that changed. Pauses of children, their results and their failures are in
their rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter

from understudy.orchestration.agent.saved_text import written
from understudy.orchestration.graph.state import GraphState, TaskState
from understudy.orchestration.group.children import ChildState
from understudy.orchestration.group.snapshot import FORMAT
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.group.state import GroupState
from understudy.vocabulary.messages import Part

from .heads import head_of, head_row
from .rows import CHILD, DEFINITION, INPUT, TASK, JournalRow, Written

_NOT_IN_HEAD = {"children", "tasks", "input"}


def rows_of_group(state: GroupState, spec: GroupSpec, before: Written, events: int) -> tuple[list[JournalRow], Written]:
    """Return the rows that are new or changed, and what is written once they are.

    Args:
        state: of the run; nobody changes it meanwhile.
        spec: of the run.
        before: what is written.
        events: the number of the next event.
    """
    children = _children(state.children, before.children)
    parts = {CHILD: [body for _, body in children]}
    if isinstance(state, GraphState):
        parts[TASK] = [written(_adapter(TaskState), each) for each in state.tasks]
    sizes = {kind: len(bodies) for kind, bodies in parts.items()}
    rest = written(_adapter(cast(Any, type(state))), state, _NOT_IN_HEAD)
    rows = [head_row(f'{{"format":{FORMAT},"sizes":{json.dumps(sizes)},"state":{rest}}}', events)]
    if not before.is_defined:
        rows.append(JournalRow(DEFINITION, "", json.dumps([spec.fingerprint(), spec.parts()])))
        rows.append(JournalRow(INPUT, "", written(_input(), state.input)))
    rows += _changed(CHILD, parts[CHILD], [body for _, body in before.children])
    rows += _changed(TASK, parts.get(TASK, ()), before.tasks)
    return rows, before._replace(is_defined=True, children=children, tasks=parts.get(TASK, ()))


def _children(now: Sequence[ChildState], before: Sequence[tuple[ChildState, str]]) -> list[tuple[ChildState, str]]:
    """Return a copy of each child and its text; a text is made anew only if the child may have changed."""
    known = list(zip(now, before, strict=False))
    same = [old if is_unchanged(child, old[0]) else _with_text(child) for child, old in known]
    return same + [_with_text(child) for child in now[len(known) :]]


def _with_text(child: ChildState) -> tuple[ChildState, str]:
    return copy(child), written(_adapter(ChildState), child)


def is_unchanged(child: ChildState, before: ChildState) -> bool:
    """Whether a child is as it was copied; False for one that is paused, whose answers come one by one."""
    return (
        child.phase == before.phase
        and child.begun is before.begun
        and child.paused is None is before.paused
        and child.result is before.result
        and child.failure is before.failure
        and child.attempts == before.attempts
        and child.refused is before.refused
    )


def _changed(kind: str, bodies: Sequence[str], known: Sequence[str]) -> list[JournalRow]:
    count = len(known)
    return [JournalRow(kind, str(at), body) for at, body in enumerate(bodies) if at >= count or body != known[at]]


def machine_of_group(rows: Mapping[tuple[str, str], str]) -> str:
    """Return the text of a run that has these rows, as the machine's `to_json` gives it.

    Raises:
        KeyError: a row is missing.
        ValueError: a row is no JSON.
    """
    data = head_of(rows).machine
    state, sizes = data["state"], data.pop("sizes")
    data["fingerprint"], data["parts"] = json.loads(rows[DEFINITION, ""])
    state["input"] = json.loads(rows[INPUT, ""])
    for kind, name in ((CHILD, "children"), (TASK, "tasks")):
        if kind in sizes:
            state[name] = [json.loads(rows[kind, str(at)]) for at in range(sizes[kind])]
    return json.dumps(data)


@cache
def _input() -> TypeAdapter[Any]:
    return TypeAdapter(str | tuple[Part, ...])


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
