"""Figures of a store, for `ActorSystem.health()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """One store at one moment; counts are of this process: of one system's connections to PostgreSQL, or of all systems that share a file."""

    store: str
    """Its URL."""
    transactions: int
    """Transactions that were committed; in an SQLite file, calls that come at the same time share one."""
    calls: int
    """Reads and writes that have ended."""
    failed: int
    """Calls of these that ended in a `StoreError`."""
    repeated: int = 0
    """Transactions that PostgreSQL refused because of others, or that lost their connection, and that were done again."""
    waiting: int
    """Calls that wait for their turn, or for a connection."""
    high_water: int
    """The most that ever waited at once."""
    busy_for: float | None
    """Seconds since the thread that commits now began, the first one of several; None if nobody is at work."""
    last_error: str
    """The text of the last `StoreError`; empty if there was none."""


@runtime_checkable
class HasFigures(Protocol):
    """A database that counts."""

    def figures(self) -> StoreFigures:
        """Return its figures; waits for nothing."""
        ...
