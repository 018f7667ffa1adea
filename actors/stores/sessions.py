"""Session values in a store: one row for each key of each owner, with a version that counts its changes.

A commit says which versions its run has seen. The later commit of a key wins, and learns whose value it replaced unseen. A
key that was removed leaves its version for a time, so that a run which has not seen the removal is told of it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, cast

from understudy.errors import StoreError
from understudy.vocabulary.context.session_values import SessionOwner, is_same
from understudy.vocabulary.messages import JsonValue

from .database import Part, Sql, SqlValue, Table

KEPT = 30 * 86_400.0  # Seconds for which the version of a removed key is known.

SESSIONS = Part(
    "sessions",
    [
        """CREATE TABLE understudy_values (
            scope TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, version {bigint} NOT NULL, value TEXT,
            run_id TEXT NOT NULL, changed_at {real} NOT NULL, PRIMARY KEY (scope, owner, key)
        )""",
        "CREATE INDEX understudy_values_removed ON understudy_values (changed_at) WHERE value IS NULL",
    ],
)
"""`owner`, `key` and `value` are JSON in ASCII, `key` without its quotes; a removed key has no value."""

_OWNED = "SELECT key, version, value FROM understudy_values WHERE scope = :scope{0} AND owner = :owner{0}"
_ROW = "scope = :scope AND owner = :owner AND key = :key"
_GET = f"SELECT version, value, run_id FROM understudy_values WHERE {_ROW}"
_INSERT = """
INSERT INTO understudy_values VALUES (:scope, :owner, :key, :version, :value, :run_id, :now) ON CONFLICT DO NOTHING
"""
_UPDATE = f"""
UPDATE understudy_values SET version = :version + 1, value = :value, run_id = :run_id, changed_at = :now
WHERE {_ROW} AND version = :version
"""
_OF_PEOPLE = "SELECT scope, owner FROM understudy_values WHERE scope != 'app'"
_ERASE = "DELETE FROM understudy_values WHERE scope = :scope AND owner = :owner"
_FORGET = "DELETE FROM understudy_values WHERE value IS NULL AND changed_at <= :old"


class StoredValue(NamedTuple):
    """A key in a store."""

    version: int
    value: JsonValue
    is_there: bool
    """Whether it has a value; a key that was removed has a version alone."""


class SessionChange(NamedTuple):
    """What a run did to a key."""

    owner: SessionOwner
    key: str
    value: JsonValue
    is_removed: bool
    seen: int
    """The version that the run knows; 0 if it knows none."""


class SessionCommit(NamedTuple):
    """What became of a change."""

    key: str
    version: int
    """The version of the key that the run knows from now on."""
    other_run_id: str = ""
    """The run whose commit of the key this run had not seen; empty if there is none."""


AlsoNote: TypeAlias = Callable[[Sql, Sequence[SessionCommit]], object]
"""Notes the commits of a run in their own transaction."""


class Sessions(Protocol):
    """Where session values are kept. Safe to use from any thread and process that has it."""

    is_quick: bool
    """Whether no call ever blocks."""
    has_values: bool
    """Whether there may be values; without any, no run has to look for some."""

    def load(self, owners: Sequence[SessionOwner]) -> dict[str, StoredValue]:
        """Return the keys of several owners, each of which has keys of its own.

        Raises:
            StoreError: the store failed.
        """
        ...

    def commit(
        self, run_id: str, changes: Sequence[SessionChange], *, yields: bool = False, also: AlsoNote | None = None
    ) -> Sequence[SessionCommit]:
        """Store the changes of a run, all or none.

        Args:
            run_id: of the run; it has seen what it committed before.
            changes: of different keys.
            yields: leave a key as it is that another run has changed unseen.
            also: notes the commits, in the same transaction.

        Raises:
            StoreError: the store failed.
        """
        ...

    def count(self, user: str, app: str | None) -> int:
        """Return how many values `erase` would remove."""
        ...

    def erase(self, user: str, app: str | None) -> int:
        """Remove the values of a user and of all conversations of this user, in one app or in all; return how many."""
        ...


class SessionTable(Table):
    """`Sessions` in a database. Each call blocks for it."""

    part = SESSIONS

    is_quick = False
    has_values = True  # other processes may have stored some

    def load(self, owners: Sequence[SessionOwner]) -> dict[str, StoredValue]:
        row = dict[str, SqlValue]()
        for number, each in enumerate(owners):
            row[f"scope{number}"], row[f"owner{number}"] = each.scope, _named(each)
        statement = _all_of(len(owners))
        found = self._database.read(lambda sql: sql.execute(statement, row).fetchall())
        return dict(self._stored(*each) for each in found)

    def _stored(self, key: str, version: int, value: str | None) -> tuple[str, StoredValue]:
        try:
            known: JsonValue = None if value is None else json.loads(value)
            return cast(str, json.loads(f'"{key}"')), StoredValue(version, known, value is not None)
        except ValueError as error:
            raise StoreError(
                f"store {self!r}: a session value cannot be read: {error}; expected what this store wrote",
                store=repr(self),
            ) from None

    def commit(
        self, run_id: str, changes: Sequence[SessionChange], *, yields: bool = False, also: AlsoNote | None = None
    ) -> Sequence[SessionCommit]:
        now = self._clock()
        # In one order for all runs: rows of some databases are locked until the commit.
        rows = [(each, self._row(each, run_id, now)) for each in sorted(changes, key=lambda each: each[:2])]
        removes = any(each.is_removed for each in changes)

        def write(sql: Sql) -> list[SessionCommit]:
            done = [_committed(sql, change, row, yields=yields) for change, row in rows]
            if removes:  # not in each commit: in some databases it conflicts with commits for other owners
                sql.execute(_FORGET, {"old": now - KEPT})
            if also is not None:
                also(sql, done)
            return done

        return self._database.write(write)

    def _row(self, change: SessionChange, run_id: str, now: float) -> Mapping[str, SqlValue]:
        return {
            "scope": change.owner.scope,
            "owner": _named(change.owner),
            "key": json.dumps(change.key)[1:-1],
            # A time, so that it differs from the version of an earlier row, which is forgotten.
            "version": int(now * 1000),
            "value": None if change.is_removed else json.dumps(change.value),
            "run_id": run_id,
            "now": now,
        }

    def count(self, user: str, app: str | None) -> int:
        return self._database.read(lambda sql: len(_of_user(sql, user, app)))

    def erase(self, user: str, app: str | None) -> int:
        def write(sql: Sql) -> int:
            found = _of_user(sql, user, app)
            for scope, whose in set(found):
                sql.execute(_ERASE, {"scope": scope, "owner": whose})
            return len(found)

        return self._database.write(write, durable=True)


@cache
def _all_of(owners: int) -> str:
    # No `(scope, owner) IN (…)`, for which SQLite reads the whole table.
    return " UNION ALL ".join([_OWNED.format(number) for number in range(owners)])


def _named(owner: SessionOwner) -> str:
    return json.dumps(owner.names)


def _of_user(sql: Sql, user: str, app: str | None) -> list[tuple[str, str]]:
    """Return the scope and owner of each row of a user."""
    rows = cast("list[tuple[str, str]]", sql.execute(_OF_PEOPLE).fetchall())
    return [row for row in rows if is_of_user(cast("list[str]", json.loads(row[1])), user, app)]


def is_of_user(names: Sequence[str], user: str, app: str | None) -> bool:
    """Whether the names of an owner are those of a user, or of a conversation of this user."""
    return len(names) > 1 and names[1] == user and app in (None, names[0])


def _committed(sql: Sql, change: SessionChange, row: Mapping[str, SqlValue], *, yields: bool) -> SessionCommit:
    """Commit one key; again from the beginning if another transaction was first."""
    where = {name: row[name] for name in ("scope", "owner", "key")}
    while True:
        found = cast("tuple[int, str | None, str] | None", sql.execute(_GET, where).fetchone())
        if found is None:
            if change.is_removed:
                return SessionCommit(change.key, 0)
            if sql.execute(_INSERT, row).rowcount == 1:
                return SessionCommit(change.key, cast(int, row["version"]))
            continue
        version, value, by = found
        if _is_equal(value, cast("str | None", row["value"])):
            return SessionCommit(change.key, version)
        other = "" if version == change.seen or by == row["run_id"] else by
        if other and yields:
            return SessionCommit(change.key, version, other)
        if sql.execute(_UPDATE, {**row, "version": version}).rowcount == 1:
            return SessionCommit(change.key, version + 1, other)


def _is_equal(found: str | None, given: str | None) -> bool:
    if found is None or given is None or found == given:
        return found == given
    try:
        return is_same(json.loads(found), json.loads(given))
    except ValueError:  # not what this store wrote
        return False
