"""Inner runs: the time until a group has the first success, and a workflow's time next to its longest path."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial

import understudy as us
from understudy import FunctionModel, ModelRequest, ModelTurn, says

from .batch import Batch, Round, timed, timing_itself, warmed
from .endings import LIMIT
from .fakes import ANSWER
from .holding import PATIENCE
from .measure import Measure, Side
from .sizes import Sizes

RACE = 'ParallelAgent(merge="first").run'
FUTURES = "concurrent.futures.wait(FIRST_COMPLETED), as many raw threads"
WORKFLOW = "Workflow.run"
LONGEST = "one thread that sleeps through the longest way"
SEED = 20_240_229
NO_WAY: tuple[float, list[float]] = (0.0, [])
NEAR = 50  # A task depends on some of the last 50 tasks, which makes the graph wide and deep.


class Race:
    """A group with one child that answers on a signal; the others wait until it has won."""

    def __init__(self, children: int) -> None:
        self._began = threading.Semaphore(0)
        self._won = 0.0
        self._start, self._over = threading.Event(), threading.Event()
        losers = [us.Agent(f"loser-{n}", model=FunctionModel(self._lose)) for n in range(1, children)]
        winner = us.Agent("winner", model=FunctionModel(self._win))
        self._children = children
        self._group = us.ParallelAgent("race", [*losers, winner], merge="first")

    def _win(self, _: ModelRequest) -> ModelTurn:
        self._began.release()
        self._start.wait(PATIENCE)
        self._won = time.perf_counter()
        return says(ANSWER)

    def _lose(self, _: ModelRequest) -> ModelTurn:
        self._began.release()
        self._over.wait(PATIENCE)
        return says("late")

    def sample(self, system: us.ActorSystem) -> float:
        """Return the time from the winner's answer to the group's answer, in the waiting thread."""
        self._start.clear()
        self._over.clear()
        starter = threading.Thread(target=self._start_when_all_wait, name="bench-starter", daemon=True)
        starter.start()
        assert self._group.run("go", system=system).text == ANSWER
        ended = time.perf_counter()
        self._over.set()
        starter.join()
        latest = time.monotonic() + PATIENCE
        while system.hung:  # wait for the losers' threads before the next sample
            assert time.monotonic() < latest, f"{system.hung} calls hang"
            time.sleep(0.001)
        return ended - self._won

    def _start_when_all_wait(self) -> None:
        for _ in range(self._children):
            self._began.acquire(timeout=PATIENCE)
        self._start.set()


def _first_of_futures(children: int) -> float:
    start, over = threading.Event(), threading.Event()
    futures: list[Future[float]] = [Future() for _ in range(children)]

    def end(future: Future[float], gate: threading.Event) -> None:
        gate.wait(PATIENCE)
        future.set_result(time.perf_counter())

    gates = [over] * (children - 1) + [start]
    threads = [threading.Thread(target=end, args=each, daemon=True) for each in zip(futures, gates, strict=True)]
    for thread in threads:
        thread.start()
    threading.Timer(0.005, start.set).start()  # when the one who waits does so
    (won,) = wait(futures, return_when=FIRST_COMPLETED).done
    ended = time.perf_counter()
    over.set()
    for thread in threads:
        thread.join()
    return ended - won.result()


@contextmanager
def _race(sizes: Sizes) -> Generator[Round]:
    race = Race(sizes.few_runs)
    with us.ActorSystem("bench") as system:
        yield warmed(
            {
                RACE: partial(timing_itself, partial(race.sample, system)),
                FUTURES: partial(timing_itself, partial(_first_of_futures, sizes.few_runs)),
            },
            sizes.samples,
        )


class RandomGraph:
    """A workflow of sleeping tasks, each of which depends on up to three before it.

    Args:
        tasks: how many.
        nap: seconds that one sleeps at most.

    Attributes:
        longest: total of the naps on the longest path, in seconds.
    """

    def __init__(self, tasks: int, nap: float) -> None:
        choose = random.Random(SEED)
        ways: list[tuple[float, list[float]]] = []
        made: list[us.Task] = []
        for number in range(tasks):
            near = range(max(0, number - NEAR), number)
            needs = choose.sample(near, min(len(near), choose.randint(0, 3)))
            length = choose.uniform(0.2, 1.0) * nap
            seconds, naps = max([ways[each] for each in needs] or [NO_WAY])
            ways.append((seconds + length, [*naps, length]))
            agent = us.Agent(f"sleeper-{number}", model=FunctionModel(partial(_sleep, length)))
            made.append(us.Task(f"t{number}", agent, prompt="go", dependencies=[f"t{each}" for each in needs]))
        self.workflow = us.Workflow("graph", tasks=made)
        self.longest: list[float] = max(ways)[1]

    def run(self) -> None:
        """Run it to its end."""
        outcome = self.workflow.run()
        assert all(task.text == ANSWER for task in outcome.tasks.values())

    def sleep(self) -> None:
        """Only sleep, for as long as the longest path."""
        for length in self.longest:
            time.sleep(length)


def _sleep(seconds: float, _: ModelRequest) -> ModelTurn:
    time.sleep(seconds)
    return says(ANSWER)


@contextmanager
def _graph(sizes: Sizes) -> Generator[Round]:
    graph = RandomGraph(sizes.many_runs, sizes.nap)
    graph.run()  # schemas, fingerprints and threads are paid for
    yield _one_of_each(graph)


def _one_of_each(graph: RandomGraph) -> Round:
    def one_round(number: int) -> dict[str, Batch]:
        sides = [(WORKFLOW, graph.run), (LONGEST, graph.sleep)]
        return {label: timed(action, 1) for label, action in (reversed(sides) if number % 2 else sides)}

    return one_round


FIRST_SUCCESS = Measure(
    name="first-100",
    title=lambda sizes: (
        f"from the first of {sizes.few_runs} children to succeed to the answer of their group; the others block on"
    ),
    ours=(Side(label=RACE, target=LIMIT),),
    references=(Side(label=FUTURES),),
    prepare=_race,
)

GRAPH = Measure(
    name="graph-1000",
    title=lambda sizes: (
        f"a workflow of {sizes.many_runs:,} tasks in random shape, each blocking up to {sizes.nap * 1000:g} ms"
    ),
    ours=(Side(label=WORKFLOW, target_ratio=1.2),),
    references=(Side(label=LONGEST),),
    prepare=_graph,
)
