"""A store of paused runs as a user may bring one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from understudy import PausedRun
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase


class DictStore:
    """A `PauseStore` in a dictionary.

    Attributes:
        runs: what it has, by run id.
        keeps: run id -> what `keep` was, the last time.
        on_call: called with the method's name before it does anything; what it raises, the method raises.
    """

    def __init__(self) -> None:
        self.runs: dict[str, PausedRun] = {}
        self.keeps: dict[str, float | None] = {}
        self.on_call: Callable[[str], object] = lambda _: None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "DictStore"

    def put(self, paused: PausedRun, *, keep: float | None) -> bool:
        self.on_call("put")
        with self._lock:
            found = self.runs.get(paused.run_id)
            if found is not None and (found.state == "waiting" or found.revision >= paused.revision):
                return False
            self.runs[paused.run_id] = paused
            self.keeps[paused.run_id] = keep
            return True

    def get(self, run_id: str) -> PausedRun | None:
        self.on_call("get")
        return self.runs.get(run_id)

    def take(self, run_id: str, revision: int) -> bool:
        self.on_call("take")
        with self._lock:
            found = self.runs.get(run_id)
            if found is None or found.state != "waiting" or found.revision != revision:
                return False
            self.runs[run_id] = replace(found, state="taken")
            return True

    def close(self, run_id: str, revision: int) -> None:
        self.on_call("close")
        with self._lock:
            found = self.runs.get(run_id)
            if found is not None and found.revision == revision:
                self.runs[run_id] = replace(found, state="over", payload="")


def sqlite_pauses(path: str, *, clock: Callable[[], float] = time.time) -> PauseTable:
    """Return the paused runs of a file."""
    return PauseTable(SQLiteDatabase(path), clock=clock)
