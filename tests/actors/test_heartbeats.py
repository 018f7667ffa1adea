"""Heartbeats of processes that drive runs, and neighbours that watch them by a simulated clock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually, finished
from tests.support.threads import no_threads
from understudy.actors.journal import heartbeat
from understudy.actors.journal.driven_runs import DrivenRuns
from understudy.actors.journal.heartbeat import Heartbeat
from understudy.actors.journal.neighbours import Neighbour, Neighbours
from understudy.actors.journal.run_journal import RunJournal
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.journal.run_owners import AT_ONCE, RunOwners, Standing
from understudy.actors.stores.database import Database
from understudy.actors.stores.postgres.session_locks import TAKE
from understudy.actors.stores.runs import NewRun, RunTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.testing import calls, says

LOOK = 0.25
LEASE = 5.0
THREAD = "understudy-heartbeat"


class Names:
    """Names of processes whose locks are held, whatever they do."""

    def __init__(self, own: str) -> None:
        self._own = own
        self.free = set[str]()

    def name(self) -> str:
        return self._own

    def lives(self, name: str) -> bool:
        return name not in self.free


class Stage:
    """An owner of a run and a neighbour, on a simulated clock."""

    def __init__(self, database: Database) -> None:
        self.now = 0.0
        self.lost = threading.Event()
        self.database = database
        self.table, self.owners = RunTable(database), RunOwners(database)
        self.table.accept(NewRun("run-1", "shop", "clerk", "7", None, None), "")
        self.beating = Heartbeat(self.owners, Names("7"))
        self.beating.keep_for(LEASE)
        self.locks = Names("8")
        driven = DrivenRuns(repr(self.table), "shop")
        self.neighbours = Neighbours(
            self.table, self.owners, self.locks, driven, "shop", lease=LEASE, clock=lambda: self.now
        )

    def look_for(self, seconds: float, beat_each: float = 0.0) -> list[Neighbour]:
        """Look until a neighbour is gone, or the time is over."""
        until, next_beat = self.now + seconds, self.now
        while self.now < until:
            if beat_each and self.now >= next_beat:
                self.beating.beat()
                next_beat += beat_each
            self.now += LOOK
            if found := self.neighbours.gone():
                return found
        return []

    def driven(self) -> RunJournal:
        """Return the journal of a second run, which the owner drives."""
        journal = RunJournal(self.table, "run-2", on_lost=lambda _, error: self.lost.set())
        journal.accept(NewRun("run-2", "shop", "clerk", "7", "ada", None), "")
        self.beating.drive(journal)
        return journal

    def journals(self) -> RunJournals:
        return RunJournals(self.table, self.owners, self.locks, "shop", LEASE)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(SQLiteDatabase(str(tmp_path / "runs.db")))


def test_an_owner_that_beats_keeps_its_runs_however_long_one_call_takes(stage: Stage) -> None:
    assert stage.look_for(600.0, beat_each=LEASE / heartbeat.BEATS) == []


def test_an_owner_whose_beats_are_late_keeps_its_runs(stage: Stage) -> None:
    assert stage.look_for(60.0, beat_each=3.3 + LEASE / heartbeat.BEATS) == []


def test_an_owner_that_has_stopped_to_beat_is_gone_after_its_lease(stage: Stage) -> None:
    stage.look_for(10.0, beat_each=1.0)
    stopped_at = stage.now

    (gone,) = stage.look_for(60.0)

    assert (gone.owner, gone.runs) == ("7", 1)
    assert stage.now - stopped_at <= LEASE + 1.0
    assert [each.run_id for each in stage.neighbours.left_by(gone)] == ["run-1"]


def test_an_owner_that_never_beat_is_gone_after_the_lease_of_its_neighbour(stage: Stage) -> None:
    (gone,) = stage.look_for(60.0)

    assert gone == Neighbour("7", 1, silent_at=-1)
    assert LEASE <= stage.now <= LEASE + 1.0


def test_an_owner_that_beats_before_its_run_is_claimed_keeps_it(stage: Stage) -> None:
    stage.look_for(2.0, beat_each=1.0)
    (gone,) = stage.look_for(60.0)
    (left,) = stage.neighbours.left_by(gone)
    journals = stage.journals()

    stage.beating.beat()

    assert journals.claim([left], gone.silent_at) == {}
    assert stage.table.left("shop")[0].owner == "7"


def test_a_claim_after_the_lease_refuses_what_the_owner_writes_later(stage: Stage) -> None:
    (gone,) = stage.look_for(60.0)
    (left,) = stage.neighbours.left_by(gone)
    journals = stage.journals()
    journal = journals.claim([left], gone.silent_at)["run-1"]

    stage.beating.beat()

    (taken,) = stage.table.left("shop")
    assert (taken.owner, taken.epoch, taken.takeovers) == ("8", left.epoch + 1, 1)
    journals.ended(journal)


def test_a_claim_is_the_first_beat_of_a_process_that_has_not_beaten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(owners: RunOwners, owner: str, lease: float, runs: Sequence[int] = ()) -> dict[int, Standing]:
        raise us.StoreError("the server starts again")

    monkeypatch.setattr(RunOwners, "beat", fails)
    journals, (left,) = stage.journals(), stage.table.left("shop")
    journal = journals.claim([left])[left.run_id]

    (owner,) = stage.owners.going("shop")
    journals.ended(journal)

    assert (owner.owner, owner.beats, owner.lease) == ("8", 0, LEASE)


def test_no_lease_is_over_for_a_process_that_could_not_write_a_beat_itself(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(owners: RunOwners, owner: str) -> None:
        raise us.StoreError("the disk is full")

    monkeypatch.setattr(RunOwners, "prove_writes", fails)

    with pytest.raises(us.StoreError):
        stage.look_for(60.0)

    assert stage.now < LEASE


def test_an_owner_that_has_its_lock_again_keeps_its_runs(stage: Stage) -> None:
    stage.locks.free.add("7")
    (gone,) = stage.neighbours.gone()

    stage.locks.free.clear()

    assert stage.neighbours.left_by(gone) == []


def test_an_owner_whose_lock_is_free_is_gone_at_once(stage: Stage) -> None:
    stage.beating.beat()
    stage.locks.free.add("7")

    assert stage.neighbours.gone() == [Neighbour("7", 1)]


def test_a_free_lock_means_nothing_until_the_lease_is_over_unless_its_owner_had_it_when_it_beat(
    postgres_url: str,
) -> None:
    """A server that starts again frees all locks, and a beat that was delayed by that comes before the lock is taken again."""
    import psycopg

    from understudy.actors.stores.postgres.database import PostgresDatabase

    stage = Stage(PostgresDatabase(postgres_url))
    with psycopg.connect(postgres_url, autocommit=True) as process:
        process.execute(TAKE, (7,))
        stage.beating.beat()
        assert stage.neighbours.gone() == []
    eventually(lambda: stage.neighbours.gone() == [Neighbour("7", 1)], "the lock is free")

    stage.beating.beat()

    assert stage.neighbours.gone() == []
    assert stage.look_for(60.0) == [Neighbour("7", 1, silent_at=1)]
    assert stage.now >= LEASE


def test_a_beat_in_an_earlier_life_of_the_server_tells_nothing_about_a_lock(postgres_url: str) -> None:
    import psycopg

    from understudy.actors.stores.postgres.database import PostgresDatabase

    database = PostgresDatabase(postgres_url)
    stage = Stage(database)
    with psycopg.connect(postgres_url, autocommit=True) as process:
        process.execute(TAKE, (7,))
        stage.beating.beat()
    eventually(lambda: bool(stage.neighbours.gone()), "the lock is free")

    database.write(lambda sql: sql.execute("UPDATE understudy_run_owners SET life = 'before'"))

    assert stage.neighbours.gone() == []


def test_a_beat_that_fails_is_logged_once_until_one_succeeds(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(owners: RunOwners, owner: str, lease: float, runs: Sequence[int]) -> None:
        raise us.StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(RunOwners, "beat", fails)
        pauses = [stage.beating.beat() for _ in range(3)]
    assert stage.beating.beat() == LEASE / heartbeat.BEATS

    assert max(pauses) <= heartbeat.AGAIN
    assert caplog.text.count("cannot tell them that it lives: StoreError: the disk is full") == 1


def test_a_cancel_that_fails_does_not_end_the_beats(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(journal: RunJournal) -> None:
        raise RuntimeError("no thread")

    monkeypatch.setattr(RunJournal, "ask_to_cancel", fails)
    journal = stage.driven()
    stage.database.write(lambda sql: sql.execute("UPDATE understudy_runs SET cancel_requested = 1"))

    assert stage.beating.beat() == LEASE / heartbeat.BEATS
    stage.beating.leave(journal)

    assert "run run-2 could not be ended here, although another process has it or asks for its end" in caplog.text


def test_an_owner_learns_at_its_beat_that_another_has_its_run(stage: Stage) -> None:
    journal = stage.driven()
    stage.beating.beat()
    assert not stage.lost.is_set()
    _, left = stage.table.left("shop")

    RunTable(stage.database).claim([left], "8")
    stage.beating.beat()

    assert stage.lost.wait(WAIT)
    stage.beating.leave(journal)


def test_an_owner_learns_at_its_beat_that_the_user_of_its_run_was_erased(stage: Stage) -> None:
    journal = stage.driven()

    RunTable(stage.database).erase("ada", "shop")
    stage.beating.beat()

    assert stage.lost.wait(WAIT)
    stage.beating.leave(journal)


def test_a_beat_ends_no_run_whose_end_is_being_noted(stage: Stage) -> None:
    journal = stage.driven()
    heard = list[bool]()

    def beats_meanwhile(sql: object) -> None:
        heard.append(journal.number is None)
        journal.heed(None)

    journal.end("complete", beats_meanwhile)

    assert heard == [True]
    assert not stage.lost.is_set()
    stage.beating.leave(journal)


@pytest.mark.parametrize("count", [0, 1, 3, AT_ONCE, AT_ONCE + 1])
def test_a_beat_tells_where_each_run_stands(stage: Stage, count: int) -> None:
    claims = [stage.table.accept(NewRun(f"more-{at}", "shop", "clerk", "7", None, None), "") for at in range(count)]
    runs = [claim.run for claim in claims if claim is not None]

    assert stage.owners.beat("7", LEASE, runs) == dict.fromkeys(runs, Standing(1, False))


def beating_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD]


def beats_in(database: Database) -> list[int]:
    rows = database.read(lambda sql: sql.execute("SELECT beats FROM understudy_run_owners").fetchall())
    return [row[0] for row in rows]


def test_a_process_beats_while_a_call_blocks_and_forgets_itself_after_its_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "LINGER", 0.0)
    database, gate = SQLiteDatabase(str(tmp_path / "runs.db")), Gate()
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db", lease=1.0)
    handle = agent.submit("go", system=system)
    assert gate.entered.wait(WAIT)

    eventually(lambda: sum(beats_in(database)) >= 3, "it beats")
    gate.open()

    assert finished(handle.result(WAIT)).text == "done"
    eventually(lambda: not beats_in(database), "its row is gone")
    eventually(lambda: not beating_threads(), "its thread has ended")


def test_a_tool_sees_at_the_next_beat_that_another_process_has_its_run(tmp_path: Path) -> None:
    table, cancelled = RunTable(SQLiteDatabase(str(tmp_path / "runs.db"))), threading.Event()

    @us.tool(idempotent=True)
    def act(ctx: us.ToolContext) -> str:
        """Lose the run, and look until the scope is cancelled."""
        (left,) = table.left("shop")
        assert table.claim([left], "another")
        eventually(lambda: ctx.scope.cancelled, "the scope is cancelled")
        cancelled.set()
        return "done"

    agent = us.Agent("clerk", model=us.ScriptedModel([calls("act"), says("done")]), tools=[act])
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db", lease=1.0) as system:
        with pytest.raises(us.LeaseLost, match="another one took it over") as lost:
            agent.run("go", system=system)
        assert cancelled.wait(WAIT)

    assert lost.value.token == ""
    assert [(run.owner, run.takeovers) for run in table.left("shop")] == [("another", 1)]


def test_a_system_that_stops_ends_the_beats_of_its_process_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "LINGER", 1e9)
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    agent = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))

    for _ in range(2):  # a thread that has ended is replaced
        system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db")
        assert finished(agent.run("go", system=system)).text == "done"
        eventually(lambda: bool(beats_in(database)), "it beats")
        system.stop()

        eventually(lambda: not beats_in(database), "its row is gone")
        eventually(lambda: not beating_threads(), "its thread has ended")


def test_a_system_that_stops_leaves_the_beats_for_the_run_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "LINGER", 1e9)
    database, gate = SQLiteDatabase(str(tmp_path / "runs.db")), Gate()
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    other = us.ActorSystem("other", store=f"sqlite:///{tmp_path}/runs.db", lease=1.0)
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db", lease=1.0)
    handle = agent.submit("go", system=other)
    assert gate.entered.wait(WAIT)
    eventually(lambda: bool(beats_in(database)), "it beats")
    (thread,) = beating_threads()

    system.stop()

    eventually(lambda: sum(beats_in(database)) >= 2, "it beats on")
    assert thread.is_alive()
    gate.open()
    assert finished(handle.result(WAIT)).text == "done"
    eventually(lambda: not beats_in(database) and not thread.is_alive(), "the beats end with the last run")


def test_a_thread_that_follows_another_one_beats_after_the_removal_of_the_row(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, remove = Gate(), RunOwners.remove

    def held(owners: RunOwners, owner: str) -> None:
        gate()
        remove(owners, owner)

    monkeypatch.setattr(RunOwners, "remove", held)
    stage.beating.keep_for(3600.0)  # no second beat in this test
    run = object()
    stage.beating.drive(run)
    stage.beating.beat()
    stage.beating.leave(run)
    stage.beating.rest(0.0)
    assert gate.entered.wait(WAIT)
    (before,) = beating_threads()

    stage.beating.drive(run)
    gate.open()
    before.join(WAIT)

    eventually(lambda: beats_in(stage.database) == [0], "the second thread beats")
    stage.beating.leave(run)
    stage.beating.rest(time.monotonic() + WAIT)


def test_a_stopped_system_has_written_its_last_word_so_that_its_folder_can_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, remove = list[str](), RunOwners.remove

    def late(owners: RunOwners, owner: str) -> None:
        threading.Event().wait(0.1)  # a store that takes its time
        removed.append(owner)
        remove(owners, owner)

    monkeypatch.setattr(RunOwners, "remove", late)
    agent = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))

    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db") as system:
        agent.run("go", system=system)

    assert len(removed) == 1
    assert not beating_threads()


def test_the_last_word_of_a_process_makes_no_lock_file(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = object()
    stage.beating.drive(run)
    eventually(lambda: beats_in(stage.database) != [], "it beats")
    monkeypatch.delattr(Names, "name")  # real locks make their file anew when they are asked for the name

    stage.beating.leave(run)
    stage.beating.rest(time.monotonic() + WAIT)

    assert not beating_threads()
    assert beats_in(stage.database) == []


def test_the_rows_of_owners_that_are_gone_go_with_the_first_beat_of_another(tmp_path: Path) -> None:
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    RunTable(database)
    RunOwners(database).beat("1-killed", LEASE)
    agent = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))

    agent.run("go", system=us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db"))

    eventually(lambda: "1-killed" not in dict(RunOwners(database).all()), "the row of the killed one is gone")


def test_a_process_beats_on_if_it_cannot_remove_the_rows_of_owners_that_are_gone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(owners: RunOwners) -> None:
        raise RuntimeError("no locks")

    monkeypatch.setattr(RunOwners, "all", fails)
    monkeypatch.setattr(heartbeat, "BEATS", 500)
    monkeypatch.setattr(heartbeat, "LINGER", 0.0)
    run = object()

    stage.beating.drive(run)

    eventually(lambda: sum(beats_in(stage.database)) >= 2, "it beats")
    stage.beating.leave(run)
    stage.beating.rest(0.0)
    eventually(lambda: not beating_threads(), "its thread has ended")


def test_without_a_thread_for_the_beats_no_run_is_accepted(tmp_path: Path) -> None:
    agent = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db")

    with no_threads(), pytest.raises(us.AgentDown, match="no thread can be started to beat"):
        agent.run("go", system=system)

    assert finished(agent.run("go", system=system)).text == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process forks")
def test_a_forked_child_does_not_beat_for_its_parent(tmp_path: Path) -> None:
    gate, witness = Gate(), tmp_path / "witness"
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    system = us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db", lease=1.0)
    handle = agent.submit("go", system=system)
    assert gate.entered.wait(WAIT)
    database = SQLiteDatabase(str(tmp_path / "runs.db"))
    assert database.locks is not None
    parent = database.locks.name()
    child = os.fork()
    if child == 0:
        try:
            names = (database.locks.name(), database.locks.lives(parent))
            witness.write_text(f"{len(beating_threads())} {names[0] != parent} {names[1]}")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    before = sum(beats_in(database))

    eventually(lambda: sum(beats_in(database)) > before, "the parent beats")
    gate.open()

    assert witness.read_text() == "0 True True"
    assert finished(handle.result(WAIT)).text == "done"
