"""Idle actors in a process of their own: `python -m bench.memory_process KIND ACTORS` prints the bytes each takes."""

from __future__ import annotations

import gc
import os
import queue
import re
import sys
from collections.abc import Callable

import understudy as us

from . import own, references
from .memory import STATUS


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    # man 5 proc_pid_status: `VmRSS:  1234 kB`.
    found = re.search(r"^VmRSS:\s*(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def ours(began: queue.SimpleQueue[None]) -> Callable[[int], object]:
    """Return what starts one more actor."""
    system = us.ActorSystem("bench")
    return lambda number: system.spawn(lambda: own.Announcing(began), name=f"idle-{number}")


def theirs(began: queue.SimpleQueue[None]) -> Callable[[int], object]:
    """Return what starts one more bare Pykka actor."""
    return lambda _: references.Announcing.start(began)


KINDS = {"ours": ours, "bare": theirs}


def main(arguments: list[str]) -> None:
    """Read which and how many, start them one after another, and print the bytes each takes."""
    kind, actors = arguments[0], int(arguments[1])
    began: queue.SimpleQueue[None] = queue.SimpleQueue()
    start = KINDS[kind](began)
    kept = [start(0)]  # the first actor creates shared state, which is not counted
    began.get()
    before = resident()
    for number in range(1, actors + 1):
        kept.append(start(number))
        began.get()  # one after another: starting at once, each would need a thread for a while
    gc.collect()
    print((resident() - before) / actors, flush=True)
    os._exit(0)  # skips the stop of thousands of actors


if __name__ == "__main__":
    main(sys.argv[1:])
