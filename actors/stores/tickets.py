"""Tickets: who has a conversation in a store, and who waits for it. The lowest ticket has it."""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

from understudy.vocabulary.runs.memory import ConversationKey

from .conversation_rows import names_of
from .database import Part, Sql, checked_ids

TICKETS = Part(
    "tickets",
    [
        """CREATE TABLE understudy_tickets (
            ticket {identity}, app TEXT NOT NULL, user_id TEXT NOT NULL, conversation_id TEXT NOT NULL,
            owner TEXT NOT NULL, claim {bigint} NOT NULL, run_id TEXT NOT NULL
        )""",
        "CREATE INDEX understudy_tickets_conversation ON understudy_tickets (app, user_id, conversation_id, ticket)",
        "CREATE INDEX understudy_tickets_owner ON understudy_tickets (owner, claim)",
    ],
)
"""`claim` is the number that the owner gave the ticket before it had one."""

_NAMED = "app = :app AND user_id = :user_id AND conversation_id = :conversation_id"
ADD = """
INSERT INTO understudy_tickets (app, user_id, conversation_id, owner, claim, run_id)
VALUES (:app, :user_id, :conversation_id, :owner, :claim, :run_id) RETURNING ticket
"""
FIRST = f"SELECT ticket FROM understudy_tickets WHERE {_NAMED} ORDER BY ticket LIMIT 1"
EXISTS = "SELECT 1 FROM understudy_tickets WHERE ticket = :ticket"
RETURN = "DELETE FROM understudy_tickets WHERE owner = :owner AND claim = :claim"
OF_OWNER = "SELECT claim FROM understudy_tickets WHERE owner = :owner AND claim < :below"
OF_NOBODY = """
DELETE FROM understudy_tickets WHERE owner NOT IN (SELECT owner FROM understudy_owners)
"""
OF_RUN = f"DELETE FROM understudy_tickets WHERE {_NAMED} AND run_id = :run_id"
OF_USER = "DELETE FROM understudy_tickets WHERE user_id = :user_id AND app = :app"
OF_USER_ANYWHERE = "DELETE FROM understudy_tickets WHERE user_id = :user_id"
LEAVE = """
DELETE FROM understudy_owners
WHERE owner = :owner AND NOT EXISTS (SELECT 1 FROM understudy_tickets WHERE understudy_tickets.owner = :owner)
"""


def add(sql: Sql, key: ConversationKey, owner: str, claim: int, run_id: str) -> int:
    """Add a ticket at the end of the line and return it."""
    row = sql.execute(ADD, names_of(key) | {"owner": owner, "claim": claim, "run_id": run_id}).fetchone()
    assert row is not None, "the statement returns the row that it wrote"
    return int(row[0])


def number_of(key: ConversationKey) -> int:
    """Return the number under which transactions that add a ticket for a conversation go one after another.

    Numbers of tickets are drawn before they are committed. Two at once could commit in the other order, and the first to
    commit would have the conversation, and then the one with the lower number, too.
    """
    return crc32("\0".join(map(str, names_of(key).values())).encode("utf-8", "surrogatepass")) - 2**31


def first(sql: Sql, key: ConversationKey) -> int | None:
    """Return the ticket that has a conversation; None if nobody has it."""
    row = sql.execute(FIRST, names_of(key)).fetchone()
    return None if row is None else int(row[0])


def exists(sql: Sql, ticket: int) -> bool:
    """Whether a ticket was neither returned nor taken from its owner."""
    return sql.execute(EXISTS, {"ticket": ticket}).fetchone() is not None


def give_back(sql: Sql, owner: str, claim: int) -> None:
    """Remove a ticket of an owner."""
    sql.execute(RETURN, {"owner": owner, "claim": claim})


def give_back_unknown(sql: Sql, owner: str, known: Collection[int], below: int) -> None:
    """Remove tickets of an owner that it does not know of, with claims below a number; the owner too, if it has none left."""
    for (claim,) in sql.execute(OF_OWNER, {"owner": owner, "below": below}).fetchall():
        if claim not in known:
            give_back(sql, owner, claim)
    sql.execute(LEAVE, {"owner": owner})


def drop_of_nobody(sql: Sql) -> None:
    """Remove the tickets of owners that are not there any more."""
    sql.execute(OF_NOBODY)


def drop_of_run(sql: Sql, key: ConversationKey, run_id: str) -> None:
    """Remove the tickets of a run for a conversation, whatever process has them."""
    sql.execute(OF_RUN, names_of(key) | {"run_id": run_id})


def drop_of_user(sql: Sql, user: str, app: str | None) -> None:
    """Remove the tickets of all runs in conversations of a user: these runs find their appends refused."""
    checked_ids(user, app or "")
    if app is None:
        sql.execute(OF_USER_ANYWHERE, {"user_id": user})
    else:
        sql.execute(OF_USER, {"user_id": user, "app": app})
