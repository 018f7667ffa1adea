"""Runs in a database, so that another process can go on with them: each as it was accepted, and the rows of its journal.

A run has an owner, the process that drives it, and an epoch. A process that takes the run over raises the epoch. A later write
of the process before it names the old epoch, and is refused.

A run whose events are kept has a row for each of them. These rows outlive its end by `EVENTS_KEPT` seconds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from understudy.orchestration.journal.rows import DEFINITION
from understudy.vocabulary.runs.conversations import NO_USER

from .database import Database, Part, Row, Sql, SqlValue, Table
from .events.rows import EVENT, EVENTS_KEPT, UNDER_WAY, forget_events, next_event
from .process_locks import NOBODY
from .transactions.served_transaction import ServedTransaction

KEPT = 30 * 86_400.0  # Seconds for which the end of a run is told.
AT_ONCE = 16  # Rows that one statement writes at most.
_PARAMETERS = [(f"path{at}", f"kind{at}", f"name{at}", f"body{at}") for at in range(AT_ONCE)]
MAX_TAKEOVERS = 50  # A run that outlives so many processes may be what they die of.

RUNS = Part(
    "runs",
    [
        """CREATE TABLE understudy_runs (
            run {identity}, run_id TEXT NOT NULL UNIQUE, app TEXT NOT NULL, runner_id TEXT NOT NULL,
            user_id TEXT NOT NULL, conversation_id TEXT, owner TEXT NOT NULL, epoch {bigint} NOT NULL,
            state TEXT NOT NULL, takeovers INTEGER NOT NULL, created_at {real} NOT NULL, ended_at {real},
            forget_at {real}, accepted TEXT NOT NULL, ending TEXT NOT NULL, cancel_requested {real}, events_until {real}
        )""",
        "CREATE INDEX understudy_runs_state ON understudy_runs (app, state)",
        "CREATE INDEX understudy_runs_user ON understudy_runs (user_id, app)",
        "CREATE INDEX understudy_runs_forget_at ON understudy_runs (forget_at)",
        """CREATE TABLE understudy_run_rows (
            id {row_id}, run {bigint} NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            body TEXT NOT NULL
        )""",
        "CREATE UNIQUE INDEX understudy_run_rows_name ON understudy_run_rows (run, path, kind, name)",
        """CREATE INDEX understudy_runs_events_until ON understudy_runs (events_until)
            WHERE events_until IS NOT NULL""",
    ],
)
"""A run's `state` is going, parked or over. The outermost run has the path ''. `events_until` is NULL if its events are not kept."""

