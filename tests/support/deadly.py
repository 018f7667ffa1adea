"""A database that does a deed before or after one of its writes: it kills its process, if nothing else is said."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from understudy.actors.stores.database import Database, HasFigures, OpenSql, Sql, StoreFigures
from understudy.actors.stores.process_locks import HasLocks, Locks

T = TypeVar("T")


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def never() -> bool:
    """Say no."""
    return False


class DeadlyDatabase:
    """A `Database` that counts its writes.

    Args:
        inner: does the work.
        deadly: the write with the deed, counted from 1; 0 for none.
        before: whether the deed comes before that write.
    """

    def __init__(self, inner: Database, deadly: int = 0, *, before: bool = True) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.writes = 0
        self.deadly = deadly
        self.before = before
        self.deed: Callable[[], object] = die
        """Is called in the thread that writes."""
        self.is_due: Callable[[], bool] = never
        """Is asked after each write, in the thread that writes, whether it comes now."""

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def words(self) -> Mapping[str, str]:
        return self._inner.words

    @property
    def locks(self) -> Locks | None:
        return self._inner.locks if isinstance(self._inner, HasLocks) else None

    def figures(self) -> StoreFigures:
        assert isinstance(self._inner, HasFigures)
        return self._inner.figures()

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        return self._counted(lambda: self._inner.write(work, durable=durable))

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        return self._counted(lambda: self._inner.write_alone(work))

    def _counted(self, write: Callable[[], T]) -> T:
        with self._lock:
            self.writes += 1
            is_deadly = self.writes == self.deadly
        if is_deadly and self.before:
            self.deed()
        done = write()
        if (is_deadly and not self.before) or self.is_due():
            self.deed()
        return done

    def read(self, work: Callable[[Sql], T]) -> T:
        return self._inner.read(work)

    def drop_remains(self) -> None:
        self._inner.drop_remains()
