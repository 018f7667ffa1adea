"""A wall clock that jumps back and forth by an hour costs stores nothing: neither conversations, leases nor kept turns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

import understudy as us
from tests.support.freezing import LEASE, outcome_of, watching
from tests.support.killing import Effects, forked, killed, worker
from tests.support.scripts import WAIT, eventually
from understudy.actors.stores.conversation_table import ConversationTable
from understudy.actors.stores.database import Database
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.runs import RunTable
from understudy.actors.stores.sessions import SessionChange, SessionTable
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.session_values import SessionOwner
from understudy.vocabulary.messages import user_message
from understudy.vocabulary.runs.conversations import Window

HOUR = 3_600.0
NOW = 1_000_000.0
JUMPS = (0.0, HOUR, -HOUR)
KEY = us.ConversationKey("shop", "ada", "c-42")
ADA = SessionOwner("user", ("shop", "ada"))
RUN = us.PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="[]")
ALL = Window(turns=None, tokens=None)


class Clock:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(url: str) -> Database:
    found = open_store(url).database
    assert found is not None
    return found


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the wall clock of this process jump at each look at it."""
    real, jumps, lock = time.time, cycle(JUMPS), threading.Lock()

    def look() -> float:
        with lock:
            return real() + next(jumps)

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", look)
        for table in (PauseTable, ConversationTable, SessionTable, RunTable):
            assert table.__init__.__kwdefaults__ is not None
            patch.setitem(table.__init__.__kwdefaults__, "clock", look)
        yield


# --- conversations


@pytest.mark.usefixtures("jumping")
def test_runs_of_two_systems_take_turns_in_one_conversation(url: str) -> None:
    model = FunctionModel(lambda request: says(str(len(request.messages))))
    clerk = us.Agent("clerk", model=model, memory=us.PersistentMemory(turns=None))
    with us.ActorSystem("shop", store=url) as here, us.ActorSystem("shop", store=url) as there:
        runs = [clerk.submit("hi", system=system, conversation_id="c-42") for _ in range(6) for system in (here, there)]
        said = [int(run.get(timeout=WAIT).text) for run in runs]

    assert sorted(said) == list(range(1, 24, 2))


@pytest.mark.usefixtures("jumping")
def test_a_conversation_of_a_process_that_lives_is_kept_and_that_of_a_dead_one_is_given_on(database: Database) -> None:
    here, there = Grants(database, 1.0), Grants(database, 1.0)
    here.take(KEY, "run-1")
    claim, ticket, _ = there.take(KEY, "run-2")
    beaten = beats(database)
    eventually(lambda: beats(database) > beaten + 40, "both have beaten for more than a lease")

    assert there.has_come(KEY, claim, ticket) is False
    here.begin_anew()  # it ends without a word
    eventually(lambda: there.has_come(KEY, claim, ticket) is True, "the dead process is replaced")
    there.give_back(claim)
    there.leave()


def beats(database: Database, table: str = "understudy_owners") -> int:
    row = database.read(lambda sql: sql.execute(f"SELECT sum(beats) FROM {table}").fetchone())
    assert row is not None
    return int(row[0])


# --- leases of tokens


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_of_two_workers_one_commits_a_turn_whatever_the_clock_does_meanwhile(
    jump: float, database: Database, clock: Clock
) -> None:
    table = PauseTable(database, clock=clock)
    table.put(RUN, keep=None)
    assert table.lease("shop-1", 1, "ada", 60)
    clock.now += jump
    taken = table.lease("shop-1", 1, "bob", 60)

    assert taken is (jump > 0)
    done = [table.commit(replace(RUN, revision=2), holder, keep=None) for holder in ("ada", "bob", "ada")]
    assert done == ([False, True, False] if taken else [True, False, False])


def test_a_lease_that_is_renewed_after_a_jump_ends_by_the_new_clock(database: Database, clock: Clock) -> None:
    table = PauseTable(database, clock=clock)
    table.put(RUN, keep=None)
    table.lease("shop-1", 1, "ada", 60)
    clock.now -= HOUR
    assert table.lease("shop-1", 1, "ada", 60)
    clock.now += 61

    assert table.lease("shop-1", 1, "bob", 60)


