"""The other processes that drive runs of a system: which of them are gone, and which runs each has left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from understudy.actors.stores.process_locks import Locks
from understudy.actors.stores.runs import RunTable, StoredRun

from .driven_runs import DrivenRuns
from .run_owners import RunOwner, RunOwners
from .silence import Beating, SilenceWatch


class Neighbour(NamedTuple):
    """A process that is gone, and has left runs."""

    owner: str
    runs: int
    """How many."""
    silent_at: int | None = None
    """The number of its beats, if its lease is over while its lock is held. If it beats again, it keeps its runs."""


class Neighbours:
    """The processes that have runs of one app in a store. For one thread.

    Args:
        table: where the runs are.
        owners: the processes.
        locks: those of the processes.
        driven: the runs that this process has.
        app: the system's name.
        lease: of a process that has not beaten yet.
        clock: the monotonic clock, in seconds.
    """

    def __init__(
        self,
        table: RunTable,
        owners: RunOwners,
        locks: Locks,
        driven: DrivenRuns,
        app: str,
        *,
        lease: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._owners = owners
        self._locks = locks
        self._driven = driven
        self._app = app
        self._lease = lease
        self._clock = clock
        self._watch = SilenceWatch()

    def begin_anew(self) -> None:
        """Measure all leases anew, because the store failed."""
        self._watch.begin_anew()

    def gone(self) -> list[Neighbour]:
        """Look once, and return the processes that are gone. It is one statement if nothing is to be done.

        This process is among them if it has left a run, and the pause of that run is over. Raises `StoreError`.
        """
        left = self._driven.left()
        found = self._owners.going(self._app)
        names = {each.owner for each in found}
        self._driven.forget({run for run, here in left.items() if here.owner not in names})
        here = [Neighbour(owner, count) for owner, count in Counter(self._driven.due().values()).items()]
        own = self._locks.name()
        others = [each for each in found if each.owner != own]
        dead = [each for each in others if each.is_of_this_life and not self._is_held(each)]
        return [*here, *[Neighbour(each.owner, each.runs) for each in dead], *self._silent(others, dead)]

    def _is_held(self, owner: RunOwner) -> bool:
        return self._locks.lives(owner.owner) if owner.is_held is None else owner.is_held

    def _silent(self, others: Sequence[RunOwner], dead: Sequence[RunOwner]) -> list[Neighbour]:
        """Return the owners whose leases are over. Near the end of a lease, this process proves that it can write a beat."""
        seen = [
            Beating(each.owner, each.beats, self._lease if each.lease is None else each.lease)
            for each in others
            if each not in dead
        ]
        over = self._watch.look(seen, self._clock())
        for owner in self._watch.doubted(seen):
            self._owners.prove_writes(owner)
            self._watch.proved(owner)
        return [Neighbour(each.owner, each.runs, each.beats) for each in others if each.owner in over]

    def left_by(self, gone: Neighbour) -> list[StoredRun]:
        """Return the runs that a process has left; none if it is there after all. Raises `StoreError`."""
        left, due = self._driven.left(), self._driven.due()
        here = {run for run, each in left.items() if each.owner == gone.owner}
        found = self._table.left(self._app, gone.owner)
        self._driven.forget(here - {each.run_id for each in found})
        # Asked after the runs were read: it may have come back, and begun others.
        if gone.silent_at is None and (gone.owner == self._locks.name() or self._locks.lives(gone.owner)):
            found = [each for each in found if each.run_id in here]
        resting = left.keys() - due.keys()
        return [each for each in found if each.run_id not in self._driven and each.run_id not in resting]
