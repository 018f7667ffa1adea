"""New agents made of known functions, as a web view does that makes an agent for each request."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pykka

import understudy as us

from .batch import Batch, Round, taking_turns
from .fakes import ANSWER, FIVE, talker
from .measure import Measure, Side
from .references import HandWritten
from .sizes import Sizes

FIRST = "its first run"
SECOND = "its second run"
OURS = "make the agents and their tools, run each once"
BY_HAND = "as many bare Pykka actors: start each, run the same loop by hand"

model = talker(1)


def _new(number: int) -> us.Agent[str]:
    return us.Agent(f"clerk-{number}", model=model, tools=[us.tool(each) for each in FIVE])


@contextmanager
def _two_runs(sizes: Sizes) -> Generator[Round]:
    _new(0).run("go")

    def one_round(_: int) -> dict[str, Batch]:
        first: list[float] = []
        second: list[float] = []
        gc.collect()
        for number in range(sizes.calls):
            agent = _new(number)
            began = time.perf_counter()
            agent.run("go")
            between = time.perf_counter()
            agent.run("go")
            first.append(between - began)
            second.append(time.perf_counter() - between)
        return {FIRST: Batch(tuple(first), 0.0), SECOND: Batch(tuple(second), 0.0)}

    yield one_round


def _clocked(action: Callable[[], object]) -> Batch:
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Batch((time.perf_counter() - wall,), time.process_time() - cpu)


@contextmanager
def _crowd(sizes: Sizes) -> Generator[Round]:
    _new(0).run("go")

    def ours() -> None:
        handles = [_new(number).submit("go") for number in range(sizes.many_runs)]
        assert all(handle.result().text == ANSWER for handle in handles)

    def by_hand() -> Batch:
        references: list[pykka.ActorRef[HandWritten]] = []

        def run() -> None:
            references.extend([HandWritten.start() for _ in range(sizes.many_runs)])
            answers = [each.ask(1, block=False) for each in references]
            assert all(answer.get() == ANSWER for answer in answers)

        try:
            return _clocked(run)
        finally:  # not clocked: it takes longer than all the rest
            for each in references:
                each.stop()

    yield taking_turns({OURS: lambda: _clocked(ours), BY_HAND: by_hand})


FIRST_RUN = Measure(
    name="new-agent",
    title=lambda _: "a new agent with 5 tools, made of functions that had tools before; one tool call a run",
    ours=(Side(label=FIRST, target_ratio=1.3),),
    references=(Side(label=SECOND),),
    prepare=_two_runs,
)

NEW_AGENTS = Measure(
    name="new-agents-1000",
    title=lambda sizes: f"{sizes.many_runs:,} new agents with 5 tools of their own at once, one tool call each",
    ours=(Side(label=OURS, target_ratio=1.6),),
    references=(Side(label=BY_HAND),),
    prepare=_crowd,
)
