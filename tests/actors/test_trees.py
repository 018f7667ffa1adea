"""Trees of runners on real threads: one of four levels, and random ones, which come to what they come to by hand."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.nested import Leaf, ending, nested, path_to
from tests.support.nested import notes as all_notes
from tests.support.scripts import WAIT, eventually, needs_approval, needs_input
from tests.support.stores import DictStore
from tests.support.tree_plays import answers_for, play
from tests.support.tree_runners import GIVEN, Stage, crashing_groups, runner_of, tally
from tests.support.trees import (
    AgentNode,
    Beat,
    Node,
    ParallelNode,
    SequenceNode,
    TaskNode,
    WorkflowNode,
    in_one_order,
    trees,
)
from understudy.orchestration.definitions.runner import Runner

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

# --- a sequence in a parallel group in a workflow in a sequence

LEAVES: list[Leaf] = ["agent", "lead"]
leaves = pytest.mark.parametrize("leaf", LEAVES)


class Notes:
    """What a tree notes, and when it comes to a certain thing."""

    def __init__(self, awaited: str = "") -> None:
        self.noted: list[str] = []
        self.came = threading.Event()
        self._awaited = awaited

    def __call__(self, what: str) -> None:
        self.noted.append(what)  # which is safe from many threads
        if what == self._awaited:
            self.came.set()

    @property
    def counted(self) -> dict[str, int]:
        return dict(Counter(self.noted))


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("trees") as system:
        yield system


def all_is_over(system: us.ActorSystem) -> None:
    eventually(lambda: system.in_flight == 0 and system.hung == 0, "nothing of the tree goes on")


@leaves
def test_a_tree_of_four_levels_runs_to_its_end(leaf: Leaf, system: us.ActorSystem) -> None:
    notes = Notes()

    outcome = nested(leaf, notes, asks=False).run("quick", system=system)

    assert outcome.text == ending(leaf, "quick", "quick")
    assert notes.counted == all_notes(leaf, "quick", asks=False)


@leaves
def test_a_tree_of_four_levels_pauses_at_its_leaf_and_goes_on_there(leaf: Leaf, system: us.ActorSystem) -> None:
    notes = Notes()
    tree = nested(leaf, notes)

    first = needs_input(tree.run("Go", system=system))
    assert system.in_flight == 0
    second = needs_approval(tree.resume(first.token, "well", system=system))
    outcome = tree.resume(second.token, us.Approve(), system=system)

    assert [pause.path for pause in (*first.pauses, *second.pauses)] == [path_to(leaf)] * 2
    assert outcome.text == ending(leaf, "Go", "well")
    assert notes.counted == all_notes(leaf, "well")


@leaves
def test_a_tree_that_is_cancelled_cancels_the_tool_at_its_leaf(leaf: Leaf, system: us.ActorSystem) -> None:
    notes = Notes("work hang")
    handle = nested(leaf, notes, asks=False).submit("hang", system=system)
    assert notes.came.wait(WAIT)

    handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    all_is_over(system)
    assert "told" in notes.noted
    assert {"tell", "after"} & set(notes.noted) == set()


@leaves
def test_the_deadline_of_a_tree_holds_for_the_tool_at_its_leaf(leaf: Leaf, system: us.ActorSystem) -> None:
    notes = Notes()

    with pytest.raises(us.RunTimedOut, match="'outer'"):
        nested(leaf, notes, asks=False).run("hang", timeout=1.0, system=system)

    all_is_over(system)
    assert "told" in notes.noted
    assert {"tell", "after"} & set(notes.noted) == set()


@leaves
def test_a_tree_that_goes_on_is_held_to_the_deadline_that_it_was_given_then(leaf: Leaf, system: us.ActorSystem) -> None:
    notes = Notes()
    tree = nested(leaf, notes)
    first = needs_input(tree.run("Go", system=system))
    second = needs_approval(tree.resume(first.token, "hang", system=system))

    with pytest.raises(us.RunTimedOut, match="'outer'"):
        tree.resume(second.token, us.Approve(), timeout=1.0, system=system)

    all_is_over(system)
    assert "told" in notes.noted


# --- random trees


def in_turn(node: Node) -> Node:
    """Return the tree with one run under way at a time in groups and workflows."""
    match node:
        case WorkflowNode():
            tasks = tuple([replace(task, runner=in_turn(task.runner)) for task in node.tasks])
            return replace(node, tasks=tasks, max_parallel=1)
        case ParallelNode():
            return replace(node, below=tuple(map(in_turn, node.below)), max_parallel=1)
        case SequenceNode() | AgentNode():
            return replace(node, below=tuple(map(in_turn, node.below)))


Ended = us.Outcome[object] | Exception


def asked(pauses: tuple[us.Pause, ...]) -> list[object]:
    """Return what is asked, without the ids: positions in a workflow follow the order in which its tasks begin."""
    return sorted([(pause.path, pause.question, str(pause.calls)) for pause in pauses], key=str)


def some_of(pauses: tuple[us.Pause, ...], *, together: bool) -> dict[str, us.PauseAnswer]:
    """Answer all of it, or all that one runner asks."""
    first = min(pause.path for pause in pauses)
    return answers_for([pause for pause in pauses if together or pause.path == first])


def by_runtime(runner: Runner[object], *, together: bool, stored: bool) -> tuple[Ended, list[object]]:
    """Run a tree to its end, also over its pauses, and once over failed tasks; return that, and what it waited for.

    With `stored`, it goes on in another system each time, which has only the store.
    """
    waited, began_anew, store = list[object](), False, DictStore()
    with ExitStack() as systems:

        def system() -> us.ActorSystem:
            return systems.enter_context(us.ActorSystem("trees", store=store if stored else None))

        here = system()
        try:
            outcome = runner.run("Go", session={GIVEN: 1}, timeout=WAIT, system=here)
            while True:
                here = system() if stored else here
                if isinstance(outcome, (us.NeedsInput, us.NeedsApproval)):
                    waited.append(asked(outcome.pauses))
                    answers = some_of(outcome.pauses, together=together)
                    outcome = runner.resume(outcome.token, answers, timeout=WAIT, system=here)
                elif isinstance(outcome, us.Incomplete) and isinstance(runner, us.Workflow) and not began_anew:
                    began_anew = True
                    try:
                        outcome = runner.resume(outcome.token, timeout=WAIT, system=here)
                    except ValueError as error:
                        assert "is incomplete" in str(error) and "the token stands" in str(error)
                        return outcome, waited
                else:
                    return outcome, waited
        except Exception as error:  # noqa: BLE001 (it is what the run came to)
            return error, waited


def said(end: Ended) -> object:
    """Return what a run came to, without what only the runtime knows of it."""
    match end:
        case us.Complete():
            counts = (end.usage, end.turns, end.iterations)
            return end.agent_id, end.text, end.combined_text, end.completion_reason, tally(end.tasks), counts
        case us.Incomplete():
            return end.agent_id, end.last_text, end.completion_reason, tally(end.tasks), end.usage, end.turns
        case _:
            return type(end), str(end)


@FEW
@given(trees(settled=True), st.integers(0, 1_000_000), st.booleans(), st.booleans())
def test_a_tree_on_real_threads_comes_to_what_it_comes_to_by_hand(
    tree: Node, seed: int, together: bool, stored: bool
) -> None:
    def answering(pauses: tuple[us.Pause, ...]) -> dict[str, us.PauseAnswer]:
        return some_of(pauses, together=together)

    hand = play(runner_of(tree), seed, answering, session={GIVEN: 1}, live=True)

    end, waited = by_runtime(runner_of(tree), together=together, stored=stored)

    event(type(end).__name__)
    event(f"pauses: {min(len(waited), 3)}")
    assert waited == [asked(pauses) for pauses in hand.pauses]
    assert said(end) == said(hand.counted)
    if isinstance(end, (us.Complete, us.Incomplete)):
        assert end.session.keys() == hand.session.keys()
        assert end.session == hand.session or not in_one_order(tree)


@FEW
@given(trees(settled=True), st.integers(0, 1_000_000), st.sets(st.integers(1, 25), min_size=1, max_size=2))
def test_a_tree_comes_to_the_same_when_runs_in_it_crash_and_nothing_is_done_twice(
    tree: Node, seed: int, stumbles: set[int]
) -> None:
    def answering(pauses: tuple[us.Pause, ...]) -> dict[str, us.PauseAnswer]:
        return some_of(pauses, together=True)

    hand, stage = play(runner_of(tree), seed, answering, session={GIVEN: 1}, live=True), Stage(stumbles, watched=True)

    with crashing_groups(stage):
        end, waited = by_runtime(runner_of(tree, stage), together=True, stored=False)

    event(f"faults: {stage.stumbled}")
    assert waited == [asked(pauses) for pauses in hand.pauses]
    assert said(end) == said(hand.counted)
    assert (stage.models, stage.tools) == (hand.models, hand.tools)


def has_children(node: Node) -> bool:
    return not isinstance(node, AgentNode)


def told_of(tree: Node, store: str | None) -> tuple[str, dict[tuple[str, ...], list[list[str]]]]:
    """Run a tree without answers; return what it came to, and what readers were told of the runs at each path."""
    with us.ActorSystem("trees", store=store) as system:
        handle = runner_of(tree).submit("Go", session={GIVEN: 1}, timeout=WAIT, system=system)
        events = list(handle.events(inner=True))
        error = handle.exception(WAIT)
        end = str(said(handle.result() if error is None else cast("Exception", error)))
    of_runs = dict[tuple[tuple[str, ...], str], list[str]]()
    for each in events:
        of_runs.setdefault((each.path, each.run_id), []).append(type(each).__name__)
    told = dict[tuple[str, ...], list[list[str]]]()
    for (path, _), names in of_runs.items():
        told.setdefault(path, []).append(names)
    return re.sub(r"trees-[-0-9a-f]+", "a run", end), told


@FEW
@given(trees(settled=True).filter(has_children).map(in_turn).filter(in_one_order))
def test_a_tree_that_is_written_down_comes_to_the_same_and_tells_the_same_as_one_that_is_not(
    tmp_path_factory: pytest.TempPathFactory, tree: Node
) -> None:
    here = told_of(tree, None)
    written = told_of(tree, f"sqlite:///{tmp_path_factory.mktemp('trees')}/trees.db")

    event(f"runs: {min(len(here[1]), 5)}")
    assert written == here


def agent_of(id: str, *beats: Beat) -> AgentNode:
    return AgentNode(id, beats)


FOUR_LEVELS = SequenceNode(
    "outer",
    (
        WorkflowNode(
            "flow",
            (
                TaskNode(agent_of("fetch")),
                TaskNode(
                    ParallelNode(
                        "panel",
                        (
                            SequenceNode(
                                "inner",
                                (AgentNode("lead", ("hand over", "ask"), "says", (agent_of("leaf", "pay"),)),),
                            ),
                            agent_of("beside"),
                        ),
                        max_parallel=1,  # or who is at which moment depends on who is quicker
                    ),
                    "asks when",
                    (0,),
                ),
            ),
        ),
        agent_of("after"),
    ),
    True,
)


def test_a_tree_comes_to_the_same_wherever_a_run_in_it_crashes() -> None:
    hand = play(runner_of(FOUR_LEVELS), 0, answers_for, session={}, live=True)
    expected = (said(hand.counted), [asked(pauses) for pauses in hand.pauses], hand.models, hand.tools)

    moment, stumbled = 0, True
    while stumbled:
        moment += 1
        stage = Stage({moment}, watched=True)
        with crashing_groups(stage):
            end, waited = by_runtime(runner_of(FOUR_LEVELS, stage), together=True, stored=False)
        stumbled = stage.stumbled > 0
        assert stumbled or moment > 50, "these are all the moments"
        assert (said(end), waited, stage.models, stage.tools) == expected, f"the fault at moment {moment}"
