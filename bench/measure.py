"""A measure: the compared sides, their targets, and the figures of a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from .batch import Batch, Round
from .sizes import Sizes

Unit: TypeAlias = Literal["seconds", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One line of a measure."""

    label: str
    target: float | None = None
    """Target of the median in seconds; None for no target."""
    target_ratio: float | None = None
    """Target of the ratio to the first reference; None for no target."""
    target_p99: float | None = None
    """Target of the 99th percentile in seconds (of all samples, if there are up to a hundred); None for no target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measurement of the program."""

    name: str
    """The name that `--only` takes."""
    title: Callable[[Sizes], str]
    ours: tuple[Side, ...]
    references: tuple[Side, ...]
    """The first one is the unit of the ratios."""
    prepare: Callable[[Sizes], AbstractContextManager[Round]]
    """Sets everything up, and takes it down afterwards; the labels of its rounds are those of the sides."""
    unit: Unit = "seconds"
    """The unit of a sample."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Return all lines in the order in which they are shown."""
        return self.ours + self.references


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one side."""

    measure: str
    label: str
    is_reference: bool
    unit: Unit
    """The unit of `median`, `p10` and `p99`; `cpu` and `target` are in seconds."""
    median: float
    p10: float
    p99: float
    cpu: float
    ratio: float
    """Times the first reference: the median over the rounds of what each round alone gives."""
    threads: int
    samples: int
    target: float | None
    target_ratio: float | None
    target_p99: float | None

    @property
    def missed(self) -> bool:
        """Whether there is a target and the median, the ratio or the p99 is beyond it."""
        too_long = self.target is not None and self.median > self.target
        too_many = self.target_ratio is not None and self.ratio > self.target_ratio
        too_late = self.target_p99 is not None and self.p99 > self.target_p99
        return too_long or too_many or too_late


def take(measure: Measure, sizes: Sizes, progress: Callable[[int], object]) -> list[Figures]:
    """Measure all sides, round after round, and return their figures in the order of `measure.sides`.

    Args:
        measure: what to measure.
        sizes: how much of it.
        progress: called with each round's number, from 1, before it begins.
    """
    rounds: list[Mapping[str, Batch]] = []
    with measure.prepare(sizes) as one_round:
        for number in range(sizes.rounds):
            progress(number + 1)
            rounds.append(one_round(number))
    return [_figures(measure, side, rounds, sizes) for side in measure.sides]


def _figures(measure: Measure, side: Side, rounds: Sequence[Mapping[str, Batch]], sizes: Sizes) -> Figures:
    unit = measure.references[0].label
    batches = [batches[side.label] for batches in rounds]
    wall = sorted(second for batch in batches for second in batch.wall)
    return Figures(
        measure=measure.name,
        label=side.label,
        is_reference=side in measure.references,
        unit=measure.unit,
        median=median(wall),
        p10=_quantile(wall, 0.10),
        p99=_quantile(wall, 0.99),
        cpu=median(batch.cpu for batch in batches),
        ratio=median(median(batches[side.label].wall) / median(batches[unit].wall) for batches in rounds),
        threads=max(batch.threads for batch in batches),
        samples=len(wall),
        # The targets are for the full sizes.
        target=None if sizes.quick else side.target,
        target_ratio=None if sizes.quick else side.target_ratio,
        target_p99=None if sizes.quick else side.target_p99,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie, by the nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
