"""The events of a run as a reader in any process gets them from the database: page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from understudy.actors.stores.database import Database

from .rows import EVENT

PAGE = 200  # Events that a reader gets with one query at most.

READ = f"""
SELECT r.state, r.ending, CASE WHEN r.events_until IS NULL THEN 0 ELSE 1 END, e.name, e.body
FROM understudy_runs r LEFT JOIN understudy_run_rows e
    ON e.run = r.run AND e.path = '' AND e.kind = '{EVENT}' AND e.name > :after
WHERE r.run_id = :run_id ORDER BY e.name LIMIT {PAGE}
"""


class EventPage(NamedTuple):
    """Some events of a run, and where the run stood when they were read."""

    is_going: bool
    """Whether it is under way, or was left."""
    ending: str
    """How it ended, in a word."""
    are_kept: bool
    """Whether its events are kept; else there are none."""
    rows: Sequence[tuple[str, str]]
    """Key and text of each event, in order; no more than `PAGE`."""


def read_events(database: Database, run_id: str, after: str) -> EventPage | None:
    """Return the events of a run after a key, by one query; None if there is no such run.

    Raises:
        StoreError: the database failed.
    """
    values = {"run_id": run_id, "after": after}
    rows = database.read(lambda sql: sql.execute(READ, values).fetchall())
    if not rows:
        return None
    state, ending, are_kept, name, _ = rows[0]
    found = [] if name is None else [(str(row[3]), str(row[4])) for row in rows]
    return EventPage(state == "going", ending, bool(are_kept), found)
