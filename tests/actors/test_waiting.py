"""The wait-for graph by itself, where a run would need luck to get to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from understudy.actors.waiting.graph import WaitGraph
from understudy.errors import CircularAgentCall
from understudy.vocabulary.context.ancestry import Link, current_ancestry, enter_ancestry, leave_ancestry


@dataclass(frozen=True, eq=False)
class Definition:
    id: str


A, B, C = Definition("a"), Definition("b"), Definition("c")


def begun(runner: Definition, run_id: str, *by: Link) -> Link:
    """Make the link of a run that was begun by code for which `by` wait."""
    token = enter_ancestry(by)
    try:
        return Link(runner, run_id)
    finally:
        leave_ancestry(token)


def test_a_callee_that_would_call_who_waits_for_it_is_refused_before_it_is_made() -> None:
    graph = WaitGraph()
    a = begun(A, "1")
    b = begun(B, "2", a)

    with graph.waiting((a,), b), pytest.raises(CircularAgentCall) as caught:
        graph.check((b,), A)

    assert caught.value.path == ("a", "b", "a")
    graph.check((b,), A)  # nobody waits for b any more


def test_the_ancestry_counts_also_where_no_wait_is_in_the_graph() -> None:
    with pytest.raises(CircularAgentCall):
        WaitGraph().check((begun(A, "1"), begun(B, "2")), A)


def test_who_waits_for_what_it_did_not_begin_may_be_run_again_by_it() -> None:
    graph = WaitGraph()
    a, b = begun(A, "1"), begun(B, "2")
    again = begun(A, "3", b)

    with graph.waiting((a,), b):
        graph.check((b,), A)
        with graph.waiting((b,), again):
            assert len(graph) == 2


def test_what_was_begun_may_wait_for_another_run_of_who_began_it() -> None:
    graph = WaitGraph()
    a, earlier = begun(A, "1"), begun(A, "0")
    b = begun(B, "2", a)

    with graph.waiting((b,), earlier), graph.waiting((a,), b):
        assert len(graph) == 2


def test_a_run_that_is_over_closes_no_circle_although_its_threads_still_wait() -> None:
    graph = WaitGraph()
    a, b, c = begun(A, "1"), begun(B, "2"), begun(C, "3")

    with graph.waiting((a,), b), graph.waiting((b,), c):
        b.over = True  # a is about to wake
        with graph.waiting((c,), a):
            assert len(graph) == 3


def test_a_refused_wait_leaves_nothing_behind() -> None:
    graph = WaitGraph()
    a, b = begun(A, "1"), begun(B, "2")

    with graph.waiting((a,), b), pytest.raises(CircularAgentCall), graph.waiting((b,), a):
        raise AssertionError("it waited")

    assert len(graph) == 0
    with graph.waiting((b,), a):
        assert len(graph) == 1


@pytest.mark.parametrize("last_first", [False, True])
def test_a_circle_among_ten_thousand_that_wait_is_found(last_first: bool) -> None:
    graph = WaitGraph()
    links = [begun(Definition(f"agent-{n}"), str(n)) for n in range(10_000)]
    waits = [graph.waiting((before,), after) for before, after in pairwise(links)]
    for wait in reversed(waits) if last_first else waits:
        wait.__enter__()

    with pytest.raises(CircularAgentCall) as caught, graph.waiting((links[-1],), links[0]):
        raise AssertionError("it waited")

    assert len(caught.value.path) == 10_001


def test_outside_of_runs_there_is_no_ancestry_and_none_in_a_run_that_is_over() -> None:
    link = begun(A, "1")
    token = enter_ancestry((link,))
    try:
        inside = current_ancestry()
        link.over = True
        afterwards = current_ancestry()
    finally:
        leave_ancestry(token)

    assert (inside, afterwards, current_ancestry()) == ((link,), (), ())
