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


class LeasedDictStore(DictStore):
    """A `LeasedPauseStore` in a dictionary.

    Attributes:
        now: seconds since 1970.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self._holders: dict[str, str] = {}

    def forget_holders(self) -> None:
        """Have no worker hold a lease any more."""
        self._holders.clear()

    def get(self, run_id: str) -> PausedRun | None:
        found = super().get(run_id)
        return None if found is None else self._seen(found)

    def _seen(self, found: PausedRun) -> PausedRun:
        over = found.leased_until is None or found.leased_until <= self.now
        return replace(found, leased_until=None) if over else found

    def take(self, run_id: str, revision: int) -> bool:
        found = self.runs.get(run_id)
        return (found is None or self._seen(found).leased_until is None) and super().take(run_id, revision)

    def lease(self, run_id: str, revision: int, holder: str, seconds: float) -> bool:
        self.on_call("lease")
        with self._lock:
            found = self._waiting(run_id, revision)
            if found is None or (self._seen(found).leased_until is not None and self._holders[run_id] != holder):
                return False
            self._holders[run_id] = holder
            self.runs[run_id] = replace(found, leased_until=self.now + seconds)
            return True

    def _waiting(self, run_id: str, revision: int) -> PausedRun | None:
        found = self.runs.get(run_id)
        return found if found is not None and (found.state, found.revision) == ("waiting", revision) else None

    def _held(self, run_id: str, revision: int, holder: str) -> PausedRun | None:
        return self._waiting(run_id, revision) if self._holders.get(run_id) == holder else None

    def commit(self, paused: PausedRun, holder: str, *, keep: float | None) -> bool:
        self.on_call("commit")
        with self._lock:
            if self._held(paused.run_id, paused.revision - 1, holder) is None:
                return False
            del self._holders[paused.run_id]
            self.runs[paused.run_id] = paused
            self.keeps[paused.run_id] = keep
            return True

    def finish(self, run_id: str, revision: int, holder: str) -> bool:
        self.on_call("finish")
        with self._lock:
            found = self._held(run_id, revision, holder)
            if found is None:
                return False
            del self._holders[run_id]
            self.runs[run_id] = replace(found, state="over", payload="", leased_until=None)
            return True

    def release(self, run_id: str, revision: int, holder: str) -> None:
        self.on_call("release")
        with self._lock:
            found = self._held(run_id, revision, holder)
            if found is not None:
                del self._holders[run_id]
                self.runs[run_id] = replace(found, leased_until=None)


def sqlite_pauses(path: str, *, clock: Callable[[], float] = time.time) -> PauseTable:
    """Return the paused runs of a file."""
    return PauseTable(SQLiteDatabase(path), clock=clock)
