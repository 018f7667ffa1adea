"""Trials: a process that is killed or stopped, or whose store goes away, and others that go on with its runs."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.support.deadly import DeadlyDatabase, die
from tests.support.postgres_proxy import Proxy
from understudy.actors.stores.database import Database
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store

from .kill_cast import SCENARIOS, Notes, Scenario
from .kill_play import HOWS, MADE, Play
from .outages import Away, postgres_outage, proxy_of, sqlite_outage
from .readers import Reader

BOUND = 150  # Seconds after which a process that hangs is ended.
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

    def add(self, other: Report) -> None:
        """Add what became of other trials at the same time."""
        self.trials += other.trials
        self.kills += other.kills
        self.untold += other.untold
        self.kinds += other.kinds
        self.faults += other.faults


NO_PROXY: tuple[Proxy | None, str] = None, ""


class Trials:
    """Trials in one kind of store.

    Args:
        folder: for files; made if it is not there.
        url: of a PostgreSQL database; empty for an SQLite file for each trial.
        seed: of the kills inside of recoveries.
        pace: seconds that each turn of a model and each call of a tool takes.
    """

    def __init__(self, folder: Path, url: str = "", seed: int = 0, pace: float = 0.0) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._url = url
        self._pace = pace
        self._proxy, self._proxied = proxy_of(url) if url else NO_PROXY
        self._chance = random.Random(seed)
        self._template = folder / "template.db"
        self.report = Report()
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        _in_child(self._make_tables, folder / "template")
        self._warm_up()

    def seeded(self, seed: int) -> random.Random:
        """Leave to chance from now on what a seed says; returns that chance."""
        self._chance = random.Random(seed)
        return self._chance

    def _make_tables(self) -> None:
        database = _database(self._template, self._url)
        Store(database)
        database.write(lambda sql: sql.execute(MADE))

    def _warm_up(self) -> None:
        """Play in this process, which imports all that a trial needs: its children need not."""
        trial = self._trial(SCENARIOS[0])
        for again in (False, True):
            play = trial.begun()
            play.go_on(waits=False) if again else play.begin()
            play.system.stop()

    def length_of(self, scenario: Scenario) -> tuple[int, float]:
        """Return how many writes a scenario has that nobody kills, and how many seconds it takes."""
        trial = self._trial(scenario)
        began = time.perf_counter()
        trial.play()
        seconds = time.perf_counter() - began
        writes = trial.notes.all("writes")
        faults = trial.end()
        assert not faults, f"{scenario.name}, which nobody kills: {faults}"
        return int(writes[0]["count"]), seconds

    def kill_at(self, scenario: Scenario, deadly: int, *, before: bool, recoveries: Sequence[int] = ()) -> None:
        """Kill a process at one write, and then each of some that go on; the last one goes on to the end."""
        trial = self._trial(scenario)
        kills = int(trial.play(deadly, before=before))
        for each in recoveries:
            kills += int(trial.recover(each, before=self._chance.random() < 0.5))
        where = f"killed {'before' if before else 'after'} write {deadly}, then at {list(recoveries)}"
        self._finish(trial, kills, where)

    def kill_after(self, scenario: Scenario, seconds: Sequence[float]) -> None:
        """Kill a process after the first time, and those that go on after the others; the last one goes on to the end."""
        trial = self._trial(scenario)
        kills = int(trial.play(seconds=seconds[0]))
        for each in seconds[1:]:
            kills += int(trial.recover(seconds=each))
        self._finish(trial, kills, f"killed after {_listed(seconds)} s")

    def crash(self, scenario: Scenario, first: Death, recoveries: Sequence[Death]) -> None:
        """Kill a process, and then others that call `recover`; the last one goes on to the end."""
        trial = self._trial(scenario)
        kills = 0
        for number, each in enumerate((first, *recoveries)):
            kills += int(trial.crash(each, goes_on=number > 0))
        self._finish(trial, kills, f"killed {first}, then {', '.join(map(str, recoveries))} of recover()")

    def stop(self, scenario: Scenario, stops: Sequence[Stop]) -> None:
        """Stop a process in order, and then others that go on; the last one goes on to the end."""
        trial = self._trial(scenario)
        for number, each in enumerate(stops):
            trial.stop(each, goes_on=number > 0)
        where = "; ".join(f"{how} after {after:.4f} s with {grace:g} s of grace" for how, after, grace in stops)
        self._finish(trial, len(stops), where)

    def lose_store(self, scenario: Scenario, kind: str, moment: Moment, seconds: float, *, stays: bool) -> None:
        """Have the store go away for some seconds at one write, and go on.

        Args:
            scenario: what is played.
            kind: of the outage, one of those for this store.
            moment: when.
            seconds: how long.
            stays: whether the process itself goes on afterwards, and not another one.
        """
        trial = self._trial(scenario)
        if moment.killed_after is not None:
            trial.play(seconds=moment.killed_after)
        trial.lose_store(kind, moment, seconds, stays=stays, proxy=self._proxy, url=self._proxied)
        who = "the process itself" if stays else "another process"
        when = f"{'before' if moment.before else 'after'} write {moment.write}"
        if moment.killed_after is not None:
            when += f" of one that goes on, killed after {moment.killed_after:.4f} s"
        self._finish(trial, len(trial.notes.all("away")), f"{kind} for {seconds:.1f} s {when}, {who} goes on")

    def kill_fresh(self, scenario: Scenario, deadly: int, *, before: bool) -> None:
        """Kill a process at one write; it is a fresh interpreter, and so is the one that goes on."""
        trial = self._trial(scenario)
        kills = int(trial.play_fresh(deadly, before=before))
        self._finish(trial, kills, f"fresh, killed {'before' if before else 'after'} write {deadly}", fresh=True)

    def read(self, scenario: Scenario, lives: Sequence[float], readers: int) -> None:
        """Kill a process, and then others that go on, while readers in other processes go away and come back.

        Args:
            scenario: what is played; its runs keep their events.
            lives: seconds after which each process is killed; one more goes on to the end.
            readers: how many there are. The first one is killed with each process too.
        """
        trial = self._trial(scenario, self._chance.choice(HOWS[1:]))
        seeds = [self._chance.random() for _ in range(readers + 1)]
        pids = [trial.begin_reader(number, seeds[number]) for number in range(readers)]
        kills = 0
        for number, each in enumerate(lives):
            kills += int(trial.drive(each, seeds[-1], goes_on=number > 0))
            os.kill(pids[0], signal.SIGKILL)
            os.waitpid(pids[0], 0)
            pids[0] = trial.begin_reader(0, seeds[0] + number)
        trial.drive(None, seeds[-1], goes_on=True)
        trial.end_readers(pids)
        self._finish(trial, kills, f"with {readers} readers, killed after {_listed(lives)} s")

    def _finish(self, trial: Trial, kills: int, where: str, *, fresh: bool = False) -> None:
        if fresh:
            trial.recover_fresh()
        else:
            trial.recover()
        self.report.untold += len(trial.notes.all("untold"))
        self.report.faults += [f"{trial.name}, {where}: {each}" for each in trial.end()]
        self.report.kills += kills
        self.report.kinds[trial.name] += kills

    def kill_deep(self, scenario: Scenario, writes: int, depth: int) -> None:
        """Kill a process somewhere, and then so many that recover its run, each at one of its first writes."""
        deadly, before = self._chance.randint(1, writes), self._chance.random() < 0.5
        recoveries = [self._chance.choice(SOON) for _ in range(depth)]
        self.kill_at(scenario, deadly, before=before, recoveries=recoveries)

    def _trial(self, scenario: Scenario, how: str = "") -> Trial:
        self.report.trials += 1
        folder = self._folder / f"{self.report.trials}"
        folder.mkdir()
        if not self._url:
            (folder / "store").mkdir()
            for each in ("", "-wal"):
                if (made := self._template.with_name(f"template.db{each}")).exists():
                    shutil.copy(made, folder / "store" / f"runs.db{each}")
        always = self._pace > 0 and self._chance.random() < 0.3
        app = f"kills{os.getpid()}x{self.report.trials}"
        return Trial(scenario, app, folder, self._url, how or self._chance.choice(HOWS), self._pace, always=always)


class Death(NamedTuple):
    """When a process is killed: at a write if it comes to that, and else after some seconds."""

    seconds: float
    write: int = 0
    """After which, counted from 1; 0 for none."""
    at_pause: bool = False
    """Whether it is the write that stores what a run waits for: its own end is stored by the next one."""

    def __str__(self) -> str:
        if self.at_pause:
            return "with a pause"
        return f"after write {self.write}" if self.write else f"after {self.seconds:.4f} s"


class Stop(NamedTuple):
    """An orderly stop of a process."""

    how: str
    """One of `STOPS`."""
    after: float
    """Seconds."""
    grace: float
    """Seconds for runs to end; the `with` block has its own."""


LIVE = "live"
"""The reader in the process that drives the runs."""
STOPS = ("stop", "with", "SIGTERM")


class Moment(NamedTuple):
    """When a store goes away."""

    write: int
    """At which write of the process, counted from 1."""
    before: bool
    killed_after: float | None = None
    """Seconds after which an earlier process was killed, whose run that process takes over; None if it begins one."""


class Trial:
    """One scenario, from its beginning to its end in as many processes as it takes.

    Args:
        scenario: what is played.
        app: the name of the system.
        folder: for notes, and for the file of the store.
        url: of a PostgreSQL database; empty for an SQLite file.
        how: its runs are begun, one of `HOWS`.
        pace: seconds that each turn of a model and each call of a tool takes.
        always: whether systems that go on look for runs that were left themselves too.
    """

    def __init__(
        self,
        scenario: Scenario,
        app: str,
        folder: Path,
        url: str,
        how: str,
        pace: float = 0.0,
        *,
        always: bool = False,
    ) -> None:
        self.name = scenario.name
        self._scenario = scenario
        self._app = app
        self._folder = folder
        self._url = url
        self._how = how
        self._always = always
        self._path = folder / "store" / "runs.db"
        self.notes = Notes(folder / "notes", pace)

    def play(self, deadly: int = 0, *, before: bool = True, seconds: float | None = None) -> bool:
        """Play the scenario in a child that may be killed; returns whether it was."""
        return _in_child(lambda: self.play_here(deadly, before=before), self._folder / "played", seconds)

    def recover(self, deadly: int = 0, *, before: bool = True, seconds: float | None = None) -> bool:
        """Go on in a child that may be killed; returns whether it was. If not, all is done and checked."""
        return _in_child(lambda: self.recover_here(deadly, before=before), self._folder / "recovered", seconds)

    def crash(self, death: Death, *, goes_on: bool) -> bool:
        """Play the scenario, or go on, in a child that is killed; returns whether it was."""
        return _in_child(lambda: self.crash_here(death, goes_on=goes_on), self._folder / "crashed")

    def crash_here(self, death: Death, *, goes_on: bool) -> None:
        """Play the scenario, or go on, in this process until it is killed."""
        play = self.begun(death.write, before=False, goes_on=goes_on)
        if death.at_pause:
            pauses = play.found().pauses
            play.database.is_due = lambda: play.found().pauses != pauses
        timer = threading.Timer(death.seconds, die)
        timer.daemon = True
        timer.start()
        play.go_on(waits=bool(self._url)) if goes_on else play.begin()

    def stop(self, stop: Stop, *, goes_on: bool) -> None:
        """Play the scenario, or go on, in a child that is stopped in order."""
        _in_child(lambda: self.stop_here(stop, goes_on=goes_on), self._folder / "stopped")

    def stop_here(self, stop: Stop, *, goes_on: bool) -> None:
        """Play the scenario, or go on, in this process until it is stopped."""
        play = self.begun(goes_on=goes_on)
        system, play.is_stopped = play.system, True
        carry_on = partial(play.carry_on, goes_on=goes_on, waits=bool(self._url))
        if stop.how == "with":
            with ThreadPoolExecutor(1) as pool:
                with system:
                    carried = pool.submit(carry_on)
                    wait([carried], stop.after)
                carried.result()
        elif stop.how == "stop":
            timer = threading.Timer(stop.after, system.stop, (stop.grace,))
            timer.start()
            carry_on()
            timer.join()
        else:
            stopping = threading.Thread(target=system.stop, args=(stop.grace,))
            signal.signal(signal.SIGTERM, lambda number, frame: stopping.start())
            timer = threading.Timer(stop.after, os.kill, (os.getpid(), signal.SIGTERM))
            timer.start()
            carry_on()
            timer.join()
            stopping.join()

    def lose_store(
        self, kind: str, moment: Moment, seconds: float, *, stays: bool, proxy: Proxy | None, url: str
    ) -> None:
        """Play the scenario, or go on, in a child whose store goes away."""
        if proxy is None:
            outage = sqlite_outage(kind, self._path)
        else:
            outage = postgres_outage(kind, proxy)
        away = Away(self._folder, kind, seconds, outage)
        self._url, direct = url, self._url
        _in_child(lambda: self.lose_store_here(away, moment, stays=stays), self._folder / "lost", meanwhile=away.attend)
        self._url = direct
        away.end()

    def lose_store_here(self, away: Away, moment: Moment, *, stays: bool) -> None:
        """Play the scenario, or go on, in this process, which asks for the outage at one of its writes."""
        goes_on = moment.killed_after is not None
        play = self.begun(moment.write, before=moment.before, goes_on=goes_on)

        def go_away() -> None:
            self.notes.add("away", kind=away.kind)
            away.ask(play.database)

        play.database.deed = go_away
        play.carry_on(goes_on=goes_on, waits=bool(self._url), again=3 if stays else 0)

    def drive(self, seconds: float | None, seed: float, *, goes_on: bool) -> bool:
        """Play the scenario, or go on, in a child that has a reader of its own; returns whether it was killed."""
        return _in_child(lambda: self.drive_here(seconds, seed, goes_on=goes_on), self._folder / "driven")

    def drive_here(self, seconds: float | None, seed: float, *, goes_on: bool) -> None:
        """Play the scenario, or go on, in this process, which is killed after some seconds, or goes on to the end."""
        play, is_done = self.begun(goes_on=goes_on), threading.Event()
        if seconds is not None:
            threading.Timer(seconds, die).start()
        reader = self._reader(LIVE, seed)
        thread = threading.Thread(target=reader.read, args=(play.system, play.ids, is_done.is_set), daemon=True)
        thread.start()
        play.go_on(waits=bool(self._url)) if goes_on else play.begin()
        if seconds is None:
            is_done.set()
            thread.join()
            reader.finish(play.system, play.ids())

    def begin_reader(self, number: int, seed: float) -> int:
        """Begin a reader in a process of its own; returns the number of the process."""
        pid = os.fork()
        if pid == 0:
            _do_and_exit(lambda: self.read_here(number, seed), self._folder / f"reader-{number}.err")
        return pid

    def end_readers(self, pids: Sequence[int]) -> None:
        """Have the readers read the rest, and compare what each saw with what there is."""
        (self._folder / "over").touch()
        for pid in pids:
            os.waitpid(pid, 0)
        _in_child(lambda: self.compare_here(len(pids)), self._folder / "compared")

    def read_here(self, number: int, seed: float) -> None:
        """Read in this process until all is over, now and then in a new system."""
        reader, chance = self._reader(str(number), seed), random.Random(seed)
        while not (self._folder / "over").exists():
            play = self.begun()
            with play.system:
                reader.read(play.system, play.ids, partial(self._is_over, time.monotonic() + chance.uniform(0.1, 0.5)))
        play = self.begun()
        reader.finish(play.system, play.ids())

    def _is_over(self, until: float) -> bool:
        return (self._folder / "over").exists() or time.monotonic() > until

    def _reader(self, name: str, seed: float) -> Reader:
        return Reader(Notes(self._folder / f"reader-{name}"), random.Random(seed))

    def compare_here(self, readers: int) -> None:
        """See whether each reader has seen all events, and each once."""
        play = self.begun()
        for run in play.ids():
            events = list(play.system.handle(run).events(timeout=BOUND))
            for name in (LIVE, *map(str, range(readers))):
                for fault in self._reader(name, 0).faults(run, events):
                    self.notes.add("fault", text=f"reader {name}: {fault}")

    def play_fresh(self, deadly: int, *, before: bool) -> bool:
        """As `play`, in a fresh interpreter."""
        return self._in_fresh("play_here", deadly, before=before)

    def recover_fresh(self) -> bool:
        """As `recover`, in a fresh interpreter."""
        return self._in_fresh("recover_here", 0, before=True)

    def _in_fresh(self, what: str, deadly: int, *, before: bool) -> bool:
        given = [what, self.name, self._app, str(self._folder), self._url, self._how, deadly, before]
        command = [sys.executable, "-c", FRESH, json.dumps(given)]
        with (self._folder / f"{what}.err").open("w") as file:
            status = subprocess.run(command, stderr=file, timeout=BOUND, check=False).returncode
        return status == -signal.SIGKILL

    def play_here(self, deadly: int, *, before: bool) -> None:
        """Play the scenario in this process, which one of its writes may kill."""
        play = self.begun(deadly, before=before)
        play.begin()
        self.notes.add("writes", count=play.database.writes)

    def recover_here(self, deadly: int, *, before: bool) -> None:
        """Go on in this process, which one of its writes may kill; in the end, all is done and checked."""
        play = self.begun(deadly, before=before, goes_on=True)
        play.go_on(waits=bool(self._url))
        play.database.deadly = 0
        if not deadly:
            play.check_end()

    def begun(self, deadly: int = 0, *, before: bool = True, goes_on: bool = False) -> Play:
        """Begin a system in this process, maybe one that goes on with the runs of earlier ones."""
        database = DeadlyDatabase(_database(self._path, self._url))
        play = Play(self._scenario, self._app, database, self.notes, self._how, always=goes_on and self._always)
        database.writes, database.deadly, database.before = 0, deadly, before
        return play

    def end(self) -> list[str]:
        """Return what was wrong, and remove the files if nothing was."""
        errors = [path.read_text() for path in sorted(self._folder.glob("*.err")) if path.stat().st_size]
        faults = [each["text"] for each in self.notes.all("fault")] + errors
        if not faults:
            shutil.rmtree(self._folder)
        return faults


FRESH = """
import json, sys
from pathlib import Path
from tests.soak.kill_cast import SCENARIOS
from tests.soak.kills import Trial

