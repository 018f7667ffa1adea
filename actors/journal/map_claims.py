"""Which process carries out a map with a name: one at a time, and in it one caller."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import LeaseLost, MapInUse
from understudy.vocabulary.runs.conversations import NO_USER

if TYPE_CHECKING:
    from understudy.actors.stores.maps.map_table import MapClaim, MapTable, StoredMap
    from understudy.actors.stores.process_locks import Locks


class NamedMaps:
    """The maps of one system in its store. Safe to use from any thread; its calls block for the store.

    Args:
        table: where the maps are.
        locks: which processes live.
        app: the system's name.
    """

    def __init__(self, table: MapTable, locks: Locks, app: str) -> None:
        self.table = table
        self._locks = locks
        self._app = app

    def claim(self, name: str, runner_id: str, user_id: str | None) -> MapClaim:
        """Take a map for this caller.

        Raises:
            MapInUse: another process, or another caller here, carries it out.
            ValueError: it is a map of another runner or user.
            StoreError: the store failed.
        """
        self._enter(name)
        try:
            found = self.table.made(self._app, name, runner_id, NO_USER if user_id is None else user_id)
            _check(found, name, runner_id, user_id)
            self._refuse_if_carried_out(found, name)
            claim = self.table.claim(found, self._locks.name())
            if claim is None:
                raise MapInUse(f"map {name!r}: another caller was first to begin it")
        except BaseException:
            self._leave(name)
            raise
        return claim

    def _refuse_if_carried_out(self, found: StoredMap, name: str) -> None:
        here = self._locks.name()
        if found.owner and found.owner != here and self._locks.lives(found.owner):
            raise MapInUse(
                f"map {name!r} is under way in process {found.owner}; begin it again when that one is done, or has died"
            )

    def refuse_if_lost(self, name: str, claim: MapClaim) -> None:
        """Raise `LeaseLost` if this is no longer the process that has the map, such as a forked child."""
        if claim.owner != self._locks.name():
            raise self.lost(name)

    def lost(self, name: str) -> LeaseLost:
        """Return the error for a map that another process has, or that was forgotten."""
        return LeaseLost(f"map {name!r} is not this process's any more: another one took it over, or forgot it")

    def release(self, name: str, claim: MapClaim) -> None:
        """Give a map back."""
        try:
            if claim.owner == self._locks.name():
                self.table.release(claim)
        finally:
            self._leave(name)

    def forget(self, name: str) -> int:
        """Remove a map; returns how many results it had. Raises as `claim`."""
        self._enter(name)
        try:
            found = self.table.find(self._app, name)
            if found is None:
                return 0
            self._refuse_if_carried_out(found, name)
            count = self.table.drop(found)
            if count is None:
                raise MapInUse(f"map {name!r}: another caller has begun it meanwhile")
            return count
        finally:
            self._leave(name)

    def _key(self, name: str) -> tuple[str, str, str]:
        return repr(self.table), self._app, name

    def _enter(self, name: str) -> None:
        with _lock:
            if self._key(name) in _carried_out:
                raise MapInUse(f"map {name!r} is under way in this process; finish its loop, or close its generator")
            _carried_out.add(self._key(name))

    def _leave(self, name: str) -> None:
        """Let other callers of this process have a map."""
        with _lock:
            _carried_out.discard(self._key(name))


def _check(found: StoredMap, name: str, runner_id: str, user_id: str | None) -> None:
    from understudy.actors.stores.runs import id_text

    if found.runner_id != runner_id:
        raise ValueError(f"map {name!r} belongs to {found.runner_id!r}, not to {runner_id!r}; choose another name")
    if found.user_id != id_text(NO_USER if user_id is None else user_id):
        raise ValueError(f"map {name!r} belongs to another user; choose a name for each user")


_lock = threading.Lock()
"""Guards the names of the maps that this process carries out; two systems of one process may have one store."""
_carried_out: set[tuple[str, str, str]] = set()
"""Store, system and name of each."""


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _carried_out.clear()


at_fork(Stage.STORES, _begin_anew_in_child)
