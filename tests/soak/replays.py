"""Random runs whose lines are written, read again as text at many places, and compared with the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support import oracle
from tests.support.random_runs import Play

PLACES = 12
"""At how many places of each line its text is read again."""
EVERY = 100


@dataclass
class Report:
    """What became of the runs."""

    ends: Counter[str] = field(default_factory=Counter[str])
    """How a stay of a run ended -> how often."""
    kinds: Counter[str] = field(default_factory=Counter[str])
    """Kind of event -> how many."""
    lines: int = 0
    compared: int = 0
    trees: int = 0
    not_replayed: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    """The first difference of each run whose line came to another state, with the seed of its program."""


def replay_all(runs: int, seed: int, progress: Callable[[str], object]) -> Report:
    """Carry out `runs` programs, the first with this seed and each other one with the next number."""
    report = Report()
    for number in range(seed, seed + runs):
        play = Play(number)
        with oracle.installed(PLACES) as found:
            play.perform()
        report.faults += [f"seed {number}: {each}" for each in found.differences[:1]]
        report.ends += play.ends
        report.kinds += found.kinds
        report.not_replayed += found.skipped
        report.lines += len(found.lines)
        report.compared += found.compared
        report.trees += found.trees
        if (number - seed + 1) % EVERY == 0:
            progress(f"{number - seed + 1} runs replayed, of {runs}")
    return report
