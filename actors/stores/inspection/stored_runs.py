"""Runs of all processes in a store: where each stands, and the two ways to end one from outside.

What was looked at may change before something is done about it: another process goes on with the run, or a person answers.
So each change compares the run with the look in its own transaction, and does nothing if they differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeAlias, cast

from understudy.actors.stores.database import Database, Sql, SqlValue
from understudy.actors.stores.events.pages import EventPage, read_events
from understudy.actors.stores.events.rows import EVENTS_KEPT, note_cancelled
from understudy.actors.stores.process_locks import HasLocks, Locks
from understudy.actors.stores.runs import DROP_ALL, DROP_ROWS, KEPT, MAX_TAKEOVERS, user_of
from understudy.errors import StoreError
from understudy.vocabulary.runs.stored_runs import StoredRunPhase, StoredRunStatus

from .run_list import PauseHead, RunEntry, RunHead, RunList, fields_of

Change: TypeAlias = Literal["done", "requested", "driven", "over", "changed"]
"""What came of a change: it was done; the process that drives the run was asked; a living process drives the run; it was over; or
the run has changed since the look, and nothing was done."""

MOST_TRIES = 20  # A run that changes between each look and its change goes on and pauses all the time.

_DELETE_RUN = "DELETE FROM understudy_runs WHERE run = :run"
_DELETE_PAUSE = "DELETE FROM understudy_pauses WHERE run_id = :run_id"
_CANCEL_RUN = """
UPDATE understudy_runs SET state = 'over', epoch = epoch + 1, ended_at = :now, forget_at = :forget_at, accepted = '',
    ending = 'cancelled', events_until = CASE WHEN events_until IS NULL THEN NULL ELSE :events_until END
