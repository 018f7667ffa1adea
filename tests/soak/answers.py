"""How soon a run answers a cancel and its deadline while its model, a tool, a run inside or a callback hangs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import understudy as us
from bench.endings import LIMIT, after_cancel, after_deadline
from bench.fakes import ANSWER
from bench.holding import Situation
from bench.situations import Gated, OneTool
from understudy.actors.threads.pool import forget_threads
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.runs.callbacks import AgentCallback, CallbackAction

PATIENCE = 0.05  # Seconds to a deadline; enough for a run to be held by then.


class Model(Gated):
    """A model that does not answer."""

    name = "a model"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        return us.Agent("clerk", model=FunctionModel(lambda _: says(self.gate.hold())))


class Within(Gated):
    """A sub-agent whose model does not answer."""

    name = "a sub-agent"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        inner = us.Agent("inner", model=FunctionModel(lambda _: says(self.gate.hold())), description="Helps.")
        lead = FunctionModel(lambda request: calls("inner", input="go") if request.turn == 1 else says(ANSWER))
        return us.Agent("lead", model=lead, sub_agents=[inner])


class Member(Gated):
    """A group of a group whose member does not come to its end."""

    name = "a member"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        return us.Agent("clerk", model=FunctionModel(lambda _: says(self.gate.hold())))

    def submit(self, timeout: float | None = None) -> us.RunHandle[str]:
        group = us.SequentialAgent("steps", [us.ParallelAgent("desk", [self.agent])])
        return cast("us.RunHandle[str]", group.submit("go", system=self.system, timeout=timeout))


class Holding(AgentCallback):
    """Does not come back."""

    def __init__(self, hold: Callable[[], object]) -> None:
        self._hold = hold

    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> CallbackAction:
        self._hold()
        return us.Continue()


class Callback(Gated):
    """A callback that does not come back."""

    name = "a callback"
    hangs = 1

    def make_agent(self) -> us.Agent[str]:
        return us.Agent("clerk", model=FunctionModel(lambda _: says(ANSWER)), callbacks=[Holding(self.gate.hold)])


HANGING: tuple[type[Situation], ...] = (Model, OneTool, Within, Member, Callback)


class Times(NamedTuple):
    """How long answers took, in seconds."""

    middle: float
    late: float
    """Of a hundred answers, 99 took no longer."""
    longest: float
    in_time: int
    """How many came within the 50 ms that people do not notice."""
    answers: int


def time_answers(answers: int) -> dict[tuple[str, str], Times]:
    """Have each kind of run answer so many times to a cancel, and as often to its deadline.

    Returns:
        (what hangs, what ends the run) -> the times, from the cancel or the deadline to the answer in a thread that waits.
    """
    found: dict[tuple[str, str], Times] = {}
    ways: dict[str, Callable[[Situation], float]] = {
        "cancel": after_cancel,
        "deadline": partial(after_deadline, timeout=PATIENCE),
    }
    for kind in HANGING:
        for way, sample in ways.items():
            with kind() as situation:
                sample(situation)  # imports, threads
                found[kind.name, way] = _times(sorted([sample(situation) for _ in range(answers)]))
    return found


def _times(seconds: list[float]) -> Times:
    number = len(seconds)
    in_time = sum(each <= LIMIT for each in seconds)
    return Times(seconds[number // 2], seconds[(number * 99 - 1) // 100], seconds[-1], in_time, number)


def bytes_of_waiting_run(runs: int) -> int:
    """Return the bytes of Python's memory that a run takes while its model hangs, those of its thread's stack not counted."""
    forget_threads()  # what parked ones take would not be counted
    with Model() as situation:
        warm = [situation.submit() for _ in range(4)]  # imports, caches
        assert situation.held(len(warm))
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            handles = [situation.submit() for _ in range(runs)]
            assert situation.held(len(handles))
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) // runs
        finally:
            tracemalloc.stop()
