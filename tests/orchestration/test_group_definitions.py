"""Sequences and parallel groups as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from understudy.orchestration import Agent, Runner
from understudy.orchestration.definitions.groups import ParallelAgent, SequentialAgent
from understudy.orchestration.group.spec import Merge, OnError, PassOutput

ONE = Agent("one", model="rehearsal")
TWO = Agent("two", model="rehearsal")


def test_a_group_keeps_its_children_in_order_and_one_may_stand_there_twice() -> None:
    panel = ParallelAgent("panel", [TWO, ONE, TWO])
    report = SequentialAgent("report", (child for child in (panel, ONE)))

    assert panel.children == (TWO, ONE, TWO)
    assert report.steps == (panel, ONE)


def test_a_group_does_not_change_and_gives_a_changed_copy() -> None:
    report = SequentialAgent("report", [ONE], pass_output=True, description="Reports.")

    copy = report.replace(id="other", steps=[TWO])

    assert (copy.id, copy.steps, copy.pass_output, copy.description) == ("other", (TWO,), True, "Reports.")
    assert report.steps == (ONE,)
    with pytest.raises(AttributeError, match="does not change"):
        report.pass_output = False


def test_what_decides_a_run_is_in_the_fingerprint_and_nothing_else() -> None:
    panel = ParallelAgent("panel", [ONE, TWO])

    same = [panel.replace(), panel.replace(description="Other."), panel.replace(max_parallel=1)]
    others: list[Runner[object]] = [
        panel.replace(id="other"),
        panel.replace(children=[TWO, ONE]),
        panel.replace(children=[ONE, TWO.replace(system_prompt="Be brief.")]),
        panel.replace(merge="first"),
        panel.replace(on_error="collect"),
        SequentialAgent("panel", [ONE, TWO]),
        SequentialAgent("panel", [ONE, TWO], pass_output=True),
    ]

    assert {runner.fingerprint() for runner in same} == {panel.fingerprint()}
    assert len({runner.fingerprint() for runner in (panel, *others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: SequentialAgent("s", []), ValueError, "group 's': steps must hold at least one runner"),
        (lambda: ParallelAgent("p", []), ValueError, "children must hold at least one runner"),
        (lambda: SequentialAgent("s", cast("list[Runner[object]]", ["one"])), TypeError, "steps must hold runners"),
        (lambda: ParallelAgent("p", cast("list[Runner[object]]", ONE)), TypeError, "must be a list of runners"),
        (lambda: SequentialAgent("s", [ONE], pass_output=cast(PassOutput, "all")), ValueError, "pass_output must be"),
        (lambda: ParallelAgent("p", [ONE], merge=cast(Merge, "last")), ValueError, "merge must be"),
        (lambda: ParallelAgent("p", [ONE], on_error=cast(OnError, "stop")), ValueError, "on_error must be"),
        (lambda: ParallelAgent("p", [ONE], max_parallel=0), ValueError, "group 'p': max_parallel must be at least 1"),
        (
            lambda: ParallelAgent("p", [ONE], max_parallel=cast(int, "2")),
            TypeError,
            "max_parallel must be a whole number",
        ),
        (lambda: SequentialAgent("", [ONE]), ValueError, "a group's id must be"),
    ],
)
def test_what_is_wrong_with_a_group_is_said_when_it_is_made(
    make: Callable[[], object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make()
