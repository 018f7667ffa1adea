"""The runs with which a system could not go on when it tried, and when it tries again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from understudy.actors.stores.runs import StoredRun
from understudy.vocabulary.runs.stored_runs import ParkedRun

FIRST_PAUSE = 1.0  # Seconds before the second attempt; each further pause is twice as long.
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class _Entry:
    told: ParkedRun
    is_known: bool
    """Whether the agent of the run was known where the reason comes from."""
    cause: object
    """Of the last attempt."""
    pause: float
    again_at: float


class ParkedRuns:
    """Runs of processes that died, each with a reason. Safe to use from any thread.

    Args:
        clock: the monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        """Guards the entries. Nothing blocks under it."""
        self._entries: dict[str, _Entry] = {}

    def park(self, left: StoredRun, why: str, cause: object, *, is_known: bool = True) -> bool:
        """Note that a run cannot go on.

        Args:
            left: the run.
            why: the reason.
            cause: names the reason in short.
            is_known: whether its agent is known here. If not, a reason from a place where it is known stays.

        Returns:
            False if it was noted before with that cause.
        """
        told = ParkedRun(left.run_id, left.runner_id, left.user_id, left.conversation_id, left.takeovers, why)
        with self._lock:
            before = self._entries.get(left.run_id)
            pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
            if before is not None and before.is_known > is_known and before.told.takeovers == left.takeovers:
                told, is_known = before.told, True
            self._entries[left.run_id] = _Entry(told, is_known, cause, pause, self._clock() + pause)
        return before is None or before.cause != cause

    def release(self, run_id: str) -> None:
        """Note that a run goes on."""
        with self._lock:
            self._entries.pop(run_id, None)

    def keep(self, run_ids: Collection[str]) -> None:
        """Forget all other runs: somebody goes on with them, or they are over."""
        with self._lock:
            self._entries = {run_id: entry for run_id, entry in self._entries.items() if run_id in run_ids}

    def begin_anew(self) -> None:
        """Treat the next attempt of each run as its first: it is logged, and a short pause follows."""
        with self._lock:
            for entry in self._entries.values():
                entry.cause, entry.pause = None, FIRST_PAUSE / 2

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._entries

    def is_resting(self, run_id: str) -> bool:
        """Whether a run is parked, and its next attempt is not due."""
        with self._lock:
            entry = self._entries.get(run_id)
        return entry is not None and self._clock() < entry.again_at

    def try_all(self) -> None:
        """Let the next attempt of each run be due."""
        with self._lock:
            for entry in self._entries.values():
                entry.again_at = self._clock()

    def told(self) -> tuple[ParkedRun, ...]:
        """Return the runs, with the reasons."""
        with self._lock:
            return tuple([entry.told for entry in self._entries.values()])
