"""The processes that drive runs in a database, as others see them at a look: one statement for all of them."""

from __future__ import annotations

from typing import NamedTuple

from understudy.actors.stores.database import Database

GOING = """
SELECT owner, count(*), {held} FROM understudy_runs WHERE app = :app AND state = 'going' GROUP BY owner
"""


class RunOwner(NamedTuple):
    """A process that has runs which are not over."""

    owner: str
    runs: int
    """How many of one app."""
    is_held: bool | None
    """Whether its lock is held; None where the database does not know, and the lock itself must be asked."""


class RunOwners:
    """The owners of the runs in a database. Each call blocks for the database, and raises `StoreError` if that fails.

    Args:
        database: where the runs are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._going = GOING.format(**database.words)

    def going(self, app: str) -> list[RunOwner]:
        """Return the owners of the runs of an app that are not over."""
        rows = self._database.read(lambda sql: sql.execute(self._going, {"app": app}).fetchall())
        return [RunOwner(row[0], row[1], None if row[2] is None else bool(row[2])) for row in rows]