FORGOTTEN = """
SELECT run, 1, CASE WHEN events_until IS NULL THEN 0 ELSE 1 END FROM understudy_runs WHERE forget_at <= :now
UNION ALL SELECT run, 0, 1 FROM understudy_runs WHERE events_until <= :now LIMIT 20
"""
_FORGET = "DELETE FROM understudy_runs WHERE run = :run"
ACCEPT = """
INSERT INTO understudy_runs (run_id, app, runner_id, user_id, conversation_id, owner, epoch, state, takeovers, created_at,
    accepted, ending, events_until)
VALUES (:run_id, :app, :runner_id, :user_id, :conversation_id, :owner, 1, 'going', 0, :now, :accepted, '', :events_until)
ON CONFLICT (run_id) DO UPDATE SET owner = excluded.owner, epoch = understudy_runs.epoch + 1, state = 'going',
    accepted = excluded.accepted, ended_at = NULL, forget_at = NULL, ending = '', cancel_requested = NULL,
    events_until = excluded.events_until
RETURNING run, epoch
"""
_HOLD = "UPDATE understudy_runs SET epoch = epoch WHERE run = :run AND epoch = :epoch"
FENCE = f"{_HOLD} AND state = 'going'"
DROP_PATH = f"DELETE FROM understudy_run_rows WHERE run = :run AND path = :path AND kind != '{EVENT}'"
DROP_ALL = "DELETE FROM understudy_run_rows WHERE run = :run"
DROP_ROWS = f"{DROP_ALL} AND kind != '{EVENT}'"
END = """
UPDATE understudy_runs SET state = :state, ended_at = :now, forget_at = :forget_at, accepted = '', ending = :ending,
    events_until = CASE WHEN events_until IS NULL THEN NULL ELSE :events_until END
WHERE run = :run AND epoch = :epoch AND state = 'going'
"""
_STORED = f"""
SELECT run, run_id, runner_id, user_id, conversation_id, owner, epoch, takeovers, accepted, cancel_requested, (
    SELECT body FROM understudy_run_rows AS its WHERE its.run = understudy_runs.run AND path = '' AND kind = '{DEFINITION}' AND name = ''
) FROM understudy_runs WHERE state = 'going'
"""
LEFT = f"{_STORED} AND app = :app ORDER BY run"
LEFT_BY = f"{_STORED} AND app = :app AND owner = :owner ORDER BY run"
IS_LEFT = "SELECT 1 FROM understudy_runs WHERE run = :run AND epoch = :epoch AND state = 'going'"
GOING = f"{_STORED} AND run_id = :run_id"
EVENTS = f"SELECT body FROM understudy_run_rows WHERE run = :run AND path = '' AND kind = '{EVENT}' ORDER BY name"
ROWS = f"SELECT path, kind, name, body FROM understudy_run_rows WHERE run = :run AND kind != '{EVENT}' ORDER BY id"
TAKEN = "SELECT 1 FROM understudy_runs WHERE run = :run AND epoch > :epoch"
DRIVEN = "SELECT DISTINCT owner FROM understudy_runs WHERE state = 'going'"
OF_USER = "SELECT run, state FROM understudy_runs WHERE user_id = :user_id"


def user_of(stored: str) -> str | None:
    """Return the user of a run; None for the word under which the table has runs without one."""
    return None if stored == NO_USER else stored


class RunRow(NamedTuple):
    """One row of a journal; it replaces an earlier one of its path, kind and name."""

    path: str
    kind: str
    name: str
    body: str


class NewRun(NamedTuple):
    """A run that a process is about to drive."""

    run_id: str
    app: str
    """The name of its system."""
    runner_id: str
    owner: str
    """The process."""
    user_id: str | None
    conversation_id: str | None


class Claim(NamedTuple):
    """What a process has of a run that it drives."""

    run: int
    """The number of the run in this store."""
    epoch: int
    next_event: int | None = None
    """The number after that of its last event in the store; None if none is there."""


class StoredRun(NamedTuple):
    """A run that is not over."""

    run: int
    run_id: str
    runner_id: str
    user_id: str | None
    conversation_id: str | None
    owner: str
    epoch: int
    takeovers: int
    """How often a process took it over from another one."""
    accepted: str
    cancel_requested: float | None
    """When somebody asked its process to cancel it."""
    definition: str | None
    """Its row with the definition of its runner; None if it has no rows yet."""


def owners_in(database: Database) -> list[str]:
    """Return the processes that have runs under way in a database, whatever version of this package made its tables."""

    def look(sql: Sql) -> list[str]:
        tables = {str(row[0]) for row in sql.execute(database.words["tables"]).fetchall()}
        rows = sql.execute(DRIVEN).fetchall() if "understudy_runs" in tables else []
        return [str(row[0]) for row in rows if row[0] != NOBODY]

    return database.read(look)