what, name, app, folder, url, how, deadly, before = json.loads(sys.argv[1])
(scenario,) = [each for each in SCENARIOS if each.name == name]
getattr(Trial(scenario, app, Path(folder), url, how), what)(deadly, before=before)
"""


def _database(path: Path, url: str) -> Database:
    if url:
        from understudy.actors.stores.postgres.database import PostgresDatabase

        return PostgresDatabase(url)
    return SQLiteDatabase(str(path))


def _listed(seconds: Sequence[float]) -> str:
    return ", ".join(f"{each:.4f}" for each in seconds)


def _in_child(
    do: Callable[[], object],
    path: Path,
    seconds: float | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> bool:
    """Do something in a forked child; returns whether it was killed. What goes wrong is written into a file.

    Args:
        do: what.
        path: of that file.
        seconds: after which it is killed, wherever it is; None for never.
        meanwhile: is called again and again while it is under way.
    """
    pid = os.fork()
    if pid == 0:
        _do_and_exit(do, path.with_suffix(".err"))
    if seconds is not None:
        time.sleep(seconds)  # an instant by chance is what is wanted
        os.kill(pid, signal.SIGKILL)
    done = os.waitpid(pid, 0 if meanwhile is None else os.WNOHANG)
    while meanwhile is not None and not done[0]:
        meanwhile()
        time.sleep(0.002)
        done = os.waitpid(pid, os.WNOHANG)
    status = os.waitstatus_to_exitcode(done[1])
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
