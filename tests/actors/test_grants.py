"""Grants of conversations in stores: who has one, who waits, and what becomes of the tickets of the dead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually
from understudy.actors.stores import grants as module
from understudy.actors.stores import tickets
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.database import Database, Sql
from understudy.actors.stores.grants import Grants, grants_of
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.owners import BEATS, MISSED, Watch
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.threads.alarms import Alarm
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

KEY = us.ConversationKey("shop", "ada", "c-42")
LEASE = 10.0
BEAT = LEASE / BEATS


class Clock:
    """A clock that moves when the test says so, and rings the alarms that are due, one after another."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, Alarm]] = []

    def monotonic(self) -> float:
        return self._now

    time = monotonic

    def ring_at(self, moment: float, ring: Callable[[], object]) -> Alarm:
        alarm = Alarm(ring)
        self._due.append((moment, alarm))
        return alarm

    def passes(self, seconds: float) -> None:
        until = self._now + seconds
        while self._due and (first := min(self._due, key=lambda due: due[0]))[0] <= until:
            self._due.remove(first)
            self._now, alarm = first
            alarm.run_turns()
        self._now = until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "ring_at", clock.ring_at)
    return clock


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SQLiteDatabase(str(tmp_path / "shop.db"))
    found = open_store(request.getfixturevalue("postgres_url")).database
    assert found is not None
    return found


@pytest.fixture
def here(database: Database, clock: Clock) -> Grants:
    return Grants(database, LEASE)


@pytest.fixture
def there(database: Database, clock: Clock) -> Grants:
    """Another process, as far as the store can tell."""
    return Grants(database, LEASE)


def rows(database: Database, table: str) -> int:
    row = database.read(lambda sql: sql.execute(f"SELECT count(*) FROM understudy_{table}").fetchone())
    assert row is not None
    return int(row[0])


def die(grants: Grants) -> None:
    """Have a process end without a word: its tickets stay, and nothing beats for them."""
    grants.begin_anew()


def test_a_conversation_is_granted_to_one_process_at_a_time_the_oldest_first(here: Grants, there: Grants) -> None:
    first, _, is_granted = here.take(KEY, "run-1")
    second, second_ticket, second_is_granted = there.take(KEY, "run-2")
    third, third_ticket, _ = here.take(KEY, "run-3")

    assert (is_granted, second_is_granted) == (True, False)
    assert [there.has_come(KEY, second, second_ticket), here.has_come(KEY, third, third_ticket)] == [False, False]
    here.give_back(first)
    assert [here.has_come(KEY, third, third_ticket), there.has_come(KEY, second, second_ticket)] == [False, True]
    there.give_back(second)
    assert here.has_come(KEY, third, third_ticket)


@pytest.mark.parametrize(
    "other", [KEY._replace(app="bank"), KEY._replace(user="bob"), KEY._replace(conversation="c-1")]
)
def test_other_conversations_are_granted_at_once(here: Grants, there: Grants, other: us.ConversationKey) -> None:
    here.take(KEY, "run-1")

    assert there.take(other, "run-2")[2]


def test_who_waits_and_gives_up_leaves_the_line(here: Grants, there: Grants) -> None:
    first, _, _ = here.take(KEY, "run-1")
    second, _, _ = there.take(KEY, "run-2")
    third, third_ticket, _ = here.take(KEY, "run-3")

    there.give_back(second)
    here.give_back(first)

    assert here.has_come(KEY, third, third_ticket)


def test_nothing_is_left_in_the_store_when_all_was_given_back(database: Database, clock: Clock, here: Grants) -> None:
    claim, _, _ = here.take(KEY, "run-1")
    here.give_back(claim)
    clock.passes(BEAT)

    assert (rows(database, "tickets"), rows(database, "owners")) == (0, 0)


def test_a_process_that_ends_gives_back_what_it_has(database: Database, here: Grants) -> None:
    here.take(KEY, "run-1")
    here.leave()

    assert (rows(database, "tickets"), rows(database, "owners")) == (0, 0)


def test_a_dead_process_is_replaced_within_the_lease(
    database: Database, clock: Clock, here: Grants, there: Grants
) -> None:
    there.take(KEY, "run-1")
    claim, ticket, _ = here.take(KEY, "run-2")
    die(there)

    clock.passes(MISSED * BEAT)
    assert here.has_come(KEY, claim, ticket) is False
    clock.passes(LEASE - MISSED * BEAT)
    assert here.has_come(KEY, claim, ticket) is True
    assert rows(database, "owners") == 1


def test_a_process_that_beats_is_waited_for(clock: Clock, here: Grants, there: Grants) -> None:
    there.take(KEY, "run-1")
    claim, ticket, _ = here.take(KEY, "run-2")

    clock.passes(3 * LEASE)

    assert here.has_come(KEY, claim, ticket) is False


def test_who_was_taken_for_dead_learns_it_at_the_append_and_nothing_is_stored(
    database: Database, clock: Clock, here: Grants, there: Grants
) -> None:
    conversations = ConversationTable(database)
    _, lost, _ = there.take(KEY, "run-1")
    fence = there.fence(KEY, lost, "run-1")
    claim, ticket, _ = here.take(KEY, "run-2")
    die(there)
    clock.passes(LEASE)
    assert here.has_come(KEY, claim, ticket) is True

    with pytest.raises(us.RunError, match="run run-1 has lost conversation 'c-42'.*its turn is not stored") as caught:
        conversations.append(KEY, [user_message("late")], "run-1", fence=fence)

    assert caught.value.run_id == "run-1"
    conversations.append(KEY, [user_message("mine")], "run-2", fence=here.fence(KEY, ticket, "run-2"))
    assert [message.text for message in conversations.load(KEY, Window(None, None)).messages] == ["mine"]