class RunTable(Table):
    """The runs of all systems in a database. Each call blocks for the database."""

    part = RUNS

    def accept(
        self,
        run: NewRun,
        accepted: str,
        *,
        rows: Sequence[RunRow] = (),
        also: Callable[[Sql], bool] | None = None,
        beat: Callable[[Sql], object] | None = None,
        keeps_events: bool = False,
    ) -> Claim | None:
        """Note that a process drives a run from now on: a new one, or one that was paused.

        Args:
            run: who it is.
            accepted: what begins it anew, until it has rows.
            rows: of a run that goes on.
            also: what else is done in the transaction; if it returns False, nothing is done.
            beat: tells in the transaction that the process lives, also if `also` returns False.
            keeps_events: whether its events are kept.

        Returns:
            The claim; None if `also` returned False.
        """
        now = self._clock()
        row: dict[str, SqlValue] = {**run._asdict(), "now": now, "events_until": UNDER_WAY if keeps_events else None}
        row["user_id"] = id_text(NO_USER if run.user_id is None else run.user_id)
        row["conversation_id"] = None if run.conversation_id is None else id_text(run.conversation_id)

        def write(sql: Sql) -> Claim | None:
            if beat is not None:
                beat(sql)
            if also is not None and not also(sql):
                return None
            _forget(sql, now)
            found = sql.execute(ACCEPT, row | {"accepted": accepted}).fetchone()
            assert found is not None, "the statement returns the row that it wrote"
            claim = Claim(int(found[0]), int(found[1]))
            if claim.epoch > 1:
                sql.execute(DROP_ROWS, {"run": claim.run})
                if keeps_events:
                    claim = claim._replace(next_event=next_event(sql, claim.run))
            _put(sql, claim, rows)
            return claim

        return self._database.write(write, durable=also is not None)

    def commit(
        self,
        claim: Claim,
        rows: Sequence[RunRow],
        drop: Iterable[str] = (),
    ) -> bool:
        """Write rows of a run.

        Args:
            claim: of this process.
            rows: new or changed ones.
            drop: paths whose rows go.

        Returns:
            False if another process has the run, or it is over; then nothing is written.
        """
        gone = list(drop)
        return self._database.write(lambda sql: self.commit_in(sql, claim, rows, gone))

    def commit_in(
        self,
        sql: Sql,
        claim: Claim,
        rows: Sequence[RunRow],
        drop: Iterable[str] = (),
    ) -> bool:
        """Write rows of a run as `commit` does, in a transaction that does more."""
        if sql.execute(FENCE, _of(claim)).rowcount != 1:
            return False
        for path in drop:
            sql.execute(DROP_PATH, {"run": claim.run, "path": path})
        _put(sql, claim, rows)
        return True

    def transaction(self, guard: threading.Lock, limit: float) -> ServedTransaction:
        """Return a transaction in the database of the runs, which has not begun."""
        return ServedTransaction(self._database, guard, limit)

    def put(self, sql: Sql, claim: Claim, row: RunRow) -> bool:
        """Write a row of a run in a transaction that does more; False if another process has the run, or it is over."""
        if sql.execute(FENCE, _of(claim)).rowcount != 1:
            return False
        _put(sql, claim, (row,))
        return True

    def holds(self, sql: Sql, claim: Claim) -> bool:
        """Whether no other process has taken a run since it was claimed; none can until the transaction has ended.

        A run that has ended here is still held: its token may have to be withdrawn.
        """
        return sql.execute(_HOLD, _of(claim)).rowcount == 1

    def end(
        self,
        claim: Claim,
        ending: str,
        *,
        state: str = "over",
        also: Callable[[Sql], object] | None = None,
        rows: Sequence[RunRow] = (),
    ) -> bool:
        """Note that a run is over, waits in the store of paused runs, or cannot go on; its rows go, unless it is parked.

        The rows of its events stay for a time.

        Args:
            claim: of this process.
            ending: how it ended, in a word.
            state: of the run from now on.
            also: what else is done in the transaction, if this process has the run.
            rows: its last events.

        Returns:
            False if another process has the run; then nothing is written.
        """
        return self._database.write(lambda sql: self.end_in(sql, claim, ending, state=state, also=also, rows=rows))

    def end_in(
        self,
        sql: Sql,
        claim: Claim,
        ending: str,
        *,
        state: str = "over",
        also: Callable[[Sql], object] | None = None,
        rows: Sequence[RunRow] = (),
    ) -> bool:
        """Note the end of a run as `end` does, in a transaction that does more."""
        now = self._clock()
        values: dict[str, SqlValue] = {"state": state, "ending": ending, "now": now, "events_until": now + EVENTS_KEPT}
        forget = None if state == "parked" else now + KEPT
        if sql.execute(END, _of(claim) | values | {"forget_at": forget}).rowcount != 1:
            return sql.execute(TAKEN, _of(claim)).fetchone() is None
        if state != "parked":
            sql.execute(DROP_ROWS, {"run": claim.run})
        _put(sql, claim, rows)
        if also is not None:
            also(sql)
        return True

    def left(self, app: str, owner: str = "") -> list[StoredRun]:
        """Return the runs of an app that are not over, of one owner or of all, the oldest first, also those that are driven."""
        statement, values = (LEFT_BY, {"app": app, "owner": owner}) if owner else (LEFT, {"app": app})
        rows = self._database.read(lambda sql: sql.execute(statement, values).fetchall())
        return [_stored(row) for row in rows]

    def going(self, run_id: str) -> StoredRun | None:
        """Return a run that is not over, whether or not a process drives it; None if there is none."""
        row = self._database.read(lambda sql: sql.execute(GOING, {"run_id": run_id}).fetchone())
        return None if row is None else _stored(row)

    def is_left(self, left: StoredRun) -> bool:
        """Whether a run is as it was found: no process has taken it over or ended it since."""
        values = {"run": left.run, "epoch": left.epoch}
        return self._database.read(lambda sql: sql.execute(IS_LEFT, values).fetchone()) is not None

    def claim(
        self,
        left: Sequence[StoredRun],
        owner: str,
        only_if: Callable[[Sql], bool] | None = None,
        beat: Callable[[Sql], object] | None = None,
    ) -> dict[int, Claim]:
        """Take over those of some runs that are as they were found; none if `only_if`, called in the transaction, returned False.

        `beat` is that of `accept`. Returns the claim of each run that was taken, by its number.
        """

        def take(sql: Sql) -> dict[int, Claim]:
            if beat is not None:
                beat(sql)
            return _pass(sql, left, owner) if only_if is None or only_if(sql) else {}

        return self._database.write(take)

    def give_back(self, left: Sequence[StoredRun], owner: str) -> None:
        """Leave runs to everybody that `owner` claimed as they were found. They are nobody's: who had them before may live."""
        self._database.write(lambda sql: _pass(sql, left, owner, back=True))

    def rows(self, run: int) -> list[RunRow]:
        """Return the rows of a run without those of its events, in the order in which they were first written."""
        return [RunRow(*row) for row in self._database.read(lambda sql: sql.execute(ROWS, {"run": run}).fetchall())]

    def events(self, run: int) -> list[str]:
        """Return the texts of the events of a run that are kept, in their order."""
        return [str(row[0]) for row in self._database.read(lambda sql: sql.execute(EVENTS, {"run": run}).fetchall())]

    def count(self, user: str, app: str | None) -> int:
        """Return how many runs of a user, in one app or in all, are not over."""
        return self._database.read(lambda sql: [state for _, state in _of_user(sql, user, app)].count("going"))

    def erase(self, user: str, app: str | None) -> int:
        """Remove the runs of a user, in one app or in all; return how many were not over."""

        def write(sql: Sql) -> int:
            found = _of_user(sql, user, app)
            for run, _ in found:
                sql.execute(DROP_ALL, {"run": run})
                sql.execute(_FORGET, {"run": run})
            return [state for _, state in found].count("going")

        return self._database.write(write, durable=True)


