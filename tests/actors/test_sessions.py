"""Session values in a store: versions, commits that overwrite one another, and what is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.together import all_at_once
from understudy import JsonValue, StoreError
from understudy.actors.stores.postgres.database import PostgresDatabase
from understudy.actors.stores.sessions import KEPT, SessionChange, SessionCommit, Sessions, SessionTable
from understudy.actors.stores.sessions_in_memory import SessionsInMemory
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.vocabulary.context.session_values import SessionOwner, owner_of, owners

ADA = SessionOwner("user", ("shop", "ada"))
BOB = SessionOwner("user", ("shop", "bob"))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Sessions:
    if request.param == "memory":
        return SessionsInMemory(clock=clock)
    if request.param == "sqlite":
        return SessionTable(SQLiteDatabase(str(tmp_path / "shop.db")), clock=clock)
    return SessionTable(PostgresDatabase(request.getfixturevalue("postgres_url")), clock=clock)


def put(key: str, value: JsonValue, seen: int = 0, owner: SessionOwner = ADA) -> SessionChange:
    return SessionChange(owner, key, value, False, seen)


def remove(key: str, seen: int = 0) -> SessionChange:
    return SessionChange(ADA, key, None, True, seen)


def values(sessions: Sessions, *of: SessionOwner) -> dict[str, JsonValue]:
    return {key: each.value for key, each in sessions.load(of or [ADA]).items() if each.is_there}


def committed(sessions: Sessions, run_id: str, change: SessionChange, *, yields: bool = False) -> SessionCommit:
    (done,) = sessions.commit(run_id, [change], yields=yields)
    return done


# --- whose a value is


def test_the_prefix_of_a_key_says_who_shares_it() -> None:
    found = owners("shop", "ada", "c-1")

    assert [owner_of(key, found) for key in ("app:rate", "user:name", "n")] == found
    assert [each.scope for each in found] == ["app", "user", "session"]


def test_a_plain_key_of_a_run_without_a_conversation_is_nobody_s() -> None:
    assert owner_of("n", owners("shop", "ada", None)) is None


def test_no_two_owners_share_values_whatever_their_names(sessions: Sessions) -> None:
    named = [owners(app, user, "c")[2] for app, user in (("a", "b"), ("a,b", ""), ("", "a,b"), ('a", "b', ""))]
    for number, owner in enumerate(named):
        committed(sessions, "r1", put("n", number, owner=owner))

    assert [values(sessions, owner) for owner in named] == [{"n": number} for number in range(4)]


# --- what is stored


def test_a_value_comes_back_to_its_owner_alone(sessions: Sessions) -> None:
    sessions.commit("r1", [put("user:name", "Ada"), put("user:n", 1, owner=BOB)])

    assert values(sessions) == {"user:name": "Ada"}
    assert values(sessions, ADA, BOB) == {"user:name": "Ada", "user:n": 1}


@pytest.mark.parametrize("text", ["é", "\ud800", "\x00", "\U0001f600", '"\\', ""])
def test_any_text_comes_back_as_key_and_as_value(sessions: Sessions, text: str) -> None:
    sessions.commit("r1", [put(f"user:{text}", {text: [text, 1.0, 1, True, None]})])

    assert repr(values(sessions)) == repr({f"user:{text}": {text: [text, 1.0, 1, True, None]}})


def test_a_removed_key_has_a_version_alone(sessions: Sessions) -> None:
    first = committed(sessions, "r1", put("user:n", 1))
    second = committed(sessions, "r1", remove("user:n", first.version))

    assert values(sessions) == {}
    assert sessions.load([ADA])["user:n"].version == second.version == first.version + 1


def test_what_was_never_there_is_removed_without_a_trace(sessions: Sessions) -> None:
    assert committed(sessions, "r1", remove("user:n")) == SessionCommit("user:n", 0)
    assert sessions.load([ADA]) == {}


# --- commits of a key that another run has changed


def test_the_later_commit_wins_and_learns_whose_value_it_replaced(sessions: Sessions) -> None:
    first = committed(sessions, "r1", put("user:n", 1))

    second = committed(sessions, "r2", put("user:n", 2))

    assert (first.other_run_id, second.other_run_id) == ("", "r1")
    assert values(sessions) == {"user:n": 2}


def test_a_run_that_has_seen_the_value_overwrites_nobody(sessions: Sessions) -> None:
    first = committed(sessions, "r1", put("user:n", 1))

    assert committed(sessions, "r2", put("user:n", 2, first.version)).other_run_id == ""
    assert committed(sessions, "r3", put("user:n", 3, first.version)).other_run_id == "r2"


def test_a_run_has_seen_what_it_committed_itself(sessions: Sessions) -> None:
    committed(sessions, "r1", put("user:n", 1))

    assert committed(sessions, "r1", put("user:n", 2)).other_run_id == ""


def test_an_overwritten_commit_is_told_to_one_run_alone(sessions: Sessions) -> None:
    committed(sessions, "r1", put("user:n", 1))
    committed(sessions, "r2", put("user:n", 2))

    assert committed(sessions, "r3", put("user:n", 3)).other_run_id == "r2"


@pytest.mark.parametrize("value", [1, "a", [1, {"a": 2, "b": None}], None])
def test_an_equal_value_overwrites_nobody_and_has_the_version_that_is_there(
    sessions: Sessions, value: JsonValue
) -> None:
    first = committed(sessions, "r1", put("user:n", value))

    assert committed(sessions, "r2", put("user:n", value)) == SessionCommit("user:n", first.version)


def test_a_mapping_in_another_order_is_equal(sessions: Sessions) -> None:
    committed(sessions, "r1", put("user:n", {"a": 1, "b": 2}))

    assert committed(sessions, "r2", put("user:n", {"b": 2, "a": 1})).other_run_id == ""


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, None), ([1], [1.0])])
def test_values_that_python_holds_to_be_equal_and_json_does_not_are_overwritten(
    sessions: Sessions, one: JsonValue, other: JsonValue
) -> None:
    committed(sessions, "r1", put("user:n", one))

    assert committed(sessions, "r2", put("user:n", other)).other_run_id == "r1"
    assert repr(values(sessions)) == repr({"user:n": other})


def test_a_removal_is_overwritten_and_overwrites(sessions: Sessions) -> None:
    first = committed(sessions, "r1", put("user:n", 1))
    committed(sessions, "r2", remove("user:n", first.version))

    assert committed(sessions, "r3", put("user:n", 3, first.version)).other_run_id == "r2"
    assert committed(sessions, "r4", remove("user:n", first.version)).other_run_id == "r3"
    assert committed(sessions, "r5", remove("user:n", first.version)).other_run_id == ""


def test_one_that_yields_leaves_what_others_changed_unseen(sessions: Sessions) -> None:
    first = committed(sessions, "r1", put("user:n", 1))
    committed(sessions, "r2", put("user:n", 2, first.version))

    assert committed(sessions, "r3", put("user:n", 3, first.version), yields=True).other_run_id == "r2"
    assert committed(sessions, "r3", put("user:m", 3), yields=True).other_run_id == ""
    assert values(sessions) == {"user:n": 2, "user:m": 3}


def test_each_key_has_versions_of_its_own(sessions: Sessions) -> None:
    committed(sessions, "r1", put("user:n", 1))

    done = sessions.commit("r2", [put("user:n", 2), put("user:m", 2)])

    assert {each.key: each.other_run_id for each in done} == {"user:n": "r1", "user:m": ""}


def test_of_many_commits_each_is_the_last_or_told_once(sessions: Sessions) -> None:
    told, lock = list[str](), threading.Lock()

    def commit(run: int) -> None:
        for number in range(20):
            other = committed(sessions, f"r{run}-{number}", put("user:n", f"r{run}-{number}")).other_run_id
            with lock:
                told.append(other)

    all_at_once(commit, range(8))

    everybody = {f"r{run}-{number}" for run in range(8) for number in range(20)}
    assert sorted([*filter(None, told), str(values(sessions)["user:n"])]) == sorted(everybody)


# --- what is forgotten


def test_a_key_that_was_forgotten_and_made_anew_has_another_version(sessions: Sessions, clock: Clock) -> None:
    first = committed(sessions, "r1", put("user:n", 1))
    committed(sessions, "r1", remove("user:n"))
    clock.now += KEPT
    committed(sessions, "r2", put("user:m", 2))
    committed(sessions, "r2", remove("user:m"))

    committed(sessions, "r2", put("user:n", 2))

    assert committed(sessions, "r3", put("user:n", 3, first.version)).other_run_id == "r2"


def test_a_table_forgets_the_versions_of_keys_that_were_removed_long_ago_when_one_is_removed(
    tmp_path: Path, clock: Clock
) -> None:
    sessions = SessionTable(SQLiteDatabase(str(tmp_path / "shop.db")), clock=clock)
    sessions.commit("r1", [put("user:n", 1), put("user:m", 1), put("user:kept", 1)])
    committed(sessions, "r1", remove("user:n"))

    clock.now += KEPT
    committed(sessions, "r2", remove("user:m"))

    assert sorted(sessions.load([ADA])) == ["user:kept", "user:m"]


def test_memory_forgets_the_owner_that_was_not_used_for_longest() -> None:
    sessions = SessionsInMemory(max_owners=2)
    for owner in (ADA, BOB):
        committed(sessions, "r1", put("user:n", 1, owner=owner))
    sessions.load([ADA])

    committed(sessions, "r1", put("n", 1, owner=SessionOwner("session", ("shop", "ada", "c-1"))))

    assert (values(sessions, ADA), values(sessions, BOB)) == ({"user:n": 1}, {})


def test_memory_forgets_the_versions_of_keys_that_were_removed_first() -> None:
    sessions = SessionsInMemory(max_removed=1)
    sessions.commit("r1", [put("user:a", 1), put("user:b", 1), put("user:c", 1)])

    sessions.commit("r1", [remove("user:a"), remove("user:b"), put("user:a", 2), remove("user:c")])

    assert sorted(sessions.load([ADA])) == ["user:a", "user:c"]


def test_memory_without_values_has_none_to_look_for() -> None:
    sessions = SessionsInMemory(max_removed=0)
    before = sessions.has_values
    committed(sessions, "r1", put("user:n", 1))
    between = sessions.has_values
    committed(sessions, "r1", remove("user:n"))

    assert (before, between, sessions.has_values) == (False, True, False)


# --- a database that has something else


@pytest.mark.parametrize("column", ["value", "key"])
def test_a_row_that_cannot_be_read_is_an_error_of_the_store(tmp_path: Path, column: str) -> None:
    database = SQLiteDatabase(str(tmp_path / "shop.db"))
    sessions = SessionTable(database)
    committed(sessions, "r1", put("user:n", 1))
    spoil: Callable[[], object] = lambda: database.write(
        lambda sql: sql.execute(f"UPDATE understudy_values SET {column} = :text", {"text": "\\"})
    )
    spoil()

    with pytest.raises(StoreError, match="a session value cannot be read"):
        sessions.load([ADA])
