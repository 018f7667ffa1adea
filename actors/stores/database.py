"""The database behind a store: transactions, and the tables of each part.

Statements are written once for SQLite and PostgreSQL: parameters are named `:name`, and where the dialects differ, the
statement has the name of a word in braces, which `Part` fills in from `Database.words`.

While a database fails, the runs of a system ask again for some time: `Outage` knows which of them wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging import WARNING
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from understudy.diagnostics import emit
from understudy.errors import StoreError
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.context.transactions import SqlParameters, SqlRows

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SqlValue: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Any, ...]


FIRST_PAUSE = 0.05  # Seconds before the second attempt; each further pause is twice as long.
LONGEST_PAUSE = 1.0


class UnfitId(ValueError):
    """An id that not every database can keep; raised in a transaction, of which the caller hears by a `StoreError`."""


def checked_ids(*ids: str) -> None:
    """Refuse ids that PostgreSQL cannot keep, in every database alike.

    Raises:
        UnfitId: one has a NUL character.
    """
    for each in ids:
        if "\0" in each:
            raise UnfitId("an id has a NUL character, which not every store can keep; expected a text without")


class Rows(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        ...

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        ...


class Sql(Protocol):
    """One open transaction."""

    def execute(self, statement: str, values: Mapping[str, SqlValue] = ..., /) -> Rows:
        """Run a statement; its parameters are named `:name`."""
        ...


class Unfit(StoreError):
    """The store cannot keep a value, however often it is asked; nothing was changed."""


class InTheWay(StoreError):
    """Others were in the way of a transaction that is not repeated by itself; nothing was changed."""


class Violated(StoreError):
    """A constraint refused the commit; nothing was changed."""


ENDED = "a statement ended the transaction, which the runtime alone may end; what came before it may be committed"
"""What is told of a statement after which the transaction is not open."""


class OpenSql(Sql, Protocol):
    """One open transaction that nobody shares; also for statements that a tool writes itself."""

    def execute_given(self, statement: str, parameters: SqlParameters, left: Callable[[], float], /) -> SqlRows:
        """Run a statement of a tool's, and return all of its rows.

        Args:
            statement: with `?` or `:name` for values; `check_statement` has let it pass.
            parameters: a sequence for `?`, a mapping for `:name`.
            left: returns the seconds that the transaction has left; the statement ends when there are none.

        Raises:
            Exception: the database's own error. Nothing else can be done in the transaction then.
        """
        ...

    def end_given(self) -> None:
        """End the statements of a tool's: check the constraints that wait for the commit, as far as the database can do that before,
        and take back what the statements changed of the connection.

        Raises:
            Exception: as for `execute_given`.
        """
        ...

    def is_in_the_way(self, error: Exception) -> bool:
        """Whether an error of the two above says that the database refused the transaction because of other transactions."""
        ...


class Database(Protocol):
    """A database for any number of threads. Calls block, for a bounded time, and survive a fork.

    `work` is called in a transaction, on whatever thread, and maybe more than once: it only uses what it is given, and
    what it raises undoes what it did. Nobody calls the database from inside of `work`.

    Raises:
        StoreError: the database failed; nothing was changed, or it says that this is not known.
    """

    @property
    def words(self) -> Mapping[str, str]:
        """What a statement has in braces -> what this database says: `identity` (a key that counts, and that no later row
        has again), `row_id` (a key above those of the rows that are there), `real`, `bigint`, `held` (whether the lock of
        the process in the column `owner` is held, or NULL where only the lock itself tells), `tables` (a query of the names of
        all tables), `alone` (a statement after which no other transaction is past it with the same `number`, of 32 bits, until
        this one has ended), `life` (a text that names the present life of the server: when it ends, all locks that it has are free)."""
        ...

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        """Return what `work` returns, once that is committed.

        Args:
            work: reads and writes.
            durable: also if the power fails; otherwise it outlives the process, however that ends.
        """
        ...

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        """Return what `work` returns, once that is committed, in a transaction that is shared with no other work.

        `work` may take some seconds: others that wait for the same rows or the same file wait for it. It is called once.

        Raises:
            InTheWay: others were in the way; nothing was changed.
            Violated: a constraint refused the commit; nothing was changed.
        """
        ...

    def read(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, which only reads."""
        ...

    def drop_remains(self) -> None:
        """Remove the traces of deleted rows, as far as the database can do that.

        Raises:
            StoreError: others use the database, and something may be left; the rows are deleted.
        """
        ...