def test_who_was_taken_for_dead_while_it_waited_learns_that_its_ticket_is_lost(here: Grants, there: Grants) -> None:
    here.take(KEY, "run-1")
    claim, ticket, _ = there.take(KEY, "run-2")
    here.drop_of_user("ada", "shop")

    assert there.has_come(KEY, claim, ticket) is None


def test_a_ticket_that_could_not_be_given_back_is_removed_by_a_later_beat(
    database: Database, clock: Clock, here: Grants, there: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, _, _ = here.take(KEY, "run-1")
    waiting, ticket, _ = there.take(KEY, "run-2")

    def fail(*_: object, **__: object) -> None:
        raise us.StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(database), "write", fail)
        here.give_back(claim)

    assert there.has_come(KEY, waiting, ticket) is False
    clock.passes(BEAT)
    assert there.has_come(KEY, waiting, ticket) is True


def test_a_ticket_that_could_not_be_given_back_is_removed_while_the_process_has_another_one(
    database: Database, clock: Clock, here: Grants, there: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, _, _ = here.take(KEY, "r-1")
    kept, _, _ = here.take(us.ConversationKey("shop", "ada", "other"), "r-2")
    waits, number, _ = there.take(KEY, "r-3")

    def fail(*_: object, **__: object) -> None:
        raise us.StoreError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(type(database), "write", fail)
        here.give_back(claim)
    clock.passes(BEAT)

    assert there.has_come(KEY, waits, number)
    here.give_back(kept)


def test_a_ticket_that_is_taken_again_replaces_the_one_in_doubt(here: Grants) -> None:
    here.take(KEY, "r-1")  # its answer was lost, so nobody gives it back

    assert here.take(KEY, "r-1", again=True)[2]


@pytest.mark.parametrize("is_held", [True, False])
def test_a_process_beats_for_a_store_that_is_gone_and_warns_only_while_it_has_a_ticket(
    is_held: bool,
    database: Database,
    clock: Clock,
    here: Grants,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    claim, _, _ = here.take(KEY, "run-1")
    tries: list[None] = []

    def fail(*_: object, **__: object) -> None:
        tries.append(None)
        raise us.StoreError("the server is gone")

    monkeypatch.setattr(type(database), "write", fail)
    if not is_held:
        here.give_back(claim)
        tries.clear()

    clock.passes(LEASE * 3)

    assert len(tries) == (3 * BEATS if is_held else MISSED)
    assert caplog.text.count("could not tell others") == (3 * BEATS if is_held else 0)


def test_one_file_has_one_owner_for_each_process(tmp_path: Path) -> None:
    one, other = [open_store(f"sqlite:///{tmp_path}/shop.db") for _ in range(2)]

    assert one.grants is other.grants is grants_of(SQLiteDatabase(str(tmp_path / "shop.db")))
    assert open_store(None).grants is None


# --- who is dead, by what is seen


def seen(watch: Watch, beats: dict[str, int], moments: list[float]) -> list[list[tuple[str, int]]]:
    return [watch.look(beats, moment) for moment in moments]


def test_an_owner_that_does_not_beat_is_dead_within_the_lease() -> None:
    watch = Watch(lease=10.0)

    found = seen(watch, {"a": 7}, [float(moment) for moment in range(MISSED + 1)])

    assert found == [*[[]] * MISSED, [("a", 7)]]


def test_an_owner_that_beats_is_never_dead() -> None:
    watch = Watch(lease=10.0)

    assert [watch.look({"a": moment // 5}, float(moment)) for moment in range(40)] == [[]] * 40


def test_who_stood_still_looks_anew_before_it_buries_anybody() -> None:
    watch = Watch(lease=10.0)
    seen(watch, {"a": 7}, [0.0, 1.0])

    assert seen(watch, {"a": 7}, [60.0, 61.0]) == [[], []]


def test_a_ticket_that_is_drawn_first_is_committed_first(
    here: Grants, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two runs have a conversation: the one that was alone when it looked, and the one with the lower number."""
    if isinstance(database, SQLiteDatabase):
        pytest.skip("a file has one writer")
    here.take(us.ConversationKey("shop", "ada", "another"), "run-0")  # makes the tables
    first, drawn, went_on = tickets.first, threading.Event(), threading.Event()

    def looks_late(sql: Sql, key: us.ConversationKey) -> int | None:
        if threading.current_thread() is slow and not drawn.is_set():
            drawn.set()
            assert went_on.wait(WAIT)
        return first(sql, key)

    def waits() -> bool:
        return bool(database.read(lambda sql: sql.execute(WAITING).fetchone()))

    monkeypatch.setattr(tickets, "first", looks_late)
    taken = dict[str, tuple[int, int, bool]]()
    slow = threading.Thread(target=lambda: taken.update(slow=here.take(KEY, "run-1")))
    slow.start()
    assert drawn.wait(WAIT)
    fast = threading.Thread(target=lambda: taken.update(fast=Grants(database, LEASE).take(KEY, "run-2")))
    fast.start()
    eventually(lambda: waits() or not fast.is_alive(), "the other one waits, or has its ticket")
    went_on.set()
    slow.join(WAIT)
    fast.join(WAIT)

    assert (taken["slow"][2], taken["fast"][2]) == (True, False)


WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
