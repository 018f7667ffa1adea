"""The memory of an idle user's actor, next to a bare Pykka actor, which also keeps a thread.

Each sample is a process of its own, because freed memory is seldom returned to the system; see `memory_process`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from .batch import Batch, Round, taking_turns
from .fresh import run_python
from .measure import Measure, Side
from .sizes import Sizes

STATUS = Path("/proc/self/status")
"""Linux's file with the memory of a process; on other systems these measures are left out."""

OURS = "an actor without messages"
BARE = "a bare Pykka actor without messages"


def _sample(kind: str, actors: int) -> Batch:
    return Batch((float(run_python("-m", "bench.memory_process", kind, str(actors))),), 0.0)


@contextmanager
def _idle(actors: int) -> Generator[Round]:
    yield taking_turns({OURS: partial(_sample, "ours", actors), BARE: partial(_sample, "bare", actors)})


def _few(sizes: Sizes) -> AbstractContextManager[Round]:
    return _idle(sizes.few_actors)


def _many(sizes: Sizes) -> AbstractContextManager[Round]:
    return _idle(sizes.many_actors)


FEW_ACTORS = Measure(
    name="rss-1000",
    title=lambda sizes: f"memory in use, divided by {sizes.few_actors:,} idle actors",
    ours=(Side(label=OURS),),
    references=(Side(label=BARE),),
    prepare=_few,
    unit="bytes",
)

MANY_ACTORS = Measure(
    name="rss-10000",
    title=lambda sizes: f"memory in use, divided by {sizes.many_actors:,} idle actors",
    ours=(Side(label=OURS),),
    references=(Side(label=BARE),),
    prepare=_many,
    unit="bytes",
)

MEASURES = (FEW_ACTORS, MANY_ACTORS) if STATUS.exists() else ()