@runtime_checkable
class Rests(Protocol):
    """A database that holds something while nobody uses it."""

    def rest(self) -> None:
        """Let go of what nobody uses; a later call takes it again."""
        ...


@runtime_checkable
class WritesFirst(Protocol):
    """A database in which work may go before work of other processes that waits."""

    def write_first(self, work: Callable[[Sql], T]) -> T:
        """Return what `work` returns, as `Database.write` does."""
        ...


SCHEMA = 6
"""The version of the tables of a store. Nothing converts those of another one, and such a store is refused."""


class Part(NamedTuple):
    """The tables of one part of a store."""

    name: str
    tables: Sequence[str]
    """Statements that make them."""


_TABLE = "CREATE TABLE IF NOT EXISTS understudy_schema (part TEXT PRIMARY KEY, version INTEGER NOT NULL)"
_HAS_VERSIONS = "SELECT 1 WHERE 'understudy_schema' IN ({tables})"
VERSIONS = "SELECT part, version FROM understudy_schema ORDER BY part"
_SET_VERSION = "INSERT INTO understudy_schema VALUES (:part, :version)"


def prepare(database: Database, part: Part) -> None:
    """Make the tables of a part, in one transaction, unless they are there.

    Raises:
        StoreError: another version of this package made the store, or the database failed.
    """

    def make(sql: Sql) -> None:
        sql.execute(_TABLE)
        if part.name not in _parts(database, sql):
            for statement in part.tables:
                sql.execute(statement.format(**database.words))
            sql.execute(_SET_VERSION, {"part": part.name, "version": SCHEMA})

    database.write(make, durable=True)


def parts_of(database: Database) -> frozenset[str]:
    """Return the names of the parts that a store has tables of. Changes nothing; raises as `prepare`."""

    def look(sql: Sql) -> frozenset[str]:
        is_there = sql.execute(_HAS_VERSIONS.format(**database.words)).fetchone() is not None
        return _parts(database, sql) if is_there else frozenset()

    return database.read(look)


def _parts(database: Database, sql: Sql) -> frozenset[str]:
    found: dict[str, object] = {str(row[0]): row[1] for row in sql.execute(VERSIONS).fetchall()}
    for name, version in found.items():
        if version != SCHEMA:
            raise _of_another_version(database, name, version)
    return frozenset(found)


def _of_another_version(database: Database, part: str, version: object) -> StoreError:
    which = "a later" if isinstance(version, int) and version > SCHEMA else "an earlier"
    return StoreError(
        f"store {database!r} was made by {which} version of understudy: its {part} have schema {version}, and this version "
        f"knows schema {SCHEMA} alone; finish its runs with that version, or remove all that it has with "
        f"`understudy erase --everything --store {database!r}`",
        store=repr(database),
    )


TABLES = (
    "understudy_schema",
    "understudy_values",
    "understudy_conversations",
    "understudy_turns",
    "understudy_owners",
    "understudy_tickets",
    "understudy_pauses",
    "understudy_runs",
    "understudy_run_rows",
    "understudy_run_owners",
    "understudy_maps",
    "understudy_map_items",
)
"""All tables that any version of this package has made."""


def empty(database: Database) -> int:
    """Remove all tables that this package has made in a database, in whatever version; returns how many there were.

    Raises:
        StoreError: the database failed, or others use it, so that something of the tables may be left in it.
    """

    def drop(sql: Sql) -> int:
        there = {str(row[0]) for row in sql.execute(database.words["tables"]).fetchall()}
        names = [name for name in TABLES if name in there]
        for name in names:
            sql.execute(f"DROP TABLE {name}")
        return len(names)

    dropped = database.write(drop, durable=True)
    database.drop_remains()
    return dropped


