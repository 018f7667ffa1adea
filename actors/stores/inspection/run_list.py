"""What a store has of runs of all processes: a look at the tables of runs and of pauses, which changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, cast

from understudy.actors.stores.database import Database, Row, Sql, SqlValue, checked_ids, parts_of
from understudy.actors.stores.pauses import PAUSES
from understudy.actors.stores.runs import ROWS, RUNS, RunRow, id_of, user_of

PAGE_OF_RUNS = 500
PAGE_OF_PAUSES = 100  # Each has the text of its whole run.

_RUN = """run, run_id, app, runner_id, user_id, conversation_id, owner, epoch, state, takeovers, created_at, ended_at,
    ending, cancel_requested"""
_RUNS_PAGE = f"""
SELECT {_RUN} FROM understudy_runs
WHERE run > :after AND (app = :app OR :app = '')
    AND (:over = 1 OR state != 'over' OR run_id IN (SELECT run_id FROM understudy_pauses WHERE state = 'waiting'))
ORDER BY run LIMIT {PAGE_OF_RUNS}
"""
_RUN_OF_ID = f"SELECT {_RUN} FROM understudy_runs WHERE run_id = :run_id"
_PAUSE = "run_id, revision, nonce, state, payload, forget_at, leased_until, put_at"
_PAUSES_PAGE = f"""
SELECT {_PAUSE} FROM understudy_pauses WHERE run_id > :after AND state = 'waiting' ORDER BY run_id LIMIT {PAGE_OF_PAUSES}
"""
_PAUSE_OF_ID = f"SELECT {_PAUSE} FROM understudy_pauses WHERE run_id = :run_id"
_ACCEPTED = "SELECT accepted FROM understudy_runs WHERE run_id = :run_id"


class RunHead(NamedTuple):
    """A run in the table of runs."""

    run: int
    """Its number in this store."""
    run_id: str
    app: str
    """The name of its system."""
    runner_id: str
    user_id: str | None
    conversation_id: str | None
    owner: str
    epoch: int
    state: str
    """`going`, `parked` or `over`."""
    takeovers: int
    created_at: float
    ended_at: float | None
    ending: str
    cancel_requested: float | None


class PauseHead(NamedTuple):
    """A run in the table of pauses."""

    run_id: str
    revision: int
    nonce: str
    state: str
    """`waiting`, `taken` or `over`."""
    payload: str
    """The run as text; empty once it is over."""
    forget_at: float | None
    leased_until: float | None
    put_at: float | None


class RunEntry(NamedTuple):
    """All heads of one run; a run without a journal is in the table of pauses alone."""

    run_id: str
    head: RunHead | None
    pause: PauseHead | None

    @property
    def app(self) -> str:
        """The name of its system; without a row, from its id, which begins with the name, before two numbers."""
        return self.head.app if self.head is not None else self.run_id.rsplit("-", 2)[0]

    @property
    def is_over(self) -> bool:
        """Whether it neither goes on, nor was left, nor waits."""
        return (self.head is None or self.head.state == "over") and self.waits is None

    @property
    def waits(self) -> PauseHead | None:
        """The pause in which it waits; None if it does not."""
        return self.pause if self.pause is not None and self.pause.state == "waiting" else None

    def is_as(self, other: RunEntry | None) -> bool:
        """Whether nobody has changed the run between two looks."""
        return other is not None and _marks(self) == _marks(other)


def _marks(entry: RunEntry) -> tuple[object, ...]:
    head, pause = entry.head, entry.pause
    of_head = None if head is None else (head.run, head.epoch, head.state)
    return of_head, None if pause is None else (pause.revision, pause.state)


class RunList:
    """The runs of a database, to look at. Each call blocks for the database.

    Args:
        database: where they are; its tables need not be there.

    Raises:
        StoreError: another version of this package made the tables, or the database failed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        parts = parts_of(database)
        self._has_runs, self._has_pauses = RUNS.name in parts, PAUSES.name in parts

    @property
    def has_tables(self) -> bool:
        """Whether a system has ever opened the database as its store."""
        return self._has_runs or self._has_pauses

    def entries(self, app: str = "", *, over: bool = False) -> Iterator[RunEntry]:
        """Iterate over the runs of an app, or of all: the oldest first, and then those without a journal, by their ids.

        Args:
            app: name of a system; empty for all.
            over: those that are over too.
        """
        waiting = {each.run_id: each for each in self._pauses()}
        for head in self._heads(app, over=over):
            entry = RunEntry(head.run_id, head, waiting.pop(head.run_id, None))
            if over or head.state != "over" or entry.pause is not None:
                yield entry
            elif (now := self.entry(head.run_id)) is not None and not now.is_over:
                yield now  # it began to wait after the look at those that wait
        for pause in waiting.values():
            entry = RunEntry(pause.run_id, None, pause)
            if not app or entry.app == app:
                yield entry

    def _heads(self, app: str, *, over: bool) -> Iterator[RunHead]:
        after = 0
        while self._has_runs and (page := self._page(_RUNS_PAGE, {"app": app, "after": after, "over": int(over)})):
            yield from map(_head, page)
            after = page[-1][0]

    def _pauses(self) -> Iterator[PauseHead]:
        after = ""
        while self._has_pauses and (page := self._page(_PAUSES_PAGE, {"after": after})):
            for row in page:
                yield _without_run(PauseHead(*row))
            after = page[-1][0]

    def _page(self, statement: str, values: dict[str, SqlValue]) -> list[Row]:
        return self._database.read(lambda sql: sql.execute(statement, values).fetchall())

    def entry(self, run_id: str) -> RunEntry | None:
        """Return what is kept of a run, over or not; None if that is nothing."""
        return self._database.read(lambda sql: self.entry_in(sql, run_id))

    def entry_in(self, sql: Sql, run_id: str) -> RunEntry | None:
        """Return what is kept of a run, in a transaction."""
        checked_ids(run_id)
        found: list[Row | None] = [None, None]
        for place, (is_there, statement) in enumerate([(self._has_runs, _RUN_OF_ID), (self._has_pauses, _PAUSE_OF_ID)]):
            if is_there:
                found[place] = sql.execute(statement, {"run_id": run_id}).fetchone()
        head, pause = found
        if head is None and pause is None:
            return None
        return RunEntry(run_id, None if head is None else _head(head), None if pause is None else PauseHead(*pause))

    def rows(self, head: RunHead) -> list[RunRow]:
        """Return the rows of a run's journal, in the order in which they were first written."""
        return [RunRow(*row) for row in self._page(ROWS, {"run": head.run})]

    def accepted(self, head: RunHead) -> str:
        """Return what begins a run anew; empty if nothing is needed for that any more."""
        page = self._page(_ACCEPTED, {"run_id": head.run_id})
        return str(page[0][0]) if page else ""


def _head(row: Row) -> RunHead:
    head = RunHead(*row)
    return head._replace(user_id=user_of(id_of(head.user_id)), conversation_id=id_of(head.conversation_id))


SHORT = ("runner_id", "user_id", "conversation_id", "by_error")
"""What a list needs of a saved run."""


def _without_run(pause: PauseHead) -> PauseHead:
    """Return a pause with the few fields of its run that a list needs: a store may have thousands of large runs."""
    told = fields_of(pause.payload)
    return pause._replace(payload=json.dumps({name: told.get(name) for name in SHORT}))


def fields_of(payload: str) -> dict[str, object]:
    """Return the fields of a saved run; empty if it cannot be read."""
    try:
        told: object = json.loads(payload)
    except ValueError:
        return {}
    return cast("dict[str, object]", told) if isinstance(told, dict) else {}
