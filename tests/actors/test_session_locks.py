"""Names of processes on a server: a process whose session has ended is not the one that it was."""

from __future__ import annotations

from typing import Any

import psycopg

from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.postgres.session_locks import SessionLocks

END = "SELECT pg_terminate_backend(%s, 5000)"


def test_a_process_whose_session_has_ended_takes_a_name_that_lives(postgres_url: str) -> None:
    sessions: list[psycopg.Connection[Any]] = []
    database = PostgresDatabase(postgres_url)

    def connect() -> psycopg.Connection[Any]:
        sessions.append(psycopg.connect(postgres_url, autocommit=True))
        return sessions[-1]

    mine, others = [SessionLocks(connect, database.read, "shop") for _ in range(2)]
    before = mine.name()
    assert others.lives(before)
    assert mine.name() == before

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        assert admin.execute(END, (sessions[0].info.backend_pid,)).fetchone() == (True,)

    after = mine.name()
    assert after != before
    assert (others.lives(before), others.lives(after)) == (False, True)
