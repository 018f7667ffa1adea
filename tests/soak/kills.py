"""Processes that are killed before and after each of their writes, and runs that others go on with."""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.deadly import DeadlyDatabase
from understudy.actors.stores.database import Database
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store

from .kill_cast import SCENARIOS, Notes, Scenario
from .kill_play import MADE, Play

BOUND = 60  # Seconds after which a process that hangs is ended.
DEPTH = 20  # Processes that are killed one after another while they go on.
SOON = (1, 1, 1, 1, 2, 2, 3, 4)
"""The writes at which they are killed: late enough to get on, and early enough to get on 20 times."""


@dataclass
class Report:
    """What became of the trials."""

    trials: int = 0
    kills: int = 0
    seconds: float = 0.0
    untold: int = 0
    """Pauses that stood in the store, and whose process died before it told them."""
    kinds: Counter[str] = field(default_factory=Counter[str])
    """Kills by scenario."""
    faults: list[str] = field(default_factory=list[str])


class Trials:
    """Trials in one kind of store.

    Args:
        folder: for files.
        url: of a PostgreSQL database; empty for an SQLite file for each trial.
        seed: of the kills inside of recoveries.
    """

    def __init__(self, folder: Path, url: str = "", seed: int = 0) -> None:
        self._folder = folder
        self._url = url
        self._chance = random.Random(seed)
        self._template = folder / "template.db"
        self.report = Report()
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        _in_child(self._make_tables, folder / "template")
        self._warm_up()

    def _make_tables(self) -> None:
        database = self._database(self._template)
        Store(database)
        database.write(lambda sql: sql.execute(MADE))

    def _warm_up(self) -> None:
        """Play in this process, which imports all that a trial needs: its children need not."""
        trial = self._trial(SCENARIOS[0])
        for again in (False, True):
            play = trial.begun(0, before=True)
            play.go_on(waits=False) if again else play.begin()
            play.system.stop()

    def _database(self, path: Path) -> Database:
        if self._url:
            from understudy.actors.stores.postgres.database import PostgresDatabase

            return PostgresDatabase(self._url)
        return SQLiteDatabase(str(path))

    def writes_of(self, scenario: Scenario) -> int:
        """Return how many writes a scenario has that nobody kills."""
        trial = self._trial(scenario)
        trial.play(0, before=True)
        writes = trial.notes.all("writes")
        faults = trial.end()
        assert not faults, f"{scenario.name}, which nobody kills: {faults}"
        return int(writes[0]["count"])

    def kill_at(self, scenario: Scenario, deadly: int, *, before: bool, recoveries: Sequence[int] = ()) -> None:
        """Kill a process at one write, and then each of some that go on; the last one goes on to the end."""
        trial = self._trial(scenario)
        kills = int(trial.play(deadly, before=before))
        for each in recoveries:
            kills += int(trial.recover(each, before=self._chance.random() < 0.5))
        trial.recover(0, before=True)
        self.report.untold += len(trial.notes.all("untold"))
        faults = trial.end()
        where = f"{scenario.name}, killed {'before' if before else 'after'} write {deadly}, then at {list(recoveries)}"
        self.report.faults += [f"{where}: {each}" for each in faults]
        self.report.kills += kills
        self.report.kinds[scenario.name] += kills

    def kill_deep(self, scenario: Scenario, writes: int, depth: int) -> None:
        """Kill a process somewhere, and then so many that recover its run, each at one of its first writes."""
        deadly, before = self._chance.randint(1, writes), self._chance.random() < 0.5
        recoveries = [self._chance.choice(SOON) for _ in range(depth)]
        self.kill_at(scenario, deadly, before=before, recoveries=recoveries)

    def _trial(self, scenario: Scenario) -> Trial:
        self.report.trials += 1
        folder = self._folder / f"{self.report.trials}"
        folder.mkdir()
        path = folder / "runs.db"
        if not self._url:
            for each in ("", "-wal"):
                if (made := self._template.with_name(f"template.db{each}")).exists():
                    shutil.copy(made, folder / f"runs.db{each}")
        app = f"kills{os.getpid()}x{self.report.trials}"
        return Trial(scenario, app, folder, lambda: self._database(path), waits=bool(self._url))


class Trial:
    """One scenario, from its beginning to its end in as many processes as it takes.

    Args:
        scenario: what is played.
        app: the name of the system.
        folder: for notes.
        database: opens the store.
        waits: whether the store may take a moment to notice that a process is dead.
    """

    def __init__(
        self, scenario: Scenario, app: str, folder: Path, database: Callable[[], Database], *, waits: bool
    ) -> None:
        self._scenario = scenario
        self._app = app
        self._folder = folder
        self._database = database
        self._waits = waits
        self.notes = Notes(folder / "notes")

    def play(self, deadly: int, *, before: bool) -> bool:
        """Play the scenario in a process that may be killed; returns whether it was."""

        def do() -> None:
            play = self.begun(deadly, before=before)
            play.begin()
            self.notes.add("writes", count=play.database.writes)

        return _in_child(do, self._folder / "played")

    def recover(self, deadly: int, *, before: bool) -> bool:
        """Go on in a process that may be killed; returns whether it was. If not, all is done and checked."""

        def do() -> None:
            play = self.begun(deadly, before=before)
            play.go_on(waits=self._waits)
            play.database.deadly = 0
            if not deadly:
                play.check_end()

        return _in_child(do, self._folder / "recovered")

    def begun(self, deadly: int, *, before: bool) -> Play:
        """Begin a system in this process."""
        database = DeadlyDatabase(self._database())
        play = Play(self._scenario, self._app, database, self.notes)
        database.writes, database.deadly, database.before = 0, deadly, before
        return play

    def end(self) -> list[str]:
        """Return what was wrong, and remove the files if nothing was."""
        errors = [path.read_text() for path in sorted(self._folder.glob("*.err")) if path.stat().st_size]
        faults = [each["text"] for each in self.notes.all("fault")] + errors
        if not faults:
            shutil.rmtree(self._folder)
        return faults


def _in_child(do: Callable[[], object], path: Path) -> bool:
    """Do something in a forked child; returns whether it was killed. What goes wrong is written into a file."""
    pid = os.fork()
    if pid == 0:
        _do_and_exit(do, path.with_suffix(".err"))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, 1, -signal.SIGKILL):
        path.with_suffix(".end.err").write_text(f"a process ended with {status}")
    return status == -signal.SIGKILL


def _do_and_exit(do: Callable[[], object], path: Path) -> None:
    with path.open("a") as file:
        faulthandler.dump_traceback_later(BOUND, exit=True, file=file)
        try:
            do()
        except BaseException:  # noqa: BLE001 (told by the file)
            traceback.print_exc(file=file)
            file.flush()
            os._exit(1)
        os._exit(0)


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
    with tempfile.TemporaryDirectory(prefix="understudy-soak-", ignore_cleanup_errors=True) as folder:
        all_, began, chance = Trials(Path(folder), url, seed), time.perf_counter(), random.Random(seed)
        writes = {each.name: all_.writes_of(each) for each in scenarios}
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
        all_.report.seconds = time.perf_counter() - began
        return all_.report
