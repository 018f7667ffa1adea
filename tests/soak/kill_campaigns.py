"""Campaigns of kills: at each write of each scenario, at instants by chance, and of fresh interpreters."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .kill_cast import SCENARIOS, Scenario
from .kills import Report, Trials

DEPTH = 20  # Processes that are killed one after another while they go on.


@contextmanager
def _trials(url: str, seed: int) -> Generator[Trials]:
    with tempfile.TemporaryDirectory(prefix="understudy-soak-", ignore_cleanup_errors=True) as folder:
        trials, began = Trials(Path(folder), url, seed), time.perf_counter()
        yield trials
        trials.report.seconds = time.perf_counter() - began


def kill_all(
    progress: Callable[[str], object],
    *,
    trials: int | None = None,
    url: str = "",
    seed: int = 0,
    depth: int = DEPTH,
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> Report:
    """Kill a process before and after each write of each scenario, then inside of recoveries.

    Args:
        progress: told of each scenario.
        trials: how many there are at most, chosen by the seed; None for all.
        url: of a PostgreSQL database; empty for SQLite.
        seed: of what is left to chance.
        depth: how many processes are killed one after another that go on with one run.
        scenarios: which ones.
    """
    chance = random.Random(seed)
    with _trials(url, seed) as all_:
        writes = {each.name: all_.length_of(each)[0] for each in scenarios}
        points = [
            (each, n, before) for each in scenarios for n in range(1, writes[each.name] + 1) for before in (True, False)
        ]
        if trials is not None:
            points = chance.sample(points, min(trials, len(points)))
        points.sort(key=lambda point: point[0].name)
        for number, (scenario, deadly, before) in enumerate(points):
            all_.kill_at(scenario, deadly, before=before)
            if (number + 1) % 50 == 0:
                progress(f"{number + 1} trials of {len(points)}, {len(all_.report.faults)} faults")
        for each in scenarios if trials is None else chance.sample(list(scenarios), 1):
            all_.kill_deep(each, writes[each.name], depth)
    return all_.report


def kill_at_instants(progress: Callable[[str], object], *, trials: int, url: str = "", seed: int = 0) -> Report:
    """Kill a process at an instant by chance, so many times, and every other time one that goes on too.

    Args:
        progress: told of every hundredth.
        trials: how many.
        url: of a PostgreSQL database; empty for SQLite.
        seed: of what is left to chance.
    """
    chance = random.Random(seed)
    with _trials(url, seed) as all_:
        seconds = {each.name: all_.length_of(each)[1] for each in SCENARIOS}
        for number in range(trials):
            scenario = SCENARIOS[number % len(SCENARIOS)]
            whole = seconds[scenario.name]
            times = [chance.uniform(0.0, whole), chance.uniform(0.0, whole)]
            all_.kill_after(scenario, times[: 1 + number % 2])
            if (number + 1) % 100 == 0:
                progress(f"{number + 1} trials of {trials}, {len(all_.report.faults)} faults")
    return all_.report


def kill_fresh(progress: Callable[[str], object], *, trials: int, url: str = "", seed: int = 0) -> Report:
    """Kill a fresh interpreter at a write by chance, so many times; another one goes on. Else as `kill_at_instants`."""
    chance = random.Random(seed)
    with _trials(url, seed) as all_:
        writes = {each.name: all_.length_of(each)[0] for each in SCENARIOS}
        for number in range(trials):
            scenario = SCENARIOS[number % len(SCENARIOS)]
            all_.kill_fresh(scenario, chance.randint(1, writes[scenario.name]), before=chance.random() < 0.5)
            if (number + 1) % 10 == 0:
                progress(f"{number + 1} trials of {trials}, {len(all_.report.faults)} faults")
    return all_.report
