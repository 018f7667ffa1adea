"""The tables of conversations, and what transactions do with their rows."""

from __future__ import annotations

from itertools import takewhile

from understudy.vocabulary.runs.conversations import Erased, Window
from understudy.vocabulary.runs.memory import ConversationKey

from .database import Part, Row, Sql, SqlValue, checked_ids

AT_ONCE = 50  # Turns that one statement returns; a window of tokens may need several.
FORGOTTEN_CONVERSATIONS = 4  # Conversations from which one append forgets; the next appends do the rest.
FORGOTTEN_TURNS = 50  # Turns of each.
MOST = 1 << 32  # Turns of a conversation.

CONVERSATIONS = Part(
    "conversations",
    [
        """CREATE TABLE understudy_conversations (
            conversation {identity}, app TEXT NOT NULL, user_id TEXT NOT NULL, conversation_id TEXT NOT NULL,
            last_number {bigint} NOT NULL, summary_number {bigint} NOT NULL, oldest_at {real} NOT NULL,
            UNIQUE (app, user_id, conversation_id)
        )""",
        "CREATE INDEX understudy_conversations_oldest_at ON understudy_conversations (app, oldest_at)",
        """CREATE TABLE understudy_turns (
            id {bigint} PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT NOT NULL, tokens {bigint} NOT NULL,
            upto {bigint} NOT NULL, added_at {real} NOT NULL, body TEXT NOT NULL
        )""",
        "CREATE INDEX understudy_turns_run_id ON understudy_turns (run_id)",
    ],
)
"""The id of a turn is `conversation << 32 | number`. `oldest_at` is the time of the oldest turn, in seconds since 1970."""

_NAMED = "app = :app AND user_id = :user_id AND conversation_id = :conversation_id"
HEAD = f"SELECT conversation, last_number, summary_number FROM understudy_conversations WHERE {_NAMED}"
NEXT = """
INSERT INTO understudy_conversations
    (app, user_id, conversation_id, last_number, summary_number, oldest_at)
VALUES (:app, :user_id, :conversation_id, 1, 0, :now)
ON CONFLICT (app, user_id, conversation_id) DO UPDATE SET last_number = understudy_conversations.last_number + 1
RETURNING conversation, last_number
"""
NOT_NEXT = "UPDATE understudy_conversations SET last_number = last_number - 1 WHERE conversation = :conversation"
IS_THERE = "SELECT 1 FROM understudy_turns WHERE run_id = :run_id AND kind = :kind AND id BETWEEN :low AND :high"
IS_ANY_THERE = "SELECT 1 FROM understudy_turns WHERE run_id = :run_id AND id BETWEEN :low AND :high"
ADD = "INSERT INTO understudy_turns VALUES (:id, :kind, :run_id, :tokens, :upto, :now, :body)"
SET_SUMMARY = "UPDATE understudy_conversations SET summary_number = :number WHERE conversation = :conversation"
SUMMARY = "SELECT upto, tokens, body FROM understudy_turns WHERE id = :id"
NEWEST = """
SELECT id, tokens, body FROM understudy_turns WHERE id > :low AND id < :high AND kind = 'turn' ORDER BY id DESC LIMIT :some
"""
PAGE = """
SELECT id, kind, run_id, tokens, upto, added_at, body FROM understudy_turns WHERE id > :low AND id <= :high ORDER BY id LIMIT :some
"""
COUNT = "SELECT count(*) FROM understudy_turns WHERE kind = :kind AND id BETWEEN :low AND :high"
DROP_TURNS = "DELETE FROM understudy_turns WHERE id BETWEEN :low AND :high"
DROP = "DELETE FROM understudy_conversations WHERE conversation = :conversation"
OF_USER = "SELECT conversation FROM understudy_conversations WHERE user_id = :user_id AND app = :app"
OF_USER_ANYWHERE = "SELECT conversation FROM understudy_conversations WHERE user_id = :user_id"
OVERDUE = """
SELECT conversation FROM understudy_conversations WHERE app = :app AND oldest_at < :before ORDER BY oldest_at LIMIT :some
"""
OLDEST = "SELECT id, added_at FROM understudy_turns WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :some"
SET_OLDEST = "UPDATE understudy_conversations SET oldest_at = :oldest_at WHERE conversation = :conversation"


