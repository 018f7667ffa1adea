"""Processes that are stopped by a signal: others take their runs over, and what they write later is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support import postgres
from tests.support.freezing import LEASE, is_all_over, outcome_of, stop, watching
from tests.support.killing import Effects, forked, worker
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from understudy.actors.journal.heartbeat import Heartbeat
from understudy.actors.journal.run_owners import RunOwner, RunOwners, Standing
from understudy.actors.stores.pauses import PauseTable
from understudy.actors.stores.sessions import SessionCommit, SessionTable
from understudy.actors.stores.sqlite_database import writer_of
from understudy.testing import says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is stopped after a fork")


@pytest.fixture
def store(url: str) -> str:
    return url


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A file for what the other process has to tell."""
    return tmp_path / "told"


def between_transactions(store: str) -> AbstractContextManager[object]:
    """Keep all threads out of an SQLite file: a process that is stopped in a transaction keeps others from writing."""
    path = store.removeprefix("sqlite:///")
    return writer_of(path).file.lent() if path != store else nullcontext()


def test_a_run_of_a_stopped_process_goes_on_elsewhere_and_its_own_commit_is_refused(
    store: str, effects: Effects, told: Path
) -> None:
    here = os.getpid()

    @us.tool(idempotent=True)
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act, and in the other process stop."""
        effects.note(ctx.call_key)
        if os.getpid() != here:
            with between_transactions(store):
                stop()
        return f"did {word} in {'this' if os.getpid() == here else 'the other'} process"

    agent = worker("clerk", act, ["a", "b"])

    def run() -> None:
        system = us.ActorSystem("shop", store=store, lease=LEASE)
        told.write_text(outcome_of(agent, system))

    child = forked(run)
    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        with watching(store, agent):
            eventually(lambda: is_all_over(store), "the run has ended here")
            assert len(effects.noted) == 3
            assert len(set(effects.noted)) == 2
    finally:
        os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)

    assert told.read_text() == "LeaseLost"
    assert len(effects.noted) == 3


def test_a_run_of_a_process_that_was_stopped_for_less_than_its_lease_stays_there(
    store: str, effects: Effects, told: Path
) -> None:
    @us.tool
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act, and stop."""
        effects.note(ctx.call_key)
        with between_transactions(store):
            stop()
        return f"did {word}"

    agent = worker("clerk", act, ["a"])
    child = forked(lambda: told.write_text(outcome_of(agent, us.ActorSystem("shop", store=store, lease=3600.0))))
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])

    with watching(store, agent) as system:
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, 0)

        assert system.in_flight == 0
    assert told.read_text() == "did a"