class Table:
    """The tables of one part, in a database. Each call blocks for the database.

    Args:
        database: where they are.
        clock: seconds since 1970.

    Raises:
        StoreError: the tables cannot be opened or made.
    """

    part: ClassVar[Part]

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        prepare(database, self.part)

    @property
    def busy_for(self) -> float:
        """Seconds for which the database has been at what it does now; 0 if it is at nothing, or does not tell."""
        return (self._database.figures().busy_for or 0.0) if isinstance(self._database, HasFigures) else 0.0

    def __repr__(self) -> str:
        return repr(self._database)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """One store at one moment; counts are of this process: of one system's connections to PostgreSQL, or of all systems that share a file."""

    store: str
    """Its URL."""
    transactions: int
    """Transactions that were committed; in an SQLite file, calls that come at the same time share one."""
    calls: int
    """Reads and writes that have ended."""
    failed: int
    """Calls of these that ended in a `StoreError`."""
    repeated: int = 0
    """Transactions that PostgreSQL refused because of others, or that lost their connection, and that were done again."""
    waiting: int
    """Calls that wait for their turn, or for a connection."""
    high_water: int
    """The most that ever waited at once."""
    busy_for: float | None
    """Seconds since the thread that commits now began, the first one of several; None if nobody is at work."""
    last_error: str
    """The text of the last `StoreError`; empty if there was none."""


@runtime_checkable
class HasFigures(Protocol):
    """A database that counts."""

    def figures(self) -> StoreFigures:
        """Return its figures; waits for nothing."""
        ...


# --- while it fails


def may_pass(error: BaseException) -> TypeGuard[StoreError]:
    """Whether a store that failed may do the same thing another time; not for a run that was left."""
    return isinstance(error, StoreError) and not isinstance(error, Unfit) and not error.run_id


def pause_before(attempt: int) -> float:
    """Return the seconds before an attempt; the first one that is made again has the number 0."""
    return backoff_wait(FIRST_PAUSE, LONGEST_PAUSE, attempt)


class Outage:
    """The runs of one system that wait for a store. Safe to use from any thread.

    Args:
        app: the system's name.
        patience: seconds for which each of them waits at most.
        clock: the monotonic clock, in seconds.

    Attributes:
        is_on: whether the store failed, and no run has reached it since.
        is_stopping: whether the system stops, so that no run waits any longer.
    """

    def __init__(self, app: str, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        """Guards those below."""
        self._waiting: dict[object, float] = {}
        """Who waits -> since when, on the clock."""
        self.is_on = False
        self.is_stopping = False

    @property
    def lasts_for(self) -> float | None:
        """Seconds for which the longest wait has lasted; None if nobody waits."""
        with self._lock:
            first = min(self._waiting.values(), default=None)
        return None if first is None else self._clock() - first

    def begins(self, who: object, error: StoreError) -> float:
        """Note that a run begins to wait; return when its patience is over, on the clock."""
        now = self._clock()
        with self._lock:
            self._waiting[who] = now
            is_first, self.is_on = not self.is_on, True
        if is_first:
            text = "runs of system %s wait for their store, and ask it again for %g s each: %s"
            emit(WARNING, "store_failed", {}, text, self._app, self._patience, error)
        return now + self._patience

    def ends(self, who: object) -> None:
        """Note that a run waits no longer; nothing if it does not wait."""
        with self._lock:
            self._waiting.pop(who, None)

    def worked(self) -> None:
        """Note that a run has reached its store. While other runs wait, they may wait for another store."""
        if not self.is_on:  # nearly always
            return
        with self._lock:
            is_over = self.is_on and not self._waiting
            if is_over:
                self.is_on = False
        if is_over:
            emit(WARNING, "store_returned", {}, "the store of system %s answers again", self._app)

    def through(self, do: Callable[[], T], pause: Callable[[float], bool]) -> T:
        """Return what `do` returns; do it again while the store fails.

        Args:
            do: asks the store; a store that has done it without an answer does not do it twice.
            pause: waits so many seconds; False if nobody is to wait any longer.

        Raises:
            StoreError: of the last attempt: it cannot pass, the patience is over, or `pause` returned False.
            BaseException: any other that `do` or `pause` raises.
        """
        who, attempt = object(), 0
        until: float | None = None
        try:
            while True:
                try:
                    done = do()
                    break
                except StoreError as error:
                    if not may_pass(error):
                        raise
                    if until is None:
                        until = self.begins(who, error)
                    left = until - self._clock()
                    if left <= 0.0 or not pause(min(pause_before(attempt), left)):
                        raise
                attempt += 1
        finally:
            if until is not None:
                self.ends(who)
        self.worked()
        return done
