"""Conversations in a database: their turns and summaries, read from the newest on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.conversations import ConversationTurn, Erased, Window
from understudy.vocabulary.runs.memory import ConversationKey
from understudy.vocabulary.runs.token_estimates import messages_tokens

from .conversation_rows import (
    CONVERSATIONS,
    HEAD,
    MOST,
    PAGE,
    SET_SUMMARY,
    add_row,
    conversations_of,
    count_rows,
    drop_conversation,
    forget_some,
    has_row_of,
    names_of,
    newest,
    span_of,
)
from .conversations import Fence, LoadedConversation
from .database import Row, Sql, SqlValue, Table


class ConversationTable(Table):
    """`Conversations` in a database."""

    part = CONVERSATIONS

    def load(self, key: ConversationKey, window: Window) -> LoadedConversation:
        from .saved_messages import messages_of_text

        summary, upto, rows = self._database.read(lambda sql: newest(sql, key, window))
        store = repr(self._database)
        turns = [(row[0] % MOST, messages_of_text(row[2], store)) for row in reversed(rows)]
        return LoadedConversation(() if summary is None else messages_of_text(summary, store), upto, turns)

    def append(
        self,
        key: ConversationKey,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
        keep: float | None = None,
    ) -> None:
        now = self._clock()
        row = self._row("turn", messages, run_id, 0, now)

        def write(sql: Sql) -> None:
            if fence is not None:
                fence(sql)
            add_row(sql, key, row)
            if keep is not None:
                forget_some(sql, key.app, now - keep)

        self._database.write(write)

    def summarize(
        self,
        key: ConversationKey,
        upto: int,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
    ) -> None:
        row = self._row("summary", messages, run_id, upto, self._clock())

        def write(sql: Sql) -> None:
            if fence is not None:
                fence(sql)
            added = add_row(sql, key, row)
            if added is not None:
                conversation, number = added
                sql.execute(SET_SUMMARY, {"conversation": conversation, "number": number})

        self._database.write(write)

    def _row(self, kind: str, messages: Sequence[Message], run_id: str, upto: int, now: float) -> dict[str, SqlValue]:
        from .saved_messages import messages_as_text

        body = messages_as_text(messages, repr(self._database))
        tokens = messages_tokens(messages)
        return {"kind": kind, "run_id": run_id, "tokens": tokens, "upto": upto, "now": now, "body": body}

    def has_added(self, key: ConversationKey, run_id: str) -> bool:
        return self._database.read(lambda sql: has_row_of(sql, key, run_id))

    def read(self, key: ConversationKey, after: int, limit: int) -> list[ConversationTurn]:
        def find(sql: Sql) -> list[Row]:
            head = sql.execute(HEAD, names_of(key)).fetchone()
            if head is None:
                return []
            values = span_of(head[0]) | {"some": limit}
            return sql.execute(PAGE, values | {"low": values["low"] + after}).fetchall()

        store = repr(self._database)
        return [_turn(row, store) for row in self._database.read(find)]

    def clear(self, key: ConversationKey) -> None:
        def write(sql: Sql) -> None:
            head = sql.execute(HEAD, names_of(key)).fetchone()
            if head is not None:
                drop_conversation(sql, head[0])

        self._database.write(write, durable=True)

    def count(self, user: str, app: str | None) -> Erased:
        def count(sql: Sql) -> Erased:
            return sum([count_rows(sql, each) for each in conversations_of(sql, user, app)], Erased())

        return self._database.read(count)

    def erase(self, user: str, app: str | None) -> Erased:
        erased = Erased()
        found = self._database.read(lambda sql: conversations_of(sql, user, app))
        for conversation in found:  # each in a transaction of its own, because other runs write meanwhile
            erased += self._database.write(partial(_drop, conversation), durable=True)
        return erased


def _drop(conversation: int, sql: Sql) -> Erased:
    found = count_rows(sql, conversation)
    return found if drop_conversation(sql, conversation) else Erased()


def _turn(row: Row, store: str) -> ConversationTurn:
    from .saved_messages import messages_of_text

    id, kind, run_id, tokens, upto, added_at, body = row
    named: Literal["turn", "summary"] = "summary" if kind == "summary" else "turn"
    return ConversationTurn(
        number=id % MOST,
        kind=named,
        run_id=run_id,
        messages=messages_of_text(body, store),
        tokens=tokens,
        upto=upto if named == "summary" else None,
        added_at=added_at,
    )
