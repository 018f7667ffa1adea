"""Names of processes on a server: a process whose session has ended is not the one that it was."""

from __future__ import annotations

from typing import Any

import psycopg

from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.postgres.session_locks import TAKE, SessionLocks

END = "SELECT pg_terminate_backend(%s, 5000)"


def ended(session: psycopg.Connection[Any], admin: psycopg.Connection[Any]) -> None:
    assert admin.execute(END, (session.info.backend_pid,)).fetchone() == (True,)


def test_a_process_whose_session_has_ended_takes_the_lock_of_its_name_again_or_another_name(postgres_url: str) -> None:
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
        ended(sessions[0], admin)
        assert not others.lives(before)
        assert mine.name() == before
        assert others.lives(before)

        ended(sessions[1], admin)
        assert admin.execute(TAKE, (int(before),)).fetchone() == (True,)
        after = mine.name()
        assert others.lives(before)
        admin.execute("SELECT pg_advisory_unlock_all()")  # the end of a session is known to the server some time later

    assert after != before
    assert (others.lives(before), others.lives(after)) == (False, True)
