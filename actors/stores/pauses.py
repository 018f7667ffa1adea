"""Paused runs in a database: one entry for each run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

from understudy.vocabulary.runs.conversations import NO_USER
from understudy.vocabulary.runs.pause_store import PausedRun

from .database import Part, Row, Sql, SqlValue, Table, checked_ids

KEPT = 30 * 86_400.0  # Seconds for which a token that was used is told from one that never was.

PAUSES = Part(
    "pauses",
    [
        """CREATE TABLE understudy_pauses (
            run_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, nonce TEXT NOT NULL, payload TEXT NOT NULL,
            state TEXT NOT NULL, forget_at {real}, holder TEXT, leased_until {real}, put_at {real}
        )""",
        "CREATE INDEX understudy_pauses_forget_at ON understudy_pauses (forget_at)",
    ],
)
"""`forget_at`, `leased_until` and `put_at` are in seconds since 1970; an entry without the first is never forgotten.

`holder` is who has the last lease on a waiting entry, which is over at `leased_until`.
"""

PUT = """
INSERT INTO understudy_pauses (run_id, revision, nonce, payload, state, forget_at, put_at)
VALUES (:run_id, :revision, :nonce, :payload, 'waiting', :forget_at, :now)
ON CONFLICT (run_id) DO UPDATE SET revision = excluded.revision, nonce = excluded.nonce, payload = excluded.payload,
    state = excluded.state, forget_at = excluded.forget_at, put_at = excluded.put_at, holder = NULL, leased_until = NULL
WHERE understudy_pauses.state != 'waiting' AND understudy_pauses.revision < excluded.revision
"""
PUT_HELD = f"{PUT.partition('WHERE')[0]}WHERE understudy_pauses.revision <= excluded.revision"
"""For a process that has the run: what waits there is a pause that nobody was told, or this one."""
GET = "SELECT run_id, revision, nonce, payload, state, leased_until FROM understudy_pauses WHERE run_id = :run_id"
TAKE = """
UPDATE understudy_pauses SET state = 'taken', forget_at = :forget_at, holder = NULL, leased_until = NULL
WHERE run_id = :run_id AND revision = :revision AND state = 'waiting' AND (holder IS NULL OR leased_until <= :now)
"""
CLOSE = """
UPDATE understudy_pauses SET state = 'over', payload = '', forget_at = :forget_at, holder = NULL, leased_until = NULL
WHERE run_id = :run_id AND revision = :revision
"""
PAGE = """
SELECT run_id, payload FROM understudy_pauses WHERE run_id > :after AND payload != '' ORDER BY run_id LIMIT 100
"""
WAITING = """
SELECT run_id, revision, nonce, payload FROM understudy_pauses WHERE run_id > :after AND state = 'waiting' ORDER BY run_id LIMIT 100
"""
ERASE = "DELETE FROM understudy_pauses WHERE run_id = :run_id"
FORGET = """
DELETE FROM understudy_pauses WHERE forget_at <= :now AND (leased_until IS NULL OR leased_until <= :now)
"""
LEASE = """
UPDATE understudy_pauses SET holder = :holder, leased_until = :until
WHERE run_id = :run_id AND revision = :revision AND state = 'waiting'
    AND (holder IS NULL OR holder = :holder OR leased_until <= :now)
"""
HELD = "run_id = :run_id AND revision = :before AND state = 'waiting' AND holder = :holder"
COMMIT = f"""
UPDATE understudy_pauses SET revision = :revision, nonce = :nonce, payload = :payload, forget_at = :forget_at,
    put_at = :now, holder = NULL, leased_until = NULL
