"""Maps with a name in a database: which run each input has, and the results of the runs that are complete.

One process carries a map out: its owner. Each claim raises the epoch of the map, and a process with an older claim begins no
further run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from understudy.actors.stores.database import Part, Sql, SqlValue, Table, checked_ids
from understudy.actors.stores.runs import id_text

MAPS = Part(
    "maps",
    [
        """CREATE TABLE understudy_maps (
            map {identity}, app TEXT NOT NULL, name TEXT NOT NULL, runner_id TEXT NOT NULL, user_id TEXT NOT NULL,
            owner TEXT NOT NULL, epoch {bigint} NOT NULL, created_at {real} NOT NULL
        )""",
        "CREATE UNIQUE INDEX understudy_maps_name ON understudy_maps (app, name)",
        "CREATE INDEX understudy_maps_user ON understudy_maps (user_id, app)",
        """CREATE TABLE understudy_map_items (
            map {bigint} NOT NULL, item TEXT NOT NULL, run_id TEXT NOT NULL, result TEXT
        )""",
        "CREATE UNIQUE INDEX understudy_map_items_item ON understudy_map_items (map, item)",
        "CREATE INDEX understudy_map_items_run ON understudy_map_items (run_id)",
    ],
)
"""An item is one input, and its `result` is None until its run is complete. A map without an owner has the owner ''."""

MAKE = """
INSERT INTO understudy_maps (app, name, runner_id, user_id, owner, epoch, created_at)
VALUES (:app, :name, :runner_id, :user_id, '', 1, :now) ON CONFLICT (app, name) DO NOTHING
"""
FIND = "SELECT map, runner_id, user_id, owner, epoch FROM understudy_maps WHERE app = :app AND name = :name"
CLAIM = "UPDATE understudy_maps SET owner = :owner, epoch = epoch + 1 WHERE map = :map AND epoch = :epoch"
RELEASE = "UPDATE understudy_maps SET owner = '' WHERE map = :map AND epoch = :epoch AND owner = :owner"
HELD = "SELECT 1 FROM understudy_maps WHERE map = :map AND epoch = :epoch AND owner = :owner"
ITEM = """
SELECT i.run_id, i.result, r.state FROM understudy_map_items i LEFT JOIN understudy_runs r ON r.run_id = i.run_id
WHERE i.map = :map AND i.item = :item
"""
ADD = """
INSERT INTO understudy_map_items (map, item, run_id) VALUES (:map, :item, :run_id) ON CONFLICT (map, item) DO NOTHING
"""
REPLACE = """
UPDATE understudy_map_items SET run_id = :run_id WHERE map = :map AND item = :item AND run_id = :before AND result IS NULL
    AND NOT EXISTS (SELECT 1 FROM understudy_runs WHERE run_id = :before AND state = 'going')