def test_a_server_that_starts_again_costs_no_process_its_runs(
    effects: Effects, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    looks, going = list[list[RunOwner]](), RunOwners.going

    def counted(owners: RunOwners, app: str) -> list[RunOwner]:
        looks.append(going(owners, app))
        return looks[-1]

    @us.tool
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act, and wait."""
        effects.note(ctx.call_key)
        os.read(reads, 1)
        return f"did {word}"

    agent = worker("clerk", act, ["a"])
    monkeypatch.setattr(RunOwners, "going", counted)
    with postgres.running() as server:
        store = server.new_database()
        child = forked(lambda: told.write_text(outcome_of(agent, us.ActorSystem("shop", store=store, lease=60.0))))
        with watching(store, agent) as system:
            eventually(lambda: len(effects.noted) == 1, "the run waits in its tool")
            eventually(
                lambda: any(owner.beats >= 0 for found in looks[-1:] for owner in found), "its process has beaten"
            )
            server.kill()
            server.start()
            before = len(looks)
            eventually(lambda: len(looks) > before + 5, "the store is looked into again")
            os.write(writes, b".")
            os.waitpid(child, 0)

            assert system.in_flight == 0
    os.close(reads)
    os.close(writes)

    assert told.read_text() == "did a"
    assert len(effects.noted) == 1


def test_a_server_that_starts_again_before_the_first_beat_of_a_process_costs_it_no_run(
    effects: Effects, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, writes = os.pipe()
    looks, going, beat = list[list[RunOwner]](), RunOwners.going, RunOwners.beat

    def counted(owners: RunOwners, app: str) -> list[RunOwner]:
        looks.append(going(owners, app))
        return looks[-1]

    def delayed(owners: RunOwners, owner: str, lease: float, runs: Sequence[int] = ()) -> dict[int, Standing]:
        os.read(reads, 1)
        return beat(owners, owner, lease, runs)

    @us.tool
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act, and wait."""
        effects.note(ctx.call_key)
        os.read(reads, 1)
        return f"did {word}"

    agent = worker("clerk", act, ["a"])

    def run(store: str) -> None:
        monkeypatch.setattr(RunOwners, "beat", delayed)
        told.write_text(outcome_of(agent, us.ActorSystem("shop", store=store, lease=60.0)))

    with postgres.running() as server:
        store = server.new_database()
        child = forked(lambda: run(store))
        monkeypatch.setattr(RunOwners, "going", counted)
        with watching(store, agent) as system:
            eventually(lambda: len(effects.noted) == 1, "the run waits in its tool")
            server.kill()
            server.start()
            before = len(looks)
            eventually(lambda: len(looks) > before + 5, "the store is looked into again")
            os.write(writes, b"." * 20)
            os.waitpid(child, 0)

            assert system.in_flight == 0
    os.close(reads)
    os.close(writes)

    assert told.read_text() == "did a"
    assert len(effects.noted) == 1


def test_a_child_of_a_killed_process_does_not_keep_its_runs(store: str, effects: Effects) -> None:
    """The child was forked by a tool, and lives when its parent is killed."""
    reads, writes = os.pipe()
    here = os.getpid()

    @us.tool(idempotent=True)
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act, and in the other process fork and die."""
        effects.note(ctx.call_key)
        if os.getpid() != here:
            if os.fork() == 0:
                os.close(writes)
                os.read(reads, 1)  # until the test has ended
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return f"did {word}"

    agent = worker("clerk", act, ["a"])
    try:
        child = forked(lambda: agent.run("go", system=us.ActorSystem("shop", store=store, lease=3600.0)))
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])

        with watching(store, agent):
            eventually(lambda: is_all_over(store), "the run has ended here")
    finally:
        os.close(writes)
        os.close(reads)

    assert len(effects.noted) == 2


def beats_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process not learn by its beats that another one has its run."""

    def waits(beating: Heartbeat) -> float:
        return WAIT

    monkeypatch.setattr(Heartbeat, "beat", waits)


def stops_before_its_pause(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process stop before it stores a pause."""
    put = PauseTable.put

    def stopping(table: PauseTable, paused: us.PausedRun, **named: Any) -> bool:
        beats_no_more(monkeypatch)
        with between_transactions(store):
            stop()
        return put(table, paused, **named)

    monkeypatch.setattr(PauseTable, "put", stopping)


def stops_after_its_pause(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process stop when it has stored a pause."""
    put = PauseTable.put

    def stopping(table: PauseTable, paused: us.PausedRun, **named: Any) -> bool:
        is_kept = put(table, paused, **named)
        with between_transactions(store):
            stop()
        return is_kept

    monkeypatch.setattr(PauseTable, "put", stopping)


@contextmanager
def stopped(do: Callable[[], object]) -> Generator[Callable[[], object]]:
    """Do something in a child that stops itself; yields what lets it go on and waits for its end."""
    child = forked(do)
    ended = False

    def go_on() -> None:
        nonlocal ended
        if not ended:
            ended = True
            os.kill(child, signal.SIGCONT)
            os.waitpid(child, 0)

    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        yield go_on
    finally:
        go_on()


def test_a_pause_that_a_stopped_process_stores_late_is_refused_and_that_of_the_new_process_stands(
    store: str, effects: Effects, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late one comes after the new process has looked for a pause, and before it stores its own."""
    put = PauseTable.put
    agent = worker("clerk", effects.tool().replace(approval=True), ["a"])

    def run() -> None:
        stops_before_its_pause(store, monkeypatch)
        told.write_text(outcome_of(agent, us.ActorSystem("shop", store=store, lease=LEASE)))

    with stopped(run) as go_on:

        def comes_later(table: PauseTable, paused: us.PausedRun, **named: Any) -> bool:
            go_on()
            return put(table, paused, **named)

        monkeypatch.setattr(PauseTable, "put", comes_later)
        with watching(store, agent) as system:
            eventually(lambda: is_all_over(store), "the run waits here")
            (waits,) = system.pending()

            assert finished(agent.resume(waits.token, us.Approve(), system=system)).text == "did a"
            with pytest.raises(us.TokenUsed):
                agent.resume(waits.token, us.Approve(), system=system)

    assert told.read_text() == "LeaseLost"
    assert len(effects.noted) == 1


def test_an_error_of_a_stopped_process_has_no_token_for_a_run_that_is_done_elsewhere(
    store: str, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        if os.getpid() == here:
            return says("done")
        raise us.RateLimited("too many", provider="p", retryable=True)

    agent = us.Agent("clerk", model=us.FunctionModel(ask))

    def run() -> None:
        stops_before_its_pause(store, monkeypatch)
        with pytest.raises(us.RateLimited) as caught:
            agent.run("go", system=us.ActorSystem("shop", store=store, lease=LEASE))
        told.write_text(caught.value.token + "; ".join(caught.value.__notes__))

    with stopped(run) as go_on, watching(store, agent) as system:
        eventually(lambda: is_all_over(store), "the run has ended here")
        go_on()

        assert system.pending() == []
    assert told.read_text().startswith("It has no token: LeaseLost")


def test_a_token_that_another_process_has_used_is_not_withdrawn_by_the_stopped_one(
    store: str, effects: Effects, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stopped process has stored the pause, which ends its journal: it tells the pause when it goes on."""
    agent = worker("clerk", effects.tool().replace(approval=True), ["a"])

    def run() -> None:
        system = us.ActorSystem("shop", store=store, lease=LEASE)
        stops_after_its_pause(store, monkeypatch)
        told.write_text(needs_approval(agent.submit("go", system=system).result(WAIT)).token)

    with stopped(run) as go_on, watching(store, agent) as system:
        eventually(lambda: is_all_over(store), "the run waits here")
        (waits,) = system.pending()
        assert finished(agent.resume(waits.token, us.Approve(), system=system)).text == "did a"

        go_on()

        with pytest.raises(us.TokenUsed):
            agent.resume(waits.token, us.Approve(), system=system)
    assert told.read_text() == waits.token
    assert len(effects.noted) == 1


def test_session_values_of_a_stopped_process_are_not_stored_over_those_of_a_later_run(
    store: str, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, commit = os.getpid(), SessionTable.commit

    @us.tool(idempotent=True)
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Note who was here last."""
        ctx.session["app:last"] = "this" if os.getpid() == here else "the other"
        return word

    def stopping(table: SessionTable, *arguments: Any, **named: Any) -> Sequence[SessionCommit]:
        beats_no_more(monkeypatch)
        with between_transactions(store):
            stop()
        return commit(table, *arguments, **named)

    agent = worker("clerk", mark, ["a"])

    def run() -> None:
        monkeypatch.setattr(SessionTable, "commit", stopping)
        told.write_text(outcome_of(agent, us.ActorSystem("shop", store=store, lease=LEASE)))

    with stopped(run) as go_on, watching(store, agent) as system:
        eventually(lambda: is_all_over(store), "the run has ended here")
        agent.run("go", system=system)
        go_on()
        idle = us.Agent("idle", model=us.FunctionModel(lambda request: says("done")))

        assert idle.run("go", system=system).session["app:last"] == "this"
    assert told.read_text() == "LeaseLost"
