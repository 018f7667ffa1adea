"""Owners: the processes that have something in a store. Each beats while it has, and is dead when it stops to beat.

An owner beats by one statement for all that it has. Others watch the number of its beats by their own clocks, so clocks of
two hosts are never compared. An owner that was taken for dead and comes back has lost what it had, and each of its
writes finds that out in its own transaction.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from .database import Part, Sql

BEATS = 10  # In the time of a lease.
MISSED = 8  # Missed beats after which an owner is dead; with the beat before and the look after, that is one lease.

OWNERS = Part(
    "owners",
    [
        """CREATE TABLE understudy_owners (
            owner TEXT PRIMARY KEY, host TEXT NOT NULL, pid {bigint} NOT NULL, beats {bigint} NOT NULL,
            started_at {real} NOT NULL
        )""",
    ],
)

JOIN = "INSERT INTO understudy_owners VALUES (:owner, :host, :pid, 0, :now) ON CONFLICT (owner) DO NOTHING"
BEAT = "UPDATE understudy_owners SET beats = beats + 1 WHERE owner = :owner"
OTHERS = "SELECT owner, beats FROM understudy_owners WHERE owner != :owner"
BURY = "DELETE FROM understudy_owners WHERE owner = :owner AND beats = :beats"


def join(sql: Sql, owner: str, now: float) -> None:
    """Enter an owner, if it is not there."""
    sql.execute(JOIN, {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "now": now})


def others(sql: Sql, owner: str) -> dict[str, int]:
    """Return how often each other owner has beaten."""
    return {row[0]: row[1] for row in sql.execute(OTHERS, {"owner": owner}).fetchall()}


def bury(sql: Sql, owner: str, beats: int) -> bool:
    """Remove a dead owner; False if it has beaten meanwhile."""
    return sql.execute(BURY, {"owner": owner, "beats": beats}).rowcount == 1


class _Seen(NamedTuple):
    beats: int
    since: float
    """When this number was seen first."""


class Watch:
    """Tells which owners are dead, from what a process sees of them at its looks. For one thread at a time.

    Args:
        lease: seconds after the death of an owner in which it is found.
    """

    def __init__(self, lease: float) -> None:
        self._interval = lease / BEATS
        self._seen: dict[str, _Seen] = {}
        self._looked_at = float("-inf")

    def look(self, found: Mapping[str, int], now: float) -> list[tuple[str, int]]:
        """Return the dead owners, and the number of beats at which each stopped.

        Args:
            found: the beats of each owner.
            now: the time on this process's monotonic clock.
        """
        slept = now - self._looked_at > 3 * self._interval  # then this process may have stood still, and the others too
        self._looked_at = now
        before: Mapping[str, _Seen] = {} if slept else self._seen
        self._seen = {owner: _seen(before.get(owner), beats, now) for owner, beats in found.items()}
        limit = MISSED * self._interval
        return [(owner, seen.beats) for owner, seen in self._seen.items() if now - seen.since >= limit]


def _seen(before: _Seen | None, beats: int, now: float) -> _Seen:
    return before if before is not None and before.beats == beats else _Seen(beats, now)