WHERE run = :run
"""
_CANCEL_PAUSE = """
UPDATE understudy_pauses SET state = 'over', payload = '', forget_at = :forget_at, holder = NULL, leased_until = NULL
WHERE run_id = :run_id
"""
_REQUEST = "UPDATE understudy_runs SET cancel_requested = :now WHERE run = :run AND cancel_requested IS NULL"


class StoredRuns:
    """The runs of a store. Each call blocks for the database.

    Args:
        database: where they are; its tables are those of this version, unless it is only looked at.
        locks: which processes live; None if nobody knows, so that a run under way counts as driven.
        is_driven: tells of a run and its owner what this process knows better than the locks.
        clock: seconds since 1970.

    Raises:
        StoreError: another version of this package made the tables, or the database failed.
    """

    def __init__(
        self,
        database: Database,
        locks: Locks | None,
        *,
        is_driven: Callable[[str, str], bool] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._locks = locks
        self._is_driven = is_driven
        self._clock = clock
        self.list = RunList(database)

    def _lives(self, owner: str) -> bool:
        return self._locks is None or self._locks.lives(owner)

    def status(self, entry: RunEntry) -> StoredRunStatus:
        """Return where a run stands."""
        lives = self._lives if self._is_driven is None else partial(self._is_driven, entry.run_id)
        return standing(entry, lives, self._clock())

    def events(self, run_id: str, after: str) -> EventPage | None:
        """Return the events of a run after a key; None if there is no such run."""
        return read_events(self._database, run_id, after)

    def statuses(self, app: str = "", *, over: bool = False) -> Iterator[StoredRunStatus]:
        """Iterate over the runs of an app, or of all; with `over`, those that ended too."""
        known: dict[str, bool] = {}

        def lives(owner: str) -> bool:
            if owner not in known:
                known[owner] = self._lives(owner)
            return known[owner]

        for entry in self.list.entries(app, over=over):
            yield standing(entry, lives, self._clock())

    def delete(self, entry: RunEntry) -> Change:
        """Remove all that is kept of a run, unless a living process drives it."""
        if self.status(entry).phase == "under_way":
            return "driven"

        def remove(sql: Sql) -> Change:
            if not entry.is_as(self.list.entry_in(sql, entry.run_id)):
                return "changed"
            if entry.head is not None:
                sql.execute(DROP_ALL, {"run": entry.head.run})
                sql.execute(_DELETE_RUN, {"run": entry.head.run})
            if entry.pause is not None:
                sql.execute(_DELETE_PAUSE, {"run_id": entry.run_id})
            return "done"

        return self._database.write(remove, durable=True)

    def cancel_latest(self, look: Callable[[], RunEntry]) -> Change:
        """Cancel a run as `cancel` does, and look again if it has changed since the look.

        Raises:
            StoreError: it changes all the time, or the store failed.
        """
        entry = look()
        for _ in range(MOST_TRIES):
            change = self.cancel(entry)
            if change != "changed":
                return change
            entry = look()
        raise StoreError(
            f"run {entry.run_id} goes on and pauses all the time, and could not be cancelled: try again",
            store=repr(self._database),
        )

    def cancel(self, entry: RunEntry) -> Change:
        """End a run for good. One that a living process drives is asked to end: the process looks for that.

        A turn that a worker does under a lease is lost, for the token of the run is closed.
        """
        phase = self.status(entry).phase
        if phase == "over":
            return "over"
        is_driven = phase == "under_way" and entry.head is not None and entry.head.state == "going"
        change = self._request_in if is_driven else self._end_in
        return self._database.write(lambda sql: change(sql, entry), durable=True)

    def _end_in(self, sql: Sql, entry: RunEntry) -> Change:
        if not entry.is_as(self.list.entry_in(sql, entry.run_id)):
            return "changed"
        now = self._clock()
        values: dict[str, SqlValue] = {"now": now, "forget_at": now + KEPT}
        if entry.head is not None:
            sql.execute(DROP_ROWS, {"run": entry.head.run})
            sql.execute(_CANCEL_RUN, {"run": entry.head.run, "events_until": now + EVENTS_KEPT, **values})
            if entry.head.state == "going":  # of a run that waits, the last event has told so
                note_cancelled(sql, entry.head.run, now)
        if entry.waits is not None:
            sql.execute(_CANCEL_PAUSE, {"run_id": entry.run_id, "forget_at": now + KEPT})
        return "done"

    def _request_in(self, sql: Sql, entry: RunEntry) -> Change:
        if not entry.is_as(self.list.entry_in(sql, entry.run_id)):
            return "changed"
        assert entry.head is not None, "a run that a process drives has a row"
        sql.execute(_REQUEST, {"run": entry.head.run, "now": self._clock()})
        return "requested"


def runs_in(database: Database) -> StoredRuns:
    """Return the runs in a database, with the locks of the processes that have it."""
    return StoredRuns(database, database.locks if isinstance(database, HasLocks) else None)


def standing(entry: RunEntry, lives: Callable[[str], bool], now: float) -> StoredRunStatus:
    """Return where a run stands.

    Args:
        entry: what the store has of it.
        lives: whether the process of a name lives.
        now: seconds since 1970.
    """
    if entry.head is not None and entry.head.state != "over":
        return _journaled(entry.head, lives)
    pause = entry.waits
    if pause is not None:
        return _waiting(entry, pause, now)
    return _over(entry)


def _journaled(head: RunHead, lives: Callable[[str], bool]) -> StoredRunStatus:
    phase: StoredRunPhase = "left"
    reason = ""
    if head.state == "parked":
        phase, reason = "cannot_go_on", head.ending
    elif lives(head.owner):
        phase = "under_way"
    elif head.takeovers >= MAX_TAKEOVERS:
        phase, reason = "cannot_go_on", f"{head.takeovers} processes died while they drove it"
    return _of_head(head, phase, reason, head.created_at)


def _of_head(head: RunHead, phase: StoredRunPhase, reason: str, since: float | None) -> StoredRunStatus:
    return StoredRunStatus(
        run_id=head.run_id,
        system=head.app,
        runner_id=head.runner_id,
        phase=phase,
        reason=reason,
        since=since,
        takeovers=head.takeovers,
        user_id=head.user_id,
        conversation_id=head.conversation_id,
        cancel_requested=head.cancel_requested is not None and phase != "over",
    )


def _waiting(entry: RunEntry, pause: PauseHead, now: float) -> StoredRunStatus:
    told = fields_of(pause.payload)
    is_leased = pause.leased_until is not None and pause.leased_until > now  # a worker does one turn of it
    user = told.get("user_id")
    return StoredRunStatus(
        run_id=entry.run_id,
        system=entry.app,
        runner_id=cast(str, told.get("runner_id") or ""),
        phase="under_way" if is_leased else "waiting",
        reason=entry.head.ending if entry.head is not None else "",
        since=_began(entry) if is_leased else pause.put_at,
        takeovers=0 if entry.head is None else entry.head.takeovers,
        user_id=None if user is None else user_of(cast(str, user)),
        conversation_id=cast("str | None", told.get("conversation_id")),
        by_error=told.get("by_error") is True,
    )


def _began(entry: RunEntry) -> float | None:
    return None if entry.head is None else entry.head.created_at


def _over(entry: RunEntry) -> StoredRunStatus:
    if entry.head is not None:
        return _of_head(entry.head, "over", entry.head.ending, entry.head.ended_at)
    return StoredRunStatus(run_id=entry.run_id, system=entry.app, runner_id="", phase="over")
