"""Bursts of blocking work: one thread each, and the cost of starting and waking the threads.

Each round is a process of its own, because only a new process has no threads to reuse; see `burst_process`.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import cast

from .batch import Batch, Round
from .fresh import run_python
from .measure import Measure, Side
from .sizes import Sizes

COLD = "cold: no thread is there yet"
WARM = "warm: threads of the burst before"
THREADS = "raw threads that sleep as long, always cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The work of one burst process."""

    runs: int
    """How many runs begin at once."""
    agents: int
    """How many agents the runs are dealt out to, in turn."""
    tool_calls: int
    """How many tools each of them calls in one turn."""
    nap: float
    """Seconds each tool call blocks."""
    model_nap: float
    """Seconds each model call blocks: one, and a second one after tools."""
    repeats: int
    """How often the burst is repeated with the threads of the first one."""
    as_group: bool = False
    """Whether the runs are the children of one parallel group."""


def to_arguments(burst: Burst, threads_first: bool) -> str:
    """Return the argument of a burst process."""
    return json.dumps([asdict(burst), threads_first])


def from_arguments(text: str) -> tuple[Burst, bool]:
    """Read the argument that `to_arguments` made."""
    fields, threads_first = json.loads(text)
    return Burst(**fields), bool(threads_first)


@contextmanager
def _in_processes(burst: Burst) -> Generator[Round]:
    def one_round(number: int) -> dict[str, Batch]:
        printed = run_python("-m", "bench.burst_process", to_arguments(burst, number % 2 == 1))
        batches = cast("dict[str, tuple[list[float], float, int]]", json.loads(printed))
        return {label: Batch(tuple(wall), cpu, threads) for label, (wall, cpu, threads) in batches.items()}

    yield one_round


def _runs(runs: int, agents: int, sizes: Sizes) -> AbstractContextManager[Round]:
    return _in_processes(
        Burst(runs=runs, agents=agents, tool_calls=1, nap=sizes.nap, model_nap=sizes.nap, repeats=sizes.repeats)
    )


def _tools(sizes: Sizes) -> AbstractContextManager[Round]:
    return _in_processes(
        Burst(runs=1, agents=1, tool_calls=sizes.tool_calls, nap=sizes.nap, model_nap=0.0, repeats=sizes.repeats)
    )


def _children(agents: int, sizes: Sizes) -> AbstractContextManager[Round]:
    return _in_processes(
        Burst(
            runs=sizes.many_runs,
            agents=agents,
            tool_calls=0,
            nap=0.0,
            model_nap=sizes.nap,
            repeats=sizes.repeats,
            as_group=True,
        )
    )


def _runs_title(whose: str, sizes: Sizes) -> str:
    nap = f"{sizes.nap * 1000:g} ms"
    return f"{whose} at once: model {nap}, tool {nap}, model {nap}, all blocking"


def _group_title(children: str, sizes: Sizes) -> str:
    return f"a parallel group of {children}: one model call of {sizes.nap * 1000:g} ms each, blocking"


FEW_RUNS = Measure(
    name="runs-100",
    title=lambda sizes: _runs_title(f"{sizes.few_runs:,} runs of one agent", sizes),
    ours=(Side(label=COLD, target=0.170), Side(label=WARM, target=0.170)),
    references=(Side(label=THREADS),),
    prepare=lambda sizes: _runs(sizes.few_runs, 1, sizes),
)

MANY_RUNS = Measure(
    name="runs-1000",
    title=lambda sizes: _runs_title(f"{sizes.many_runs:,} runs of one agent", sizes),
    ours=(Side(label=COLD, target_ratio=1.5), Side(label=WARM, target_ratio=1.5)),
    references=(Side(label=THREADS),),
    prepare=lambda sizes: _runs(sizes.many_runs, 1, sizes),
)

MANY_AGENTS = Measure(
    name="agents-1000",
    title=lambda sizes: _runs_title(f"{sizes.many_runs:,} agents, one run each", sizes),
    ours=(Side(label=COLD, target_ratio=1.5), Side(label=WARM, target_ratio=1.5)),
    references=(Side(label=THREADS),),
    prepare=lambda sizes: _runs(sizes.many_runs, sizes.many_runs, sizes),
)

CHILDREN = Measure(
    name="group-1000",
    title=lambda sizes: _group_title(f"{sizes.many_runs:,} children, all of one agent", sizes),
    ours=(Side(label=COLD, target_ratio=1.5), Side(label=WARM, target_ratio=1.5)),
    references=(Side(label=THREADS),),
    prepare=lambda sizes: _children(1, sizes),
)

MANY_CHILDREN = Measure(
    name="group-of-1000",
    title=lambda sizes: _group_title(f"{sizes.many_runs:,} agents", sizes),
    ours=(Side(label=COLD, target_ratio=1.5), Side(label=WARM, target_ratio=1.5)),
    references=(Side(label=THREADS),),
    prepare=lambda sizes: _children(sizes.many_runs, sizes),
)

TOOLS = Measure(
    name="tools-50",
    title=lambda sizes: f"one turn with {sizes.tool_calls} tool calls that block {sizes.nap * 1000:g} ms each",
    ours=(Side(label=COLD, target=0.060), Side(label=WARM, target=0.060)),
    references=(Side(label=THREADS),),
    prepare=_tools,
)
