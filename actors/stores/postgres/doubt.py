"""Ask PostgreSQL whether a transaction was committed, by its number, after its connection was lost at the commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .connections import Connections
from .failures import is_passing

if TYPE_CHECKING:
    import psycopg

PAUSE = 0.05  # Between two questions.
BEGIN = b"BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT txid_current()"
# The lock comes before the first query, which decides what the transaction sees: it sees all that had the lock before it.
BEGIN_IN_LANE = BEGIN.replace(b";", b"; LOCK TABLE understudy_schema IN SHARE UPDATE EXCLUSIVE MODE;")
STATUS = "SELECT txid_status(%s)"
IN_THE_FUTURE = "22023"


class Begun(NamedTuple):
    """A transaction that writes."""

    number: int
    life: str
    """The life of the server in which it has this number."""


def begin(connection: psycopg.Connection[Any], life: str, *, in_lane: bool = False) -> Begun:
    """Begin a transaction, and learn its number in the same round trip.

    Args:
        connection: without a transaction.
        life: of its server.
        in_lane: wait until no other process has a transaction that was begun so.
    """
    rows = _begin_in_lane(connection) if in_lane else connection.execute(BEGIN, prepare=False)
    while rows.nextset():
        pass
    row = rows.fetchone()
    assert row is not None, "the statement returns one row"
    return Begun(row[0], life)


def _begin_in_lane(connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
    import psycopg

    try:
        return connection.execute(BEGIN_IN_LANE, prepare=False)
    except psycopg.ProgrammingError:  # the table is not there yet, or its user may not lock it
        connection.rollback()
        return connection.execute(BEGIN, prepare=False)


def was_committed(connections: Connections, begun: Begun, until: float) -> bool | None:
    """Return whether a transaction was committed; None if nobody can tell.

    Args:
        connections: others, to the same server.
        begun: the transaction, whose connection is lost.
        until: when to stop asking, by the monotonic clock.
    """
    import psycopg

    while True:
        try:
            status, life = _asked(connections, begun, until)
        except (psycopg.Error, OSError) as error:
            if getattr(error, "sqlstate", None) == IN_THE_FUTURE:
                return False
            if not is_passing(error):
                return None
        else:
            if status != "in progress":  # else the server has not noticed yet that the connection is lost
                return _read(status, is_same_life=bool(life) and life == begun.life)
        if time.monotonic() + PAUSE >= until:
            return None
        time.sleep(PAUSE)


def _read(status: str | None, *, is_same_life: bool) -> bool | None:
    """Say what a status means. A server that crashed may give the number of a transaction that was lost to another one."""
    if status == "aborted":
        return False
    return True if status == "committed" and is_same_life else None


def _asked(connections: Connections, begun: Begun, until: float) -> tuple[str | None, str]:
    connection = connections.borrow(until)
    try:
        row = connection.execute(STATUS, (begun.number,)).fetchone()
        return (None if row is None else row[0]), connections.life_of(connection)
    finally:
        connections.give_back(connection)