def names_of(key: ConversationKey) -> dict[str, SqlValue]:
    checked_ids(key.app, key.user, key.conversation)
    return {"app": key.app, "user_id": key.user, "conversation_id": key.conversation}


def span_of(conversation: int) -> dict[str, int]:
    return {"low": conversation * MOST, "high": conversation * MOST + MOST - 1}


def newest(sql: Sql, key: ConversationKey, window: Window) -> tuple[str | None, int, list[Row]]:
    """Return the text of the last summary, the last turn that it covers, and the rows of the window, newest first."""
    head = sql.execute(HEAD, names_of(key)).fetchone()
    if head is None:
        return None, 0, []
    conversation, _, summary_number = head
    low, high = conversation * MOST, conversation * MOST + MOST
    summary = sql.execute(SUMMARY, {"id": low + summary_number}).fetchone() if summary_number else None
    upto, spent, text = (0, 0, None) if summary is None else summary
    rows: list[Row] = []
    while window.turns is None or len(rows) < window.turns:
        some = AT_ONCE if window.turns is None else min(AT_ONCE, window.turns - len(rows))
        found = sql.execute(NEWEST, {"low": low + upto, "high": high, "some": some}).fetchall()
        for row in found:
            spent += row[1]
            if rows and window.tokens is not None and spent > window.tokens:
                return text, upto, rows
            rows.append(row)
        if len(found) < some:
            break
        high = found[-1][0]
    return text, upto, rows


def add_row(sql: Sql, key: ConversationKey, row: dict[str, SqlValue]) -> tuple[int, int] | None:
    """Add a row; returns its conversation and number, or None if the run has added one of this kind before."""
    added = sql.execute(NEXT, names_of(key) | {"now": row["now"]}).fetchone()
    assert added is not None, "the statement returns the row that it wrote"
    conversation, number = added
    asked: dict[str, SqlValue] = {"run_id": row["run_id"], "kind": row["kind"], **span_of(conversation)}
    if row["run_id"] and sql.execute(IS_THERE, asked).fetchone() is not None:
        sql.execute(NOT_NEXT, {"conversation": conversation})
        return None
    sql.execute(ADD, row | {"id": conversation * MOST + number})
    return conversation, number


def has_row_of(sql: Sql, key: ConversationKey, run_id: str) -> bool:
    """Whether a run has added a row to a conversation."""
    head = sql.execute(HEAD, names_of(key)).fetchone()
    return head is not None and sql.execute(IS_ANY_THERE, {"run_id": run_id, **span_of(head[0])}).fetchone() is not None


def forget_some(sql: Sql, app: str, before: float) -> None:
    """Forget some turns of an app that were added before a time."""
    for (conversation,) in sql.execute(
        OVERDUE, {"app": app, "before": before, "some": FORGOTTEN_CONVERSATIONS}
    ).fetchall():
        span = span_of(conversation)
        found = sql.execute(OLDEST, span | {"some": FORGOTTEN_TURNS + 1}).fetchall()
        # Up to the first that is not old: by a clock that was set back, turns after that one may look older than it is.
        old = [id for id, _ in takewhile(lambda turn: turn[1] < before, found[:FORGOTTEN_TURNS])]
        if old:
            sql.execute(DROP_TURNS, {"low": span["low"], "high": old[-1]})
        if len(old) < len(found):
            sql.execute(SET_OLDEST, {"conversation": conversation, "oldest_at": found[len(old)][1]})
        else:
            sql.execute(DROP, {"conversation": conversation})


def conversations_of(sql: Sql, user: str, app: str | None) -> list[int]:
    checked_ids(user, app or "")
    if app is None:
        rows = sql.execute(OF_USER_ANYWHERE, {"user_id": user}).fetchall()
    else:
        rows = sql.execute(OF_USER, {"user_id": user, "app": app}).fetchall()
    return [row[0] for row in rows]


def count_rows(sql: Sql, conversation: int) -> Erased:
    def of(kind: str) -> int:
        row = sql.execute(COUNT, {"kind": kind, **span_of(conversation)}).fetchone()
        return 0 if row is None else row[0]

    return Erased(conversations=1, turns=of("turn"), summaries=of("summary"))


def drop_conversation(sql: Sql, conversation: int) -> bool:
    sql.execute(DROP_TURNS, dict(span_of(conversation)))
    return sql.execute(DROP, {"conversation": conversation}).rowcount == 1
