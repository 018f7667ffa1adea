"""Samples of a measure, taken in rounds over all sides, so that noise affects every side equally."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Batch:
    """Some samples taken one right after another."""

    wall: tuple[float, ...]
    """Seconds each took by the clock on the wall; bytes, where the measure's unit is bytes."""
    cpu: float
    """Mean processor seconds of a sample, over all threads of the process; 0 if not measured."""
    threads: int = 0
    """Threads started during the batch; 0 if not measured."""


Round: TypeAlias = Callable[[int], Mapping[str, Batch]]
"""Takes one batch of every side; the argument is the round's number, from 0. Side's label -> its batch."""

Sampler: TypeAlias = Callable[[], Batch]


def timed(action: Callable[[], object], calls: int) -> Batch:
    """Call `action` `calls` times; each call is a sample."""
    wall: list[float] = []
    gc.collect()  # so that this batch does not pay for the garbage of an earlier one
    cpu = time.process_time()
    for _ in range(calls):
        began = time.perf_counter()
        action()
        wall.append(time.perf_counter() - began)
    return Batch(tuple(wall), (time.process_time() - cpu) / calls)


def timing_itself(action: Callable[[], float], calls: int) -> Batch:
    """Call `action` `calls` times; it returns its own sample, because it does more than the timed work."""
    gc.collect()
    return Batch(tuple([action() for _ in range(calls)]), 0.0)


def taking_turns(sides: Mapping[str, Sampler]) -> Round:
    """Return a round that takes a batch of each side; every second round goes backwards."""

    def one_round(number: int) -> dict[str, Batch]:
        order = list(sides.items())
        if number % 2 == 1:
            order.reverse()
        return {label: sampler() for label, sampler in order}

    return one_round


def warmed(sides: Mapping[str, Callable[[int], Batch]], calls: int) -> Round:
    """Take some samples of every side, so that imports, schemas and threads are paid for, and return the round."""
    for sample in sides.values():
        sample(calls // 10 + 1)
    return taking_turns({label: partial(sample, calls) for label, sample in sides.items()})
