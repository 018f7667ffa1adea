"""Random trees of agents, groups and workflows that are ended at instants by chance, and what is left of them."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import understudy as us
from tests.support.random_runs import Play
from tests.support.scripts import WAIT, eventually
from understudy.actors.runs.record import RunRecord
from understudy.vocabulary.runs.outcomes import Outcome

from .footprint import at_rest, back_to
from .trees import unquiet

EVERY = 50
"""Trees after which their system is stopped and the process measured."""
SOON = 0.02  # Seconds after which a run is ended at the latest.
HALVES = 8
"""How often that time is halved at most: most trees are over in a few milliseconds."""
OURS = "understudy"


@dataclass
class Report:
    """What became of the trees."""

    ends: Counter[str] = field(default_factory=Counter[str])
    """How a stay of a run ended -> how often."""
    runs: int = 0
    """How many runs there were, those inside of others included."""


class Ended(Play):
    """A program whose run is cancelled at an instant, has a deadline then, or neither."""

    def _time(self) -> float:
        self._is_timed = self._chance.one_in(3)
        return self._instant() if self._is_timed else WAIT

    def _instant(self) -> float:
        return SOON / 2 ** (self._chance.below(100 * HALVES) / 100)

    def _wait(self, begin: Callable[[], us.RunHandle[Any]]) -> object:
        end: object
        try:
            handle = begin()
        except (us.UnderstudyError, ValueError) as error:
            end = error.with_traceback(None)  # it leads to this frame, which would be a circle of ours
        else:
            ended = False
            if not self._is_timed and self._chance.one_in(2):
                time.sleep(self._instant())
                ended = handle.cancel()
            end = handle.exception(WAIT) or handle.result()
            cancelled = isinstance(end, us.RunCancelled)
            assert cancelled == ended, f"cancel() says {ended}, and the run ended with {end!r}"
        self.ends[type(end).__name__] += 1
        return end


class Ends:
    """Counts how often the promise of each run is completed."""

    def __init__(self) -> None:
        self._records: list[RunRecord] = []
        self._completed: Counter[int] = Counter()

    @contextmanager
    def counted(self) -> Generator[None]:
        """Hear of each run that begins, and of each end."""
        begin, complete = RunRecord.enter, RunRecord.complete

        def entered(record: RunRecord, hops: int) -> None:
            self._records.append(record)
            begin(record, hops)

        def completed(record: RunRecord, ending: Outcome[object] | BaseException) -> None:
            self._completed[id(record)] += 1
            complete(record, ending)

        with patch.object(RunRecord, "enter", entered), patch.object(RunRecord, "complete", completed):
            yield

    def check(self) -> int:
        """Return how many runs there were, and forget them.

        Raises:
            AssertionError: the promise of one was not completed once.
        """
        runs = list(dict.fromkeys(self._records))
        # A run is off the books a moment before its promise is completed.
        eventually(lambda: all(self._completed[id(each)] for each in runs), "each run is completed")
        wrong = [f"{each.run_id}: {self._completed[id(each)]}" for each in runs if self._completed[id(each)] != 1]
        self._records.clear()
        self._completed.clear()
        assert not wrong, f"completed, but not once: {wrong}"
        return len(runs)


def end_programs(trees: int, seed: int, progress: Callable[[str], object]) -> Report:
    """Carry out so many programs, the first with this seed and each other one with the next number, and end some of them.

    Raises:
        AssertionError: a promise was not completed once, work went on after a tree's end, a tree left a circle of
            references, or something was left behind.
    """
    report = Report()
    with unquiet():
        _some(range(seed, seed + EVERY), Report())  # imports, threads
        before = at_rest()
        for first in range(seed, seed + trees, EVERY):
            last = min(seed + trees, first + EVERY)
            _some(range(first, last), report)
            back_to(before)
            progress(f"{last - seed} trees ended, of {trees}")
    return report


def _some(seeds: range, report: Report) -> None:
    ends = Ends()
    with us.ActorSystem("programs") as system, ends.counted(), _without_collections():
        plays: list[Ended] = []  # kept: what the definition of an agent refers to is no matter of its runs
        for seed in seeds:
            play = Ended(seed)
            plays.append(play)
            play.perform(system)
            eventually(lambda: system.in_flight == 0 and system.hung == 0, f"nothing of tree {seed} goes on")
            report.ends += play.ends
            report.runs += ends.check()
        found = in_circles()
        assert not found, f"one of the trees {seeds} left circles of references: {dict(found)}"


@contextmanager
def _without_collections() -> Generator[None]:
    gc.collect()
    gc.freeze()  # what was there before is no matter of the trees
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def in_circles() -> Counter[str]:
    """Collect what nothing but itself refers to; returns how many of understudy's objects were there, by class.

    Tracebacks are taken away first: an error that was raised in the code of a run leads to the run, which has the error.
    """
    for each in gc.get_objects():
        if isinstance(each, BaseException):
            each.__traceback__ = None
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    kinds: list[type] = [type(each) for each in gc.garbage]
    found = Counter([kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(OURS)])
    gc.garbage.clear()
    gc.collect()
    return found
