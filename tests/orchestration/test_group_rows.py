"""The rows of a group's run: what is put together from them is the run, and a step writes what changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import copy
from dataclasses import fields
from typing import Any

import pytest

from tests.support.group_machines import ASKS, AnyGroup, broke
from understudy.errors import RunError
from understudy.orchestration import RunChildren
from understudy.orchestration.agent.state import PausedChild
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.graph.spec import GraphSpec, TaskSpec
from understudy.orchestration.group.children import AwaitChildren, ChildFailure, ChildResult, ChildState
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.journal.group_rows import is_unchanged, machine_of_group, rows_of_group
from understudy.orchestration.journal.rows import CHILD, JournalRow, Written
from understudy.vocabulary.messages import JsonValue, Usage


class Journal:
    """Keeps the rows of a run, as a store does."""

    def __init__(self, run: AnyGroup) -> None:
        self.run = run
        self.rows: dict[tuple[str, str], str] = {}
        self.new: list[JournalRow] = []
        self._written = Written()

    def write(self) -> None:
        self.new, self._written = rows_of_group(self.run.state, self.run.spec, self._written, 0)
        self.rows.update({(row.kind, row.key): row.body for row in self.new})


def spec(size: int) -> GroupSpec:
    return GroupSpec(runner_id="panel", children=tuple([f"child {n}" for n in range(size)]), max_parallel=3)


def sequence(size: int) -> SequenceRun:
    return SequenceRun(spec(size), "Go \ud83d")  # half of a pair, as from a model that was cut off


def parallel(size: int) -> ParallelRun:
    return ParallelRun(spec(size), "Go")


def graph(size: int) -> GraphRun:
    tasks = [
        TaskSpec(
            name=f"t{n}",
            runner=f"child {n}",
            prompt="${t0}" if n == 1 else "Go",
            dependencies=(f"t{n - 1}",) if n else (),
            for_each="${t0}" if n == 1 else "",
            retries=1,
        )
        for n in range(size)
    ]
    return GraphRun(GraphSpec(runner_id="flow", children=tuple([t.runner for t in tasks]), tasks=tuple(tasks)), "Go")


def report(run: AnyGroup, position: int, chance: random.Random) -> None:
    """Report how a child ended or paused."""
    what = chance.randrange(6)
    if what == 0:
        run.child_paused(position, f"saved {position}", (ASKS,))
    elif what == 1 and isinstance(run, GraphRun):
        run.child_failed(position, broke("once"))
    elif what == 2:
        run.child_kept(position, f"kept {position}")
    else:
        changes: dict[str, JsonValue] = {"k": position, "deep": [1, {"a": None}]}
        run.child_done(position, ChildResult(text='["a", "b"]', usage=Usage(1, 1), changes=changes, removed=("x",)))


@pytest.mark.parametrize("make", [sequence, parallel, graph])
@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_writes_at_any_step_is_put_together_as_it_is(make: Callable[[int], AnyGroup], seed: int) -> None:
    run, chance = make(6), random.Random(seed)
    journal = Journal(run)
    for _ in range(40):
        try:
            step = run.next_step()
        except RunError:  # a task failed twice
            break
        if isinstance(step, RunChildren):
            report(run, chance.choice(step.children).position, chance)
        elif isinstance(step, AwaitChildren):
            run.respond({step.pauses[0].id: "the first"})
        else:
            break
        if chance.random() < 0.6:
            journal.write()
            text = machine_of_group(journal.rows)
            assert json.loads(text) == json.loads(run.to_json())
            assert type(run).from_json(text, run.spec).to_json() == run.to_json()


def test_a_step_writes_the_rows_of_the_children_that_changed() -> None:
    run = sequence(500)
    journal = Journal(run)
    journal.write()
    first, sizes = len(journal.new), list[int]()
    for position in range(100):
        run.next_step()
        run.child_done(position, ChildResult(text="x" * 100))
        journal.write()
        sizes.append(sum([len(row.body) for row in journal.new]))

        assert [row.key for row in journal.new if row.kind == CHILD] == [str(position)]

    assert first > 500
    assert sizes[-1] - sizes[0] < 6 * len(sizes)  # the order in which the children ended is in the head


CHANGED: dict[str, Any] = {
    "phase": "done",
    "begun": True,
    "paused": PausedChild("saved", ()),
    "result": ChildResult(text="done"),
    "failure": ChildFailure("RunError", "no"),
    "attempts": 1,
    "refused": True,
}


@pytest.mark.parametrize("name", [field.name for field in fields(ChildState)])
def test_every_field_of_a_child_tells_that_it_changed(name: str) -> None:
    child = ChildState()
    before = copy(child)
    assert is_unchanged(child, before)

    setattr(child, name, CHANGED[name])

    assert not is_unchanged(child, before)


def test_a_child_whose_answers_come_may_have_changed() -> None:
    child = ChildState(phase="paused", paused=PausedChild("saved", (ASKS,)))

    assert not is_unchanged(child, copy(child))