WHERE {HELD}
"""
FINISH = f"""
UPDATE understudy_pauses SET state = 'over', payload = '', forget_at = :forget_at, holder = NULL, leased_until = NULL
WHERE {HELD}
"""
RELEASE = f"UPDATE understudy_pauses SET holder = NULL, leased_until = NULL WHERE {HELD}"

Check: TypeAlias = Callable[[Sql], object]


def _nothing(sql: Sql) -> None:
    """Check nothing."""


class PauseTable(Table):
    """A `PauseStore` in a database. Each call blocks for the database; what is put is durable."""

    part = PAUSES

    def put(self, paused: PausedRun, *, keep: float | None, check: Check = _nothing, is_held: bool = False) -> bool:
        """Keep a paused run; `check` comes first in the transaction, and what it raises leaves everything as it was.

        With `is_held`, `check` refuses every process but the one that has the run: it may put a pause again, and in place of one.
        """
        now = self._clock()
        row = _row(paused, keep, now)

        def write(sql: Sql) -> bool:
            checked_ids(paused.run_id)
            check(sql)
            sql.execute(FORGET, {"now": now})
            return sql.execute(PUT_HELD if is_held else PUT, row).rowcount == 1

        return self._database.write(write, durable=True)

    def get(self, run_id: str) -> PausedRun | None:
        row = self._database.read(lambda sql: _found(sql, run_id))
        if row is None:
            return None
        _, revision, nonce, payload, state, until = row
        leased = until if until is not None and until > self._clock() else None
        return PausedRun(
            run_id=run_id, revision=revision, nonce=nonce, payload=payload, state=state, leased_until=leased
        )

    def take(self, run_id: str, revision: int) -> bool:
        row: dict[str, SqlValue] = {"run_id": run_id, "revision": revision, "now": self._clock()}
        return self._changed(TAKE, row | {"forget_at": self._clock() + KEPT})

    def taking(self, run_id: str, revision: int) -> Callable[[Sql], bool]:
        """Return what `take` does, for a transaction that does more."""
        row: dict[str, SqlValue] = {"run_id": run_id, "revision": revision, "now": self._clock()}
        row["forget_at"] = self._clock() + KEPT
        return lambda sql: sql.execute(TAKE, row).rowcount == 1

    def close(self, run_id: str, revision: int, *, check: Check = _nothing) -> None:
        """Mark an entry as over; `check` is that of `put`."""
        row: dict[str, SqlValue] = {"run_id": run_id, "revision": revision, "forget_at": self._clock() + KEPT}

        def write(sql: Sql) -> None:
            check(sql)
            sql.execute(CLOSE, row)

        self._database.write(write, durable=True)

    def count(self, user: str, app: str | None) -> int:
        """Return how many runs `erase` would remove."""
        return len(self._of_user(user, app))

    def erase(self, user: str, app: str | None) -> int:
        """Remove the runs of a user, in one app or in all; return how many. Their tokens are unknown from then on."""
        found = self._of_user(user, app)

        def write(sql: Sql) -> None:
            for run_id in found:
                sql.execute(ERASE, {"run_id": run_id})

        self._database.write(write, durable=True)
        return len(found)

    def _of_user(self, user: str, app: str | None) -> list[str]:
        found, after = list[str](), ""

        def read(sql: Sql) -> list[Row]:
            return sql.execute(PAGE, {"after": after}).fetchall()

        while page := self._database.read(read):
            found += [run_id for run_id, payload in page if _is_of_user(run_id, payload, user, app)]
            after = page[-1][0]
        return found

    def waiting(self) -> Iterator[PausedRun]:
        """Iterate over the entries that wait, by run id; each page blocks for the database."""
        after = ""
        while rows := self._waiting_after(after):
            for run_id, revision, nonce, payload in rows:
                yield PausedRun(run_id=run_id, revision=revision, nonce=nonce, payload=payload, state="waiting")
            after = rows[-1][0]

    def _waiting_after(self, run_id: str) -> list[Row]:
        return self._database.read(lambda sql: sql.execute(WAITING, {"after": run_id}).fetchall())

    # --- leases

    def lease(self, run_id: str, revision: int, holder: str, seconds: float) -> bool:
        now = self._clock()
        row: dict[str, SqlValue] = {"run_id": run_id, "revision": revision, "holder": holder}
        return self._changed(LEASE, row | {"now": now, "until": now + seconds})

    def commit(self, paused: PausedRun, holder: str, *, keep: float | None) -> bool:
        row = _row(paused, keep, self._clock())
        return self._changed(COMMIT, row | {"before": paused.revision - 1, "holder": holder})

    def finish(self, run_id: str, revision: int, holder: str) -> bool:
        row: dict[str, SqlValue] = {"run_id": run_id, "before": revision, "holder": holder}
        return self._changed(FINISH, row | {"forget_at": self._clock() + KEPT})

    def release(self, run_id: str, revision: int, holder: str) -> None:
        self._changed(RELEASE, {"run_id": run_id, "before": revision, "holder": holder})

    def _changed(self, statement: str, row: dict[str, SqlValue]) -> bool:
        return self._database.write(lambda sql: sql.execute(statement, row).rowcount == 1, durable=True)


def _found(sql: Sql, run_id: str) -> Row | None:
    checked_ids(run_id)
    return sql.execute(GET, {"run_id": run_id}).fetchone()


def _row(paused: PausedRun, keep: float | None, now: float) -> dict[str, SqlValue]:
    return {
        "run_id": paused.run_id,
        "revision": paused.revision,
        "nonce": paused.nonce,
        "payload": paused.payload,
        "forget_at": None if keep is None else now + keep,
        "now": now,
    }


def _is_of_user(run_id: str, payload: str, user: str, app: str | None) -> bool:
    """Whether a run is one of a user. Its id begins with the app, before two numbers."""
    if app is not None and run_id.rsplit("-", 2)[0] != app:
        return False
    try:
        saved: object = json.loads(payload)
    except ValueError:
        return False
    whose = cast("dict[str, object]", saved).get("user_id") if isinstance(saved, dict) else None
    return user == (NO_USER if whose is None else whose)
