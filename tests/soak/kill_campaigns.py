"""Campaigns of kills at each write, at instants and in crash loops, of orderly stops, and of stores that go away."""

from __future__ import annotations

import os
import pickle
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .kill_cast import SCENARIOS, Scenario
from .kills import STOPS, Death, Moment, Report, Stop, Trials
from .outages import POSTGRES_KINDS, SQLITE_KINDS

DEPTH = 20  # Processes that are killed one after another while they go on.
PACE = 0.05  # Seconds that a turn of a model and a call of a tool take where kills and stops come by chance.
SOON = 0.25  # Seconds after recover() within which a process of a crash loop is killed.
LATE = 10.0  # Seconds after which a process is killed that does not come to its deadly write.
LOOP = 3  # Processes of a crash loop that are killed while they go on.
GRACES = (0.0, 0.05, 0.3, 1.0, 5.0)  # Seconds for runs to end when a system is stopped.
OUTAGE = 1.0, 20.0  # Seconds: the shortest and the longest.


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


def crash_loops(progress: Callable[[str], object], *, trials: int, url: str = "", seed: int = 0) -> Report:
    """Kill a process, and then three, one after another, within 250 ms of their `recover()`; so many times.

    Most deaths are at a write: what may be lost between two writes is there for less than a millisecond.

    Args:
        progress: told of each trial with a fault.
        trials: how many. The first one has the seed, and each its own, one more than the one before.
        url: of a PostgreSQL database; empty for SQLite.
        seed: of what is left to chance.
    """

    def crash(all_: Trials, scenario: Scenario, chance: random.Random) -> None:
        if chance.random() < 0.4:  # where most can be lost
            scenario = chance.choice([each for each in SCENARIOS if each.waits])
        seconds, writes = scenario.seconds(PACE), 2 * scenario.turns * scenario.runs
        first = _death(chance, seconds, writes)
        if scenario.waits and chance.random() < 0.6:
            first = Death(LATE, at_pause=True)
        all_.crash(scenario, first, [_death(chance, SOON, 5) for _ in range(LOOP)])

    return _at_once(3, crash, progress, trials, url, seed)


def _death(chance: random.Random, seconds: float, writes: int) -> Death:
    """Return an instant within some seconds, or one of the first writes."""
    if chance.random() < 0.4:
        return Death(chance.uniform(0.0, seconds))
    return Death(LATE, chance.randint(1, writes))


def stops(progress: Callable[[str], object], *, trials: int, url: str = "", seed: int = 0) -> Report:
    """Stop a process in order at an instant by chance, and maybe some that go on; so many times. Else as `crash_loops`."""

    def stop(all_: Trials, scenario: Scenario, chance: random.Random) -> None:
        longest = scenario.seconds(PACE)
        made = [
            Stop(chance.choice(STOPS), chance.uniform(0.0, longest), chance.choice(GRACES))
            for _ in range(chance.choice((1, 1, 2, 3)))
        ]
        all_.stop(scenario, made)

    return _at_once(3, stop, progress, trials, url, seed)


def outages(
    progress: Callable[[str], object],
    *,
    trials: int,
    url: str = "",
    seed: int = 0,
    between: tuple[float, float] = OUTAGE,
) -> Report:
    """Have the store go away at a write by chance, of a run that begins or that is taken over; so many times.

    Args:
        progress: told of each trial with a fault.
        trials: how many. The first one has the seed, and each its own, one more than the one before.
        url: of a PostgreSQL database; empty for SQLite.
        seed: of what is left to chance.
        between: seconds that each is away.
    """

    def lose_store(all_: Trials, scenario: Scenario, chance: random.Random) -> None:
        kind = chance.choice(POSTGRES_KINDS if url else SQLITE_KINDS)
        write = chance.randint(1, 2 * scenario.turns * scenario.runs + 2)
        killed_after = chance.uniform(0.0, scenario.seconds(PACE)) if chance.random() < 0.4 else None
        moment = Moment(write if killed_after is None else chance.randint(1, 8), chance.random() < 0.5, killed_after)
        all_.lose_store(scenario, kind, moment, chance.uniform(*between), stays=chance.random() < 0.5)

    return _at_once(8, lose_store, progress, trials, url, seed)


def readers(progress: Callable[[str], object], *, trials: int, url: str = "", seed: int = 0) -> Report:
    """Kill processes while readers of their runs go away and come back, one of them in the same process; so many times.

    Else as `crash_loops`.
    """

    def read(all_: Trials, scenario: Scenario, chance: random.Random) -> None:
        if scenario.is_map:  # has no events
            scenario = SCENARIOS[0]
        longest = scenario.seconds(PACE)
        all_.read(scenario, [chance.uniform(0.0, longest) for _ in range(chance.randint(1, 3))], 2)

    return _at_once(2, read, progress, trials, url, seed)


def _at_once(
    workers: int,
    do: Callable[[Trials, Scenario, random.Random], object],
    progress: Callable[[str], object],
    trials: int,
    url: str,
    seed: int,
) -> Report:
    """Make trials in so many processes at the same time, and return what became of all of them."""
    total, began = Report(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="understudy-soak-", ignore_cleanup_errors=True) as folder:
        files = [Path(folder) / f"worker-{number}" for number in range(min(workers, trials))]
        seeds = range(seed, seed + trials)
        pids = [_worker(file, do, progress, url, seeds[number :: len(files)]) for number, file in enumerate(files)]
        for pid, file in zip(pids, files, strict=True):
            os.waitpid(pid, 0)
            total.add(pickle.loads(file.with_suffix(".report").read_bytes()))
    total.seconds = time.perf_counter() - began
    return total


def _worker(
    folder: Path,
    do: Callable[[Trials, Scenario, random.Random], object],
    progress: Callable[[str], object],
    url: str,
    seeds: Sequence[int],
) -> int:
    """Make trials in a forked child, and write what became of them into a file; returns the number of the child."""
    pid = os.fork()
    if pid:
        return pid
    report = Report()
    try:
        all_ = Trials(folder, url, seeds[0], PACE)
        report = all_.report
        for each in seeds:
            chance, before = all_.seeded(each), len(report.faults)
            do(all_, chance.choice(SCENARIOS), chance)
            report.faults[before:] = [f"seed {each}: {fault}" for fault in report.faults[before:]]
            for fault in report.faults[before:]:
                progress(fault)
    except BaseException:  # noqa: BLE001 (told by the report)
        report.faults.append(f"a worker failed: {traceback.format_exc()}")
    finally:
        folder.with_suffix(".report").write_bytes(pickle.dumps(report))
        os._exit(0)
