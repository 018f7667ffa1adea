"""Random waits between real runs: refused exactly when they would close a circle, and every run ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.scripts import WAIT, eventually, results_of
from tests.support.wait_programs import Await, Begin, Call, Program, State, drawn, may_deadlock
from tests.support.wait_stage import perform_all
from understudy.actors.waiting.graph import graph
from understudy.testing import FunctionModel, calls, says

Waits = list[tuple[int, int]]
"""Who waits for whom, in the order in which they begin."""


def closes(waiter: int, target: int, under_way: Iterable[tuple[int, int]]) -> bool:
    """Whether a wait would close a circle, found another way than the runtime finds it."""
    reached, before = {target}, set[int]()
    while reached != before:
        before = set(reached)
        reached |= {to for start, to in under_way if start in before}
    return waiter in reached


class Company:
    """Runs that wait for one another as they are told; each wait is a tool call, those of one run at the same time."""

    def __init__(self, size: int, waits: Waits, *, in_order: bool) -> None:
        self._waits = waits
        self._go = [threading.Event() for _ in waits]
        self._ready = threading.Event()
        self.refused: dict[int, tuple[str, ...]] = {}
        """Position of the wait -> the path of the circle."""
        self._finish = threading.Event()
        if not in_order:
            for event in (*self._go, self._finish):
                event.set()
        self.handles = [self._agent(n).submit("go") for n in range(size)]
        self._ready.set()

    def _agent(self, n: int) -> us.Agent:
        turn = says("")
        for position, (waiter, _) in enumerate(self._waits):
            if waiter == n:
                turn = turn + calls("wait", position=position)
        turn = turn + calls("hold")

        def wait(position: int) -> str:
            assert self._ready.wait(WAIT)
            assert self._go[position].wait(WAIT)
            try:
                self.handles[self._waits[position][1]].result(WAIT * 2)
            except us.CircularAgentCall as error:
                self.refused[position] = error.path
                raise
            return "waited"

        def hold() -> str:
            assert self._finish.wait(WAIT)
            return "held"

        model = FunctionModel(lambda request: says("ok") if request.tool_results else turn)
        return us.Agent(f"agent-{n}", model=model, tools=[wait, hold])

    def begin(self, position: int) -> bool:
        """Have one wait begin; whether it was refused."""
        in_graph = len(graph)
        self._go[position].set()
        eventually(lambda: position in self.refused or len(graph) > in_graph, "the wait began or was refused")
        return position in self.refused

    def end(self) -> None:
        """Have every run end, and check that each says what became of its waits."""
        self._finish.set()
        for n, handle in enumerate(self.handles):
            mine = [position for position, (waiter, _) in enumerate(self._waits) if waiter == n]
            said = [result.is_error for result in results_of(handle.result(WAIT))]
            assert said == [position in self.refused for position in mine] + [False]
        eventually(lambda: len(graph) == 0, "no wait is left")

    def abandon(self) -> None:
        """Cancel what has not ended, as after a failure: the next example must not find it."""
        for handle in self.handles:
            handle.cancel()
        eventually(lambda: len(graph) == 0, "no wait is left")


@st.composite
def companies(draw: st.DrawFn) -> tuple[int, Waits]:
    size = draw(st.integers(1, 6))
    member = st.integers(0, size - 1)
    return size, draw(st.lists(st.tuples(member, member), max_size=10))


@settings(max_examples=60, deadline=None)
@given(companies())
def test_a_wait_is_refused_if_and_only_if_it_would_close_a_circle(drawn: tuple[int, Waits]) -> None:
    size, waits = drawn
    company, under_way = Company(size, waits, in_order=True), Waits()
    try:
        for position, wait in enumerate(waits):
            refused = company.begin(position)

            assert refused == closes(*wait, under_way)
            if refused:
                path = company.refused[position]
                numbers = [int(id.removeprefix("agent-")) for id in path]
                assert (numbers[0], numbers[1], numbers[-1]) == (*wait, wait[0])
                assert all(step in under_way for step in pairwise(numbers[1:]))
            else:
                under_way.append(wait)
        company.end()
    finally:
        company.abandon()


@pytest.mark.parametrize("seed", range(20))
def test_waits_in_no_order_never_hang(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randint(2, 12)
    waits = [(chance.randrange(size), chance.randrange(size)) for _ in range(chance.randint(1, 30))]

    company = Company(size, waits, in_order=False)
    company.end()

    numbers = [[int(id.removeprefix("agent-")) for id in path] for path in company.refused.values()]
    assert all(step in waits for path in numbers for step in pairwise(path))
    if not any(closes(*wait, waits) for wait in waits):
        assert company.refused == {}


# --- slots, conversations and places: `python -m tests.soak waits` does many more


@pytest.mark.filterwarnings("ignore::understudy.MemoryNotUsed")  # some of the drawn runs have no conversation
@pytest.mark.parametrize("first_seed", [0, 1_000_000])
def test_programs_of_waits_end_and_nothing_is_refused_that_could_have_gone_on(first_seed: int) -> None:
    some, _ = perform_all(60, first_seed, drawn)

    assert 10 < some < 60  # else they would say little


def wait_for(*roots: int) -> Call:
    return Call(None, (Await("collect", roots, ()),))


WORK = Call(0, ())


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (Program((((wait_for(1),),), ((WORK,),)), (1,), ((0, None), (1, None)), None), False),
        (Program((((wait_for(1),),), ((wait_for(0),),)), (1,), ((0, None), (1, None)), None), True),
        (Program((((wait_for(1),),), ((WORK,),)), (1,), ((0, None), (1, None)), 1), True),
        (Program((((wait_for(1),),), ((WORK,),)), (1,), ((0, "a"), (1, "a")), None), True),
        (Program((((Call(0, (Begin(1, None, waits=True),)),),), ((WORK,),)), (1,), ((0, None),), None), True),
        (Program((((Call(0, (Begin(1, None, waits=True),)),),), ((WORK,),)), (2,), ((0, None),), None), False),
        (Program((((Call(0, (Begin(1, None, waits=True),)),),), ((WORK,),)), (2,), ((0, None), (0, None)), None), True),
        (
            Program((((Call(None, (Await("first", (1, 0), ()),)),),), ((WORK,),)), (1,), ((0, None), (1, None)), None),
            False,
        ),
    ],
    ids=["no circle", "circle", "place", "conversation", "slot", "two slots", "two slots, two runs", "first"],
)
def test_the_model_knows_what_may_deadlock(program: Program, expected: bool) -> None:
    assert may_deadlock(State(program)) is expected


def test_the_model_expects_no_success_of_a_run_that_has_failed() -> None:
    waits_for_itself_or_the_other = ((Call(None, (Await("first", (0, 1), ()),)),),)
    state = State(Program((waits_for_itself_or_the_other, ((WORK,),)), (1,), ((0, None), (1, None)), None))
    assert may_deadlock(state) is False

    state.fail("r1")

    assert may_deadlock(state) is True
