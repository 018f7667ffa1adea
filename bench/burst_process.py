"""One round of a burst, in a process of its own: `python -m bench.burst_process ARGUMENTS` prints its batches as JSON."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable

import understudy as us

from .batch import Batch
from .bursts import COLD, THREADS, WARM, Burst, from_arguments
from .fakes import ANSWER, napping_agent
from .references import sleeping_threads


def _clocked(action: Callable[[], object]) -> Batch:
    gc.collect()
    before, cpu, wall = threading.active_count(), time.process_time(), time.perf_counter()
    action()
    took = time.perf_counter() - wall
    return Batch((took,), time.process_time() - cpu, threading.active_count() - before)


def _joined(batches: list[Batch]) -> Batch:
    wall = tuple([second for batch in batches for second in batch.wall])
    cpu = sum(batch.cpu for batch in batches) / len(batches)
    return Batch(wall, cpu, max(batch.threads for batch in batches))


def take(burst: Burst, threads_first: bool) -> dict[str, Batch]:
    """Take the batches of all sides: bursts of ours and of raw threads, one after the other."""
    agents = [napping_agent(burst.nap, burst.model_nap, burst.tool_calls) for _ in range(burst.agents)]
    # Imports, schemas and the first threads: `first` measures those.
    napping_agent(0.0, 0.0, 1).run("go")
    for agent in agents:
        us.RunSpec.of(agent)
    us.ParallelAgent("first", agents[:1]).fingerprint()

    panel = us.ParallelAgent("panel", [agents[number % burst.agents] for number in range(burst.runs)])

    def group() -> None:
        answers = json.loads(panel.run("go").combined_text or "")
        assert answers == [ANSWER] * burst.runs

    def runs() -> None:
        handles = [agents[number % burst.agents].submit("go") for number in range(burst.runs)]
        assert all(handle.result().text == ANSWER for handle in handles)

    def threads() -> None:
        model_calls = 2 if burst.tool_calls else 1
        naps = [burst.nap] * bool(burst.tool_calls) + [burst.model_nap] * (model_calls if burst.model_nap else 0)
        sleeping_threads(burst.runs * max(1, burst.tool_calls), naps)

    ours: list[Batch] = []
    theirs: list[Batch] = []
    for _ in range(burst.repeats + 1):
        if threads_first:
            theirs.append(_clocked(threads))
        ours.append(_clocked(group if burst.as_group else runs))
        if not threads_first:
            theirs.append(_clocked(threads))
    return {COLD: ours[0], WARM: _joined(ours[1:]), THREADS: _joined(theirs)}


def main(arguments: list[str]) -> None:
    """Read what to do, do it, and print label -> [wall seconds, processor seconds, threads]."""
    batches = take(*from_arguments(arguments[0]))
    print(json.dumps({label: [batch.wall, batch.cpu, batch.threads] for label, batch in batches.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
