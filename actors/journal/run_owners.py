"""The processes that drive runs in a database: each beats there while it does, and others see its beats and its lock.

A beat is one statement, and so is a look at all owners. In the transaction of its beat an owner learns where the runs
that it drives stand: which of them somebody asks it to cancel, and which of them another process has now.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from understudy.actors.stores.database import Database, Part, Sql, WritesFirst, prepare
from understudy.actors.stores.runs import run_values

AT_ONCE = 256  # Runs that one statement asks for at most.

RUN_OWNERS = Part(
    "run owners",
    [
        """CREATE TABLE understudy_run_owners (
            owner TEXT PRIMARY KEY, host TEXT NOT NULL, pid {bigint} NOT NULL, life TEXT NOT NULL,
            lease {real} NOT NULL, beats {bigint} NOT NULL
        )""",
    ],
)
"""`life` names the life of the server in which the owner had its lock at its last beat; `lease` is in seconds."""

# A beat that the server's restart delayed comes before the owner takes its lock again: it names no life of the server.
BEAT = """
INSERT INTO understudy_run_owners (owner, host, pid, life, lease, beats)
SELECT owner, :host, :pid, CASE WHEN {held} THEN {life} ELSE '' END, :lease, 0
FROM (SELECT CAST(:owner AS TEXT) AS owner) AS beating WHERE 1 = 1
ON CONFLICT (owner) DO UPDATE SET
    beats = understudy_run_owners.beats + 1, lease = excluded.lease, life = excluded.life
"""
REMOVE = "DELETE FROM understudy_run_owners WHERE owner = :owner"
GOING = """
SELECT owner, runs, {held}, life IS NULL OR life = {life}, beats, lease
FROM (SELECT owner, count(*) AS runs FROM understudy_runs WHERE app = :app AND state = 'going' GROUP BY owner) AS going
LEFT JOIN (SELECT owner AS name, life, beats, lease FROM understudy_run_owners) AS beating ON name = owner
"""
ALL = "SELECT owner, {held} FROM understudy_run_owners WHERE life = {life}"
HAS_BEATEN = "SELECT 1 FROM understudy_run_owners WHERE owner = :owner AND beats != :beats"
TOUCH = "UPDATE understudy_run_owners SET beats = beats WHERE owner = :owner"


class RunOwner(NamedTuple):
    """A process that has runs which are not over."""

    owner: str
    runs: int
    """How many of one app."""
    is_held: bool | None
    """Whether its lock is held; None where the database does not know, and the lock itself must be asked."""
    is_of_this_life: bool
    """Whether it had its lock in this life of the server at its last beat. If not, the lock is free whether or not it lives."""
    beats: int
    """-1 if it has not beaten yet."""
    lease: float | None
    """None if it has not beaten yet."""


class Standing(NamedTuple):
    """Where a run stands in the database."""

    epoch: int
    """Raised by each process that has taken the run over."""
    is_to_cancel: bool
    """Whether somebody asks the process that drives the run to cancel it."""


class RunOwners:
    """The owners of the runs in a database. Each call blocks for the database, and raises `StoreError` if that fails.

    Args:
        database: where the runs are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._write_first = database.write_first if isinstance(database, WritesFirst) else database.write
        prepare(database, RUN_OWNERS)
        self._beat, self._going, self._all = (each.format(**database.words) for each in (BEAT, GOING, ALL))

    def beat(self, owner: str, lease: float, runs: Sequence[int] = ()) -> dict[int, Standing]:
        """Tell others that an owner lives, and for how many seconds it keeps its runs without another beat.

        Args:
            owner: the name of the process.
            lease: in seconds.
            runs: the numbers of the runs that the process drives.

        Returns:
            Number of each of these runs -> where it stands; a run that was removed is missing.
        """

        def work(sql: Sql) -> dict[int, Standing]:
            self.beat_in(sql, owner, lease)
            return _standings(sql, runs)

        return self._write_first(work)

    def beat_in(self, sql: Sql, owner: str, lease: float) -> None:
        """Tell others in a transaction that does more that an owner lives; args as for `beat`."""
        sql.execute(self._beat, {"owner": owner, "lease": lease, "host": socket.gethostname(), "pid": os.getpid()})

    def remove(self, owner: str) -> None:
        """Forget an owner that drives no runs, or is gone."""
        self._database.write(lambda sql: sql.execute(REMOVE, {"owner": owner}))

    def going(self, app: str) -> list[RunOwner]:
        """Return the owners of the runs of an app that are not over."""
        rows = self._database.read(lambda sql: sql.execute(self._going, {"app": app}).fetchall())
        return [
            RunOwner(owner, runs, _flag(held), bool(is_of_life), -1 if beats is None else beats, lease)
            for owner, runs, held, is_of_life, beats, lease in rows
        ]

    def all(self) -> list[tuple[str, bool | None]]:
        """Return the owners that have beaten in this life of the server, and whether the lock of each is held."""
        rows = self._database.read(lambda sql: sql.execute(self._all).fetchall())
        return [(row[0], _flag(row[1])) for row in rows]

    def prove_writes(self, owner: str) -> None:
        """Write into the row of an owner, changing nothing, to learn whether the database can be written."""
        self._database.write(lambda sql: sql.execute(TOUCH, {"owner": owner}))


def is_silent(sql: Sql, owner: str, beats: int) -> bool:
    """Whether an owner has not beaten since a look, in the transaction that takes a run from it."""
    return sql.execute(HAS_BEATEN, {"owner": owner, "beats": beats}).fetchone() is None


def _standings(sql: Sql, runs: Sequence[int]) -> dict[int, Standing]:
    found: dict[int, Standing] = {}
    for first in range(0, len(runs), AT_ONCE):
        some = runs[first : first + AT_ONCE]
        values = run_values(some)
        for run, epoch, is_to_cancel in sql.execute(standings_of(len(values)), values).fetchall():
            found[run] = Standing(epoch, bool(is_to_cancel))
    return found


@cache
def standings_of(count: int) -> str:
    """Return the statement that asks where so many runs stand."""
    runs = ", ".join([f":run{at}" for at in range(count)])
    return f"SELECT run, epoch, cancel_requested IS NOT NULL FROM understudy_runs WHERE run IN ({runs})"


def _flag(found: object) -> bool | None:
    return None if found is None else bool(found)
