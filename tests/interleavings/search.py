"""Runs a model under a controlled scheduler: searches its schedules for one that fails, keeps it, and follows it again.

Only one thread of a model runs at a time, and the scheduler says which. It may change its mind at each line, or each
bytecode instruction, of `TRACED`, and at each operation of a lock, condition, event or thread. A model is a program that
makes whatever it uses, starts threads, and asserts when they are done.
"""

from __future__ import annotations

import gc
import json
import linecache
import platform
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.paths import ROOT
from understudy.actors.runs.watchdog import Watchdog

NEEDS = "needs interleave-test, which is for Python 3.12 and later: pip install -e '.[interleavings]'"
it: Any = pytest.importorskip("interleave_test", reason=NEEDS)

Model = Callable[[], object]
Granularity = Literal["line", "opcode"]

SCHEDULES = Path(__file__).parent / "schedules"
TRACED = [ROOT / "actors", ROOT / "understudy" / "vocabulary" / "context" / "scope.py"]
"""Where threads may be switched between two lines; all other code is one step from one lock to the next."""
READERS = [ROOT / "actors" / "run_view" / name for name in ("event_reader.py", "fact_events.py", "log_reader.py")]
"""But not here: models read events when all threads are at rest, and a fifth of their lines would be these."""

DEPTH = 3  # Two threads are put last: most races need no more, and with more of it few would ever come to an end.


@dataclass(frozen=True, slots=True)
class Switch:
    """One change from a thread to another."""

    thread: int
    """Whose turn ends; threads are numbered in the order in which they are started, the model's own is 0."""
    at: str
    """The line it comes to, as `file.py: text`, or `elsewhere`; empty where it waits or ends, and somebody else must go on."""
    visit: int
    """Which time it comes to it."""
    then: int
    """Who goes on."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that failed: the switches that matter, told by lines, so that an edit elsewhere does not outdate them."""

    model: str
    mutant: str
    """What had been done to the code; empty if it failed as it stands."""
    granularity: Granularity
    python: str
    seed: int
    number: int
    """Which schedule of the search it was."""
    error: str
    switches: tuple[Switch, ...]

    def keep(self, folder: Path = SCHEDULES) -> Path:
        """Write it to `folder`."""
        name = self.mutant or f"{self.model}-{self.granularity}-{self.seed}-{self.number}"
        path = folder / f"{name}.json"
        fields = asdict(self)
        switches = ",\n".join(f"  {json.dumps(switch)}" for switch in fields.pop("switches"))
        head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in fields.items())
        path.write_text(f'{{\n{head} "switches": [\n{switches}\n ]\n}}\n')
        return path


def kept(folder: Path = SCHEDULES) -> list[Schedule]:
    """Return the schedules in `folder`."""
    found: list[Schedule] = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text())
        switches = tuple(Switch(**switch) for switch in fields.pop("switches"))
        found.append(Schedule(**fields, switches=switches))
    return found


@dataclass(frozen=True, slots=True)
class Failure:
    """A model failed."""

    error: str
    """The exception in one line, or that all threads wait for each other."""
    story: str
    """Traceback, who waits for what, and the last steps."""
    schedule: Schedule