def test_a_turn_of_a_worker_whose_clock_jumps_is_committed_once(url: str, jumping: None) -> None:
    @us.tool
    def look() -> str:
        return "seen"

    model = ScriptedModel([calls("look"), calls("look"), says("done")])
    clerk = us.Agent("clerk", model=model, tools=[look])
    with us.ActorSystem("shop", store=url) as system:
        step = clerk.run_turn("hi", system=system)
        tokens = list[str]()
        while isinstance(step, us.MoreTurns):
            tokens.append(step.token)
            step = clerk.run_turn(token=step.token, system=system)

        assert step.text == "done"
        for token in tokens:
            with pytest.raises(us.TokenUsed):
                clerk.run_turn(token=token, system=system)


# --- runs


@pytest.mark.usefixtures("jumping")
def test_a_run_of_a_living_process_is_left_alone_and_one_of_a_dead_process_goes_on(
    url: str, database: Database, effects: Effects, tmp_path: Path
) -> None:
    (reads, writes), told = os.pipe(), tmp_path / "told"
    clerk = worker("clerk", effects.tool(idempotent=True), ["a"])
    waiter = us.Agent("waiter", model=FunctionModel(lambda _: says(os.read(reads, 1).decode())))
    effects.deadly = 1
    assert killed(lambda: clerk.run("go", system=us.ActorSystem("shop", store=url, lease=LEASE)))

    living = forked(lambda: told.write_text(outcome_of(waiter, us.ActorSystem("shop", store=url, lease=LEASE))))
    effects.deadly = 0
    with watching(url, clerk, waiter) as system:
        eventually(lambda: len(effects.noted) == 2, "the run of the dead process goes on")
        eventually(
            lambda: beats(database, "understudy_run_owners") > 12, "the living one has beaten for more than a lease"
        )
        assert system.in_flight == 0
        os.write(writes, b".")
        os.waitpid(living, 0)
    os.close(reads)
    os.close(writes)

    assert told.read_text() == "."
    assert len(set(effects.noted)) == 1


# --- values of a session


@pytest.mark.parametrize("jumps", [(0.0, HOUR, 0.0), (HOUR, 0.0, HOUR), (0.0, -HOUR, 0.0)])
def test_each_change_of_a_session_is_told_whatever_the_clock_said(
    jumps: tuple[float, ...], database: Database, clock: Clock
) -> None:
    table = SessionTable(database, clock=clock)
    told = list[str]()
    for number, jump in enumerate(jumps):
        clock.now = NOW + jump
        change = SessionChange(ADA, "a", f"run-{number}", is_removed=False, seen=0)
        told += [each.other_run_id for each in table.commit(f"run-{number}", [change])]

    assert told == ["", "run-0", "run-1"]
    assert table.load([ADA])["a"].value == "run-2"


# --- turns that are kept for a time


def append_at(database: Database, clock: Clock, *, keep: float | None) -> Callable[[str, float], None]:
    table = ConversationTable(database, clock=clock)

    def append(text: str, at: float) -> None:
        clock.now = NOW + at
        table.append(KEY, [user_message(text)], f"run-{text}", keep=keep)

    return append


def kept(database: Database) -> list[str]:
    return [message.text for message in ConversationTable(database).load(KEY, ALL).messages]


def test_a_turn_is_not_forgotten_before_its_time_with_one_after_it_that_looks_older(
    database: Database, clock: Clock
) -> None:
    append = append_at(database, clock, keep=2 * HOUR)
    for text, at in (("first", 0.0), ("second", HOUR), ("behind", 1.0), ("later", 2 * HOUR + 2)):
        append(text, at)
    append("after", 2 * HOUR + 3)

    assert kept(database) == ["second", "behind", "later", "after"]
    append("last", 3 * HOUR + 3)
    append("and last", 3 * HOUR + 4)
    assert kept(database) == ["later", "after", "last", "and last"]


def test_a_turn_that_looks_older_than_those_before_it_is_forgotten_with_them(database: Database, clock: Clock) -> None:
    append = append_at(database, clock, keep=2 * HOUR)
    append("first", 0.0)
    append("behind", -HOUR)
    append("second", HOUR)
    append("third", 2 * HOUR + 1)
    append("fourth", 2 * HOUR + 2)

    assert kept(database) == ["second", "third", "fourth"]