"""
KEEP = "UPDATE understudy_map_items SET result = :result WHERE run_id = :run_id"
COUNT = "SELECT count(*) FROM understudy_map_items WHERE map = :map AND result IS NOT NULL"
DROP_ITEMS = "DELETE FROM understudy_map_items WHERE map = :map"
DROP = "DELETE FROM understudy_maps WHERE map = :map"
OF_USER = "SELECT map FROM understudy_maps WHERE user_id = :user_id"


class StoredMap(NamedTuple):
    """A map as it stands in the store."""

    map: int
    """Its number in this store."""
    runner_id: str
    user_id: str
    owner: str
    """The process that carries it out; empty for none."""
    epoch: int


class MapClaim(NamedTuple):
    """What a process has of a map that it carries out."""

    map: int
    epoch: int
    owner: str


class Item(NamedTuple):
    """An input of a map that has a run."""

    run_id: str
    result: str | None
    """The saved run once it is complete."""
    state: str | None
    """Of the run; None if the store has forgotten it."""


class MapTable(Table):
    """The maps of all systems in a database that has the table of runs. Each call blocks for the database."""

    part = MAPS

    def made(self, app: str, name: str, runner_id: str, user_id: str) -> StoredMap:
        """Return a map; made if it is not there."""
        key: dict[str, SqlValue] = {"app": app, "name": name}
        row = key | {"runner_id": runner_id, "user_id": id_text(user_id), "now": self._clock()}

        def write(sql: Sql) -> StoredMap:
            checked_ids(app, name, runner_id)
            sql.execute(MAKE, row)
            found = sql.execute(FIND, key).fetchone()
            assert found is not None, "it is there or was made"
            return StoredMap(*found)

        return self._database.write(write)

    def find(self, app: str, name: str) -> StoredMap | None:
        """Return a map; None if there is none."""
        row = self._database.read(lambda sql: sql.execute(FIND, {"app": app, "name": name}).fetchone())
        return None if row is None else StoredMap(*row)

    def claim(self, found: StoredMap, owner: str) -> MapClaim | None:
        """Take a map; None if another process was first."""
        row: dict[str, SqlValue] = {"map": found.map, "epoch": found.epoch, "owner": owner}
        taken = self._database.write(lambda sql: sql.execute(CLAIM, row).rowcount == 1)
        return MapClaim(found.map, found.epoch + 1, owner) if taken else None

    def release(self, claim: MapClaim) -> None:
        """Give a map back; does nothing if another process has it."""
        row = claim._asdict()
        self._database.write(lambda sql: sql.execute(RELEASE, row))

    def item(self, claim: MapClaim, item: str) -> Item | None:
        """Return what is known of an input; None if it has no run."""
        row: dict[str, SqlValue] = {"map": claim.map, "item": item}
        found = self._database.read(lambda sql: sql.execute(ITEM, row).fetchone())
        return None if found is None else Item(*found)

    def is_held(self, sql: Sql, claim: MapClaim) -> bool:
        """Whether a process still has a map, asked in a transaction."""
        return sql.execute(HELD, claim._asdict()).fetchone() is not None

    def assign(self, sql: Sql, claim: MapClaim, item: str, run_id: str, before: str) -> bool:
        """Give an input its run, in a transaction.

        Args:
            sql: the transaction.
            claim: of this process.
            item: the input.
            run_id: of its run.
            before: the run that it had, which is over without a result; empty for none.

        Returns:
            False if the input has another run by now, or a result, or that run goes on.
        """
        row: dict[str, SqlValue] = {"map": claim.map, "item": item, "run_id": run_id}
        if not before:
            return sql.execute(ADD, row).rowcount == 1
        return sql.execute(REPLACE, row | {"before": before}).rowcount == 1

    def keeping(self, run_id: str, result: str) -> Callable[[Sql], object]:
        """Return what keeps the result of a run in a transaction; it does nothing if the map is forgotten."""
        row: dict[str, SqlValue] = {"run_id": run_id, "result": result}
        return lambda sql: sql.execute(KEEP, row)

    def write(self, work: Callable[[Sql], object]) -> None:
        """Do something in a transaction of its own."""
        self._database.write(work)

    def drop(self, found: StoredMap) -> int | None:
        """Remove a map; returns how many results it had, or None if a process has taken it since."""
        row: dict[str, SqlValue] = {"map": found.map, "epoch": found.epoch, "owner": found.owner}

        def write(sql: Sql) -> int | None:
            if sql.execute(HELD, row).fetchone() is None:
                return None
            count = sql.execute(COUNT, {"map": found.map}).fetchone()
            _drop(sql, found.map)
            return 0 if count is None else int(count[0])

        return self._database.write(write, durable=True)

    def erase(self, user: str, app: str | None) -> int:
        """Remove the maps of a user, in one app or in all; return how many."""
        statement = OF_USER if app is None else f"{OF_USER} AND app = :app"
        values: dict[str, SqlValue] = {"user_id": id_text(user)}
        if app is not None:
            values["app"] = app

        def write(sql: Sql) -> int:
            found = [row[0] for row in sql.execute(statement, values).fetchall()]
            for each in found:
                _drop(sql, each)
            return len(found)

        return self._database.write(write, durable=True)


def _drop(sql: Sql, number: int) -> None:
    sql.execute(DROP_ITEMS, {"map": number})
    sql.execute(DROP, {"map": number})
