"""Readers of events that go away and come back with the last number that they saw, while processes of the runs are killed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import understudy as us
from tests.support.events import DELTAS

from .kill_cast import Notes

WAIT = 60.0  # Seconds for the rest of the events.
SHORT = 0.05  # Seconds after which a reader goes away, if nothing comes.


class Reader:
    """Somebody who reads all runs of a trial.

    Args:
        notes: what they saw, and so the number with which they come back, also in another process.
        chance: says how much they read before they go away.
    """

    def __init__(self, notes: Notes, chance: random.Random) -> None:
        self._notes = notes
        self._chance = chance
        self._last: dict[str, str] = {each["run"]: each["id"] for each in notes.all("seen")}

    def read(self, system: us.ActorSystem, runs: Callable[[], Sequence[str]], until: Callable[[], bool]) -> None:
        """Read some events of each run, again and again, until somebody says that it is time."""
        pause = until()
        while not pause:
            for run in runs():
                self._read(system, run, self._chance.randint(1, 5), SHORT)
            pause = until()

    def finish(self, system: us.ActorSystem, runs: Sequence[str]) -> None:
        """Read the rest of each run that is over."""
        for run in runs:
            self._read(system, run, None, WAIT)

    def _read(self, system: us.ActorSystem, run: str, count: int | None, timeout: float) -> None:
        try:
            for number, event in enumerate(system.handle(run).events(after=self._last.get(run), timeout=timeout), 1):
                self._see(run, event)
                if number == count:
                    return
        except TimeoutError:
            if count is None:
                self._notes.add("trouble", run=run, text=f"nothing came after {self._last.get(run)}")
        except (ValueError, us.StoreError) as error:
            self._notes.add("trouble", run=run, text=f"{type(error).__name__}: {error}")

    def _see(self, run: str, event: us.Event) -> None:
        self._last[run] = event.id or self._last.get(run, "")
        number = None if isinstance(event, DELTAS) else event.seq
        self._notes.add("seen", run=run, id=self._last[run], number=number, type=type(event).__name__)

    def faults(self, run: str, events: Sequence[us.Event]) -> list[str]:
        """Return what is wrong with what they saw of a run.

        Args:
            run: its id.
            events: of the run, from the first to the last.
        """
        told = [(each.seq, type(each).__name__) for each in events if not isinstance(each, DELTAS)]
        notes = [each for each in self._notes.all("seen") if each["run"] == run]
        seen = [(each["number"], each["type"]) for each in notes if each["number"] is not None]
        wrong = [each["text"] for each in self._notes.all("trouble") if each["run"] == run][:1]
        if seen != told:
            missed, twice = set(told) - set(seen), {each for each in seen if seen.count(each) > 1}
            wrong.append(
                f"missed {sorted(missed)}, saw twice {sorted(twice)}, saw besides {sorted(set(seen) - set(told))}"
            )
        return wrong