def _of_user(sql: Sql, user: str, app: str | None) -> list[tuple[int, str]]:
    statement = OF_USER if app is None else f"{OF_USER} AND app = :app"
    values: dict[str, SqlValue] = {"user_id": id_text(user)} if app is None else {"user_id": id_text(user), "app": app}
    return [(int(row[0]), str(row[1])) for row in sql.execute(statement, values).fetchall()]


def _forget(sql: Sql, now: float) -> None:
    """Forget some runs that ended long ago, and the events of some that ended a while ago."""
    for run, is_whole, has_events in sql.execute(FORGOTTEN, {"now": now}).fetchall():
        if has_events:
            forget_events(sql, run, now)
        if is_whole:
            sql.execute(_FORGET, {"run": run})


def _put(sql: Sql, claim: Claim, rows: Sequence[RunRow]) -> None:
    if len(rows) > 1:  # a statement writes a row once
        rows = list({(row.path, row.kind, row.name): row for row in rows}.values())
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        values: dict[str, SqlValue] = {"run": claim.run}
        for (path, kind, name, body), row in zip(_PARAMETERS, some, strict=False):
            values[path], values[kind], values[name], values[body] = row
        sql.execute(put_rows(len(some)), values)


@cache
def put_rows(count: int) -> str:
    """Return the statement that writes so many rows, at most `AT_ONCE`: a server is asked once for all of them."""
    rows = ", ".join([f"(:run, :path{at}, :kind{at}, :name{at}, :body{at})" for at in range(count)])
    return (
        f"INSERT INTO understudy_run_rows (run, path, kind, name, body) VALUES {rows} "
        "ON CONFLICT (run, path, kind, name) DO UPDATE SET body = excluded.body"
    )


