"""What a process holds at one moment, and how one tells that it holds no more than before."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support import oracle
from tests.support.scripts import eventually
from understudy.actors.threads import pool

FILES = Path("/proc/self/fd")
STATUS = Path("/proc/self/status")
NOT_COUNTED = (
    "understudy.actors.threads.pool",
    "understudy.actors.runs.watchdog",
    "understudy.actors.threads.alarms",
)
"""Modules of objects that come and go with threads: parked ones for a burst's sake, and the watchdog's errands. An alarm that
was called off is kept until its time, at most some dozens, and what others refer to is counted itself."""
WATCHES = ("understudy-watchdog", "understudy-clockwork")
"""Names of threads that are not counted: each ends by itself when there is no run or alarm left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Threads, files and objects of this process."""

    threads: int
    """Those that are at work; parked ones are kept for the next burst, and end by themselves."""
    files: int
    """Sockets included; 0 where the system does not tell."""
    objects: Mapping[str, int]
    """Living objects of understudy's classes, by class."""
    tracked: int
    """All living objects that the garbage collector knows, other libraries' caches included; told, and held to nothing."""
    memory: int
    """Bytes in use; 0 where the system does not tell. Seldom given back, so it is told and not held to anything."""

    @classmethod
    def now(cls) -> Self:
        """Measure, after a garbage collection and without the lines that an oracle has heard."""
        for each in list(oracle.ALL):
            each.settle()
        gc.collect()
        watching = sum(thread.name in WATCHES for thread in threading.enumerate())
        return cls(
            threads=threading.active_count() - pool.pool.idle - watching,
            files=len(list(FILES.iterdir())) if FILES.exists() else 0,
            objects=_objects(),
            tracked=len(gc.get_objects()),
            memory=_memory(),
        )

    def beyond(self, before: Footprint) -> dict[str, int]:
        """Return what there is more of than there was, and how much more."""
        more = Counter(self.objects)
        more.subtract(before.objects)
        more["threads"] = self.threads - before.threads
        more["files"] = self.files - before.files
        return {what: number for what, number in sorted(more.items()) if number > 0}


def at_rest() -> Footprint:
    """Wait until nothing comes or goes any more, and return what there is; what is about to go is no measure."""
    footprints = [Footprint.now()]

    def is_at_rest() -> bool:
        footprints.append(Footprint.now())
        one, other = footprints[-2:]
        return not one.beyond(other) and not other.beyond(one)

    eventually(lambda: is_at_rest() and is_at_rest() and is_at_rest(), "at rest")
    return footprints[-1]


def _objects() -> Counter[str]:
    kinds: list[type] = [type(each) for each in gc.get_objects()]
    return Counter([kind.__qualname__ for kind in kinds if _is_counted(kind.__module__)])


def _is_counted(module: object) -> bool:
    # Of a class that other code has made, it may be anything.
    return isinstance(module, str) and module.startswith("understudy") and module not in NOT_COUNTED


def _memory() -> int:
    if not STATUS.exists():
        return 0
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def back_to(before: Footprint) -> Footprint:
    """Wait until there is no more of anything than there was; threads that were let go need a moment to park.

    Raises:
        AssertionError: there is; it says what, and how much.
    """
    now = Footprint.now()

    def is_back() -> bool:
        nonlocal now
        now = Footprint.now()
        return not now.beyond(before)

    try:
        eventually(is_back, "as little as before")
    except AssertionError:
        raise AssertionError(f"more than before: {now.beyond(before)}") from None
    return now
