"""Which statements of a tool an SQLite file accepts: SQLite asks about each part of a statement when it compiles it."""

from __future__ import annotations

import sqlite3

OWN = "understudy_"
_ENDS = {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
_READS = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_HARMLESS_PRAGMAS = {
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "data_version",  # asked by full-text tables
    "page_size",  # asked by spatial tables
}


class Guard:
    """The rules for one transaction.

    Attributes:
        refused: what was refused last, in words; empty if nothing was.
    """

    def __init__(self) -> None:
        self.refused = ""

    def judge(self, action: int, first: str | None, second: str | None, place: str | None, inner: str | None) -> int:
        """Return whether a part of a statement is allowed, as `sqlite3.Connection.set_authorizer` has it."""
        why = "" if action in _READS else _why_not(action, first or "", second or "", place)
        self.refused = why or self.refused
        return sqlite3.SQLITE_DENY if why else sqlite3.SQLITE_OK


def _why_not(action: int, first: str, second: str, place: str | None) -> str:
    if action in _ENDS or (action == sqlite3.SQLITE_PRAGMA and first.lower() not in _HARMLESS_PRAGMAS):
        return "it concerns the transaction or the connection, which others use later"
    if action == sqlite3.SQLITE_PRAGMA:
        return ""
    if place == "temp" and action != sqlite3.SQLITE_UPDATE:  # ALTER TABLE looks for uses of the table there
        return "temporary objects stay on the connection, which others use later; make a table of your own"
    names = (first,) if action == sqlite3.SQLITE_UPDATE else (first, second)  # the other one is a column
    if any(name.lower().startswith(OWN) for name in names):
        return f"tables whose names begin with {OWN} are the runtime's"
    return ""