def _pass(sql: Sql, left: Sequence[StoredRun], owner: str, *, back: bool = False) -> dict[int, Claim]:
    """Have runs pass to an owner, or from it to nobody; return the claims of those that pass, by number."""
    alike: dict[tuple[str, int], list[int]] = {}
    for each in left:
        before, epoch = (owner, each.epoch + 1) if back else (each.owner, each.epoch)
        alike.setdefault((before, epoch), []).append(each.run)
    after, step = (NOBODY, -1) if back else (owner, 1)
    found: dict[int, Claim] = {}
    for (before, epoch), runs in alike.items():
        numbers = run_values(runs)
        values = numbers | {"before": before, "after": after, "epoch": epoch, "step": step}
        for run, last in sql.execute(passing(len(numbers)), values).fetchall():
            found[run] = Claim(run, epoch + 1, None if last is None else int(last) + 1)
    return found


@cache
def passing(count: int) -> str:
    """Return the statement by which so many runs pass to another owner; it returns the name of the last event of each."""
    runs = ", ".join([f":run{at}" for at in range(count)])
    return f"""
UPDATE understudy_runs SET owner = :after, epoch = epoch + 1,
    takeovers = takeovers + CASE WHEN owner = :after THEN 0 ELSE :step END
WHERE run IN ({runs}) AND owner = :before AND epoch = :epoch AND state = 'going'
RETURNING run, (SELECT MAX(name) FROM understudy_run_rows AS its WHERE its.run = understudy_runs.run AND path = '' AND kind = '{EVENT}')
"""


def run_values(runs: Sequence[int]) -> dict[str, SqlValue]:
    """Return the parameters for some runs. Their number is a power of two: a server prepares each text."""
    return {f"run{at}": runs[min(at, len(runs) - 1)] for at in range(1 << (len(runs) - 1).bit_length())}


def _stored(row: Row) -> StoredRun:
    run = StoredRun(*row)
    return run._replace(user_id=user_of(id_of(run.user_id)), conversation_id=id_of(run.conversation_id))


def id_text(given: str) -> str:
    """Return a user's id as every database can keep it: PostgreSQL has no text with NUL in it."""
    return given.replace("\\", "\\\\").replace("\0", "\\0")


def id_of(text: str | None) -> Any:
    """Return a user's id as the caller gave it."""
    return None if text is None else re.sub(r"\\\\(.)", lambda found: "\0" if found[1] == "0" else found[1], text)


def _of(claim: Claim) -> dict[str, SqlValue]:
    return {"run": claim.run, "epoch": claim.epoch}
