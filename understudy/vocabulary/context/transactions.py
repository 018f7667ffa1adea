"""What a tool with `transactional=True` gets of the store's database: statements, and the rows that they return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

SqlParameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""Values for `?`, in order, or values by name for `:name`."""


class SqlRows:
    """What a statement returned. All rows are there; none is fetched from the database later.

    Attributes:
        columns: the names of the columns; empty for a statement that returns no rows.
        rowcount: how many rows it changed or returned; -1 where the database does not say.
    """

    __slots__ = ("_rows", "columns", "rowcount")

    def __init__(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rowcount: int) -> None:
        self.columns = tuple(columns)
        self.rowcount = rowcount
        self._rows = iter(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def __repr__(self) -> str:
        return f"SqlRows({', '.join(self.columns)})"


class SqlTransaction(Protocol):
    """A connection to the store's database inside of one transaction, which the runtime commits with the result of the call."""

    def execute(self, statement: str, parameters: SqlParameters = ..., /) -> SqlRows:
        """Run one statement.

        The database's own error undoes the whole transaction, also if the tool catches it.

        Args:
            statement: with `?` or `:name` for values, in both databases.
            parameters: a sequence for `?`, a mapping for `:name`.

        Raises:
            ValueError: this is more than one statement, or one that begins or ends transactions or changes the connection.
            StoreError: the database cannot be had, or the transaction is undone already.
            RuntimeError: the block is over.
        """
        ...

    def executemany(self, statement: str, many: Sequence[SqlParameters], /) -> int:
        """Run one statement with each of several parameters; return how many rows all of them changed. Raises as `execute`."""
        ...
