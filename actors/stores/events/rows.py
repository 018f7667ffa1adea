"""The rows of the events of runs: what they are, and when they go."""

from __future__ import annotations

from math import inf

from understudy.actors.stores.database import Sql

EVENT = "event"
"""The kind of a row that has an event of the outermost run; its name has the order of the numbers."""
EVENTS_KEPT = 3600.0  # Seconds after the end of a run, or after a pause, for which its events are kept.
UNDER_WAY = inf  # Until when the events of a run under way are kept.

_OF_RUN = f"FROM understudy_run_rows WHERE run = :run AND path = '' AND kind = '{EVENT}'"
_LAST = f"SELECT MAX(name) {_OF_RUN}"
_DROP = f"DELETE {_OF_RUN}"
_FORGET = "UPDATE understudy_runs SET events_until = NULL WHERE run = :run AND events_until <= :now"
_KEEPS = "SELECT run_id, runner_id FROM understudy_runs WHERE run = :run AND events_until IS NOT NULL"
_PUT = f"""
INSERT INTO understudy_run_rows (run, path, kind, name, body) VALUES (:run, '', '{EVENT}', :name, :body)
ON CONFLICT (run, path, kind, name) DO NOTHING
"""


def next_event(sql: Sql, run: int) -> int | None:
    """Return the number after that of a run's last event; None if the store has none."""
    row = sql.execute(_LAST, {"run": run}).fetchone()
    return None if row is None or row[0] is None else int(row[0]) + 1


def forget_events(sql: Sql, run: int, now: float) -> None:
    """Remove the events of a run whose time is over."""
    # The row of the run first: a process that goes on with the run at this moment keeps its events.
    if sql.execute(_FORGET, {"run": run, "now": now}).rowcount == 1:
        sql.execute(_DROP, {"run": run})


def note_cancelled(sql: Sql, run: int, now: float) -> None:
    """Write the last event of a run that nobody drives and that is cancelled, if its events are kept."""
    from understudy.orchestration.journal.event_text import cancelled_text, key_of_event  # loads pydantic

    kept = sql.execute(_KEEPS, {"run": run}).fetchone()
    if kept is not None:
        seq = next_event(sql, run) or 0
        body = cancelled_text(kept[0], kept[1], seq, now)
        sql.execute(_PUT, {"run": run, "name": key_of_event(seq), "body": body})