def search(
    model: Model, *, schedules: int, seed: int = 0, granularity: Granularity, mutant: str = ""
) -> Failure | None:
    """Try so many schedules of `model`, the same ones each time; return the first that fails.

    The search is PCT (Burckhardt et al., ASPLOS 2010): threads have random priorities, and the one with the highest
    runs, but at two random moments the running one is put last.
    """
    strategy = _Pct(DEPTH)
    found = _explore(model, strategy, schedules, seed, granularity)
    if found is None:
        return None
    error, story = found.exception, found.format()
    told = f"{found.kind}: {type(error).__name__}: {error}" if error is not None else found.kind
    told = re.sub(r" at 0x\w+", "", told.splitlines()[0].rstrip(": "))
    schedule = Schedule(
        model=model.__name__,
        mutant=mutant,
        granularity=granularity,
        python=platform.python_version(),
        seed=seed,
        number=found.iteration + 1,
        error=told,
        switches=tuple(strategy.switches),
    )
    return Failure(told, story, schedule)


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of following a schedule."""

    failed: bool
    story: str
    preempted: int
    """How many of the switches away from a thread that could have gone on were come by and made."""


def follow(model: Model, schedule: Schedule) -> Followed:
    """Run `model` once, and make the switches of `schedule` where it comes by them."""
    strategy = _Following(schedule.switches)
    found = _explore(model, strategy, 1, schedule.seed, schedule.granularity)
    return Followed(found is not None, "" if found is None else found.format(), strategy.preempted)


def _explore(model: Model, strategy: object, schedules: int, seed: int, granularity: Granularity) -> Any:
    with _repeatable():
        result = it.explore(
            model,
            iterations=schedules,
            seed=seed,
            strategy=strategy,
            granularity=granularity,
            include=TRACED,
            exclude=READERS,
            raise_on_failure=False,
        )
    return result.failure


@contextmanager
def _repeatable() -> Generator[None]:
    """Keep out what would make two runs of one schedule differ, or never end."""
    with pytest.MonkeyPatch.context() as patch:
        # It looks at the clock again and again, and no time passes for a thread that could go on: models call what it
        # would have called.
        patch.setattr(Watchdog, "_start", _no_thread)
        # The scheduler's threads are none that `threading` knows, and it cannot make dummies of them; none is the main one.
        patch.setattr(threading, "current_thread", lambda: _CONTROLLED)
        gc.collect()
        gc.disable()  # or finalizers run wherever it happens to be due
        try:
            yield
        finally:
            gc.enable()


_CONTROLLED = threading.Thread(name="controlled")


def _no_thread(dog: Watchdog) -> None:
    """What starts nothing."""


class _Places:
    """Names the lines that threads come to, and counts how often each thread came to each."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}
        self._visits: Counter[tuple[int, str]] = Counter()

    def visit(self, thread: Any) -> tuple[str, int]:
        where = thread.last_location
        key = where if where is None or isinstance(where, str) else (id(where[1]), where[2])
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = _name(where)
        self._visits[thread.tid, name] += 1
        return name, self._visits[thread.tid, name]


@cache
def _traced_files() -> list[Path]:
    return [path for root in TRACED for path in (root.rglob("*.py") if root.is_dir() else [root])]


def _name(where: Any) -> str:
    if where is None:
        return "start"
    if where == "?":
        return "elsewhere"
    if isinstance(where, str):  # an operation of a lock: the scheduler says `file.py:12`
        file, _, line = where.rpartition(":")
        found = [path for path in _traced_files() if path.name == file]
        return f"{file}: {linecache.getline(str(found[0]), int(line)).strip()}" if len(found) == 1 else where
    kind, code, value = where
    if kind == "line":
        line = value
    else:
        lines = (n for start, end, n in code.co_lines() if n is not None and start <= value < end)
        line = next(lines, code.co_firstlineno)  # a few instructions belong to no line
    return f"{Path(code.co_filename).name}: {linecache.getline(code.co_filename, line).strip()}"


class _Noted(it.Strategy):  # type: ignore[misc]  # the library is not there where the types are checked
    """A strategy that notes the switches of the schedule in hand."""

    def begin(self, iteration: int, seed: int) -> None:
        self.places = _Places()
        self.switches: list[Switch] = []
        self.running = 0

    def note(self, chosen: Any, at: str, visit: int) -> Any:
        if chosen.tid != self.running:
            self.switches.append(Switch(self.running, at, visit, chosen.tid))
        self.running = chosen.tid
        return chosen

    def observe(self, chosen: Any, index: int) -> None:
        self.running = chosen.tid  # nobody else could run


class _Pct(_Noted):
    """Priorities and demotions at random, with a note of what came of them."""

    def __init__(self, depth: int) -> None:
        self._pct = it.PCTStrategy(depth)

    def begin(self, iteration: int, seed: int) -> None:
        super().begin(iteration, seed)
        self._pct.begin(iteration, seed)
        self._choices = 0
        """Steps at which there was a choice: a demotion where there was none would be wasted."""

    def pick(self, runnable: Any, current: Any, index: int) -> Any:
        at, visit = ("", 0) if current is None else self.places.visit(current)
        self._choices += 1
        return self.note(self._pct.pick(runnable, current, self._choices - 1), at, visit)

    def end(self) -> None:
        self._pct.end()


class _Following(_Noted):
    """Makes given switches where they are due, and otherwise none that is not needed."""

    def __init__(self, switches: tuple[Switch, ...]) -> None:
        self._to_come = list(reversed(switches))
        self.preempted = 0

    def pick(self, runnable: Any, current: Any, index: int) -> Any:
        at, visit = ("", 0) if current is None else self.places.visit(current)
        by_number = {thread.tid: thread for thread in runnable}
        due = self._to_come[-1] if self._to_come else None
        if due is not None and (due.thread, due.at, due.visit) == (self.running, at, visit):
            self._to_come.pop()
            if due.then in by_number:
                self.preempted += bool(at)
                return self.note(by_number[due.then], at, visit)
        if current is not None:
            return self.note(current, at, visit)
        next_to_switch = None if due is None else by_number.get(due.thread)
        return self.note(next_to_switch or runnable[0], at, visit)
