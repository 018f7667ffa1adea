"""A shelf in the database of a store: a table that tools change, and tests look at by a connection of their own."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import Any

import understudy as us
from tests.support.journal_lines import EARLY, results_in
from understudy.testing import says


def _refusals() -> tuple[type[Exception], ...]:
    with suppress(ImportError):  # it is an extra
        import psycopg

        return (sqlite3.IntegrityError, psycopg.IntegrityError)
    return (sqlite3.IntegrityError,)


REFUSED = _refusals()
"""What a database raises for a value that the table does not take."""


class Shelf:
    """The table `shelf`, with seven bells.

    Args:
        url: of the store.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.ask("CREATE TABLE shelf (sku TEXT PRIMARY KEY, units INTEGER CHECK (units >= 0))")
        self.ask("INSERT INTO shelf VALUES ('bell', 7)")

    def ask(self, statement: str) -> list[Any]:
        """Run a statement, and return its rows."""
        if self.url.startswith("postgresql"):
            import psycopg

            with psycopg.connect(self.url, autocommit=True) as server:
                cursor = server.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=10.0)) as connection, connection:
            return connection.execute(statement).fetchall()

    @property
    def units(self) -> int:
        """How many bells there are."""
        ((units,),) = self.ask("SELECT units FROM shelf WHERE sku = 'bell'")
        return int(units)

    def results(self) -> list[str]:
        """Return the ids of the calls that have a result in the journal of a run that is not over."""
        return [came.result.call_id for came in results_in(body for (body,) in self.ask(EARLY))]

    def system(self, **options: Any) -> us.ActorSystem:
        """Return a system with the store."""
        return us.ActorSystem("shop", store=self.url, **options)


def take(sql: us.SqlTransaction, units: int = 1) -> None:
    """Take bells from the shelf."""
    sql.execute("UPDATE shelf SET units = units - ? WHERE sku = ?", (units, "bell"))


def caller(*tools: us.Tool[..., object], calls: int = 1, **options: Any) -> us.Agent:
    """Return an agent that calls each tool so often, all in one turn, and says what it was told."""
    made = tuple([us.ToolCall(f"{tool.name}{number}", tool.name, {}) for tool in tools for number in range(calls)])

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        told = request.messages[-1].tool_results
        return says("; ".join([result.content for result in told])) if told else us.ModelTurn(made)

    return us.Agent("clerk", model=us.FunctionModel(next_turn), tools=tools, **options)
