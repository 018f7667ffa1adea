"""Session values in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.context.session_values import SessionOwner, is_same

from .sessions import AlsoNote, SessionChange, SessionCommit, StoredValue, is_of_user

OWNERS = 10_000  # Apps, users and conversations; as many as `InMemoryMemory` has conversations.
REMOVED = 10_000  # Removed keys whose version is known.


_lock = threading.Lock()
"""Guards the tables of all stores in memory of this process. Nobody's code runs under it."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()


at_fork(Stage.STORES, _begin_anew_in_child)


class _Entry(NamedTuple):
    stored: StoredValue
    run_id: str


class SessionsInMemory:
    """`Sessions` in memory: it keeps values of any type, and forgets the least recently used owners.

    Args:
        max_owners: how many apps, users and conversations it knows.
        max_removed: of how many removed keys it knows the version.
        clock: seconds since 1970.
    """

    is_quick = True

    def __init__(
        self, max_owners: int = OWNERS, max_removed: int = REMOVED, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.has_values = False
        self._clock = clock
        self._max_owners = max_owners
        self._max_removed = max_removed
        self._owned: OrderedDict[SessionOwner, dict[str, _Entry]] = OrderedDict()
        """The owner used last is the last one."""
        self._removed: OrderedDict[tuple[SessionOwner, str], None] = OrderedDict()
        """Keys that were removed, each the last one then; some have a value again."""

    def load(self, owners: Sequence[SessionOwner]) -> dict[str, StoredValue]:
        found = dict[str, StoredValue]()
        with _lock:
            for owner in owners:
                entries = self._owned.get(owner)
                if entries is not None:
                    self._owned.move_to_end(owner)
                    found.update({key: entry.stored for key, entry in entries.items()})
        return found

    def commit(
        self, run_id: str, changes: Sequence[SessionChange], *, yields: bool = False, also: AlsoNote | None = None
    ) -> Sequence[SessionCommit]:
        with _lock:
            done = [self._committed(run_id, change, yields) for change in changes]
            while len(self._owned) > self._max_owners:
                self._owned.popitem(last=False)
            while len(self._removed) > self._max_removed:
                self._forget(*self._removed.popitem(last=False)[0])
            self.has_values = bool(self._owned)
        return done

    def count(self, user: str, app: str | None) -> int:
        with _lock:
            return sum([len(self._owned[owner]) for owner in self._of_user(user, app)])

    def erase(self, user: str, app: str | None) -> int:
        with _lock:
            found = sum([len(self._owned.pop(owner)) for owner in self._of_user(user, app)])
            self.has_values = bool(self._owned)
        return found

    def _of_user(self, user: str, app: str | None) -> list[SessionOwner]:
        return [owner for owner in self._owned if is_of_user(owner.names, user, app)]

    def _committed(self, run_id: str, change: SessionChange, yields: bool) -> SessionCommit:
        entry = self._owned.get(change.owner, {}).get(change.key)
        if entry is None:
            version = int(self._clock() * 1000)  # as in a table: not the version of an entry that is forgotten
            return SessionCommit(change.key, 0) if change.is_removed else self._put(run_id, change, version, "")
        version, value, is_there = entry.stored
        if is_there is not change.is_removed and (not is_there or is_same(value, change.value)):
            return SessionCommit(change.key, version)
        other = "" if version == change.seen or entry.run_id == run_id else entry.run_id
        if other and yields:
            return SessionCommit(change.key, version, other)
        return self._put(run_id, change, version + 1, other)

    def _put(self, run_id: str, change: SessionChange, version: int, other: str) -> SessionCommit:
        owner, key, value, is_removed, _ = change
        self._owned.setdefault(owner, {})[key] = _Entry(StoredValue(version, value, not is_removed), run_id)
        self._owned.move_to_end(owner)
        if is_removed:
            self._removed[owner, key] = None
            self._removed.move_to_end((owner, key))
        return SessionCommit(key, version, other)

    def _forget(self, owner: SessionOwner, key: str) -> None:
        """Forget a removed key, unless it has a value again."""
        entries = self._owned.get(owner, {})
        entry = entries.get(key)
        if entry is not None and not entry.stored.is_there:
            del entries[key]
            if not entries:
                del self._owned[owner]
