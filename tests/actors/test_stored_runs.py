"""What a store tells of the runs of all processes, and how a run is removed: a look changes nothing, a change fits its look."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import understudy as us
from tests.support.killing import Effects, killed, worker
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from understudy.actors.stores.database import SCHEMA
from understudy.actors.stores.inspection.look_at import look_at
from understudy.actors.stores.inspection.run_list import PauseHead, RunEntry, RunHead
from understudy.actors.stores.inspection.stored_runs import StoredRuns, runs_in, standing
from understudy.actors.stores.open_store import open_store
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


def looked_at(url: str) -> StoredRuns:
    database = look_at(url)
    assert database is not None
    return runs_in(database)


def opened(url: str) -> StoredRuns:
    database = open_store(url).database
    assert database is not None
    return runs_in(database)


def phases(url: str, *, over: bool = True) -> dict[str, str]:
    """Return where the runs of each runner stand."""
    return {each.runner_id: each.phase for each in looked_at(url).statuses(over=over)}


@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


def cashier() -> us.Agent:
    return us.Agent("cashier", model=us.ScriptedModel([calls("refund", order="7"), says("Paid.")]), tools=[refund])


def leave_a_run(url: str, tmp_path: Path) -> str:
    """Have a process die in a tool call, and return the id of its run."""
    clerk = worker("clerk", Effects(tmp_path / "effects", 1).tool(), ["a"])
    assert killed(lambda: clerk.run("go", system=us.ActorSystem("shop", store=url), user_id="ada"))
    return next(each.run_id for each in looked_at(url).statuses() if each.phase == "left")


def test_runs_of_all_processes_are_listed_with_where_they_stand(url: str, tmp_path: Path) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def wait() -> str:
        began.set()
        goes_on.wait(WAIT)
        return "done"

    leave_a_run(url, tmp_path)
    with us.ActorSystem("bank", store=url) as system:
        us.Agent("teller", model=us.ScriptedModel([says("Hi.")])).run("go", system=system)
        cashier().run("go", system=system)
        handle = us.Agent("slow", model=us.ScriptedModel([calls("wait"), says("done")]), tools=[wait]).submit(
            "go", system=system
        )
        assert began.wait(WAIT)
        assert phases(url) == {"clerk": "left", "teller": "over", "cashier": "waiting", "slow": "under_way"}
        goes_on.set()
        handle.result(timeout=WAIT)

    assert phases(url, over=False) == {"clerk": "left", "cashier": "waiting"}
    assert {each.system for each in looked_at(url).statuses("shop", over=True)} == {"shop"}


def test_a_run_that_too_many_processes_died_of_cannot_go_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    leave_a_run(url, tmp_path)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        file.execute("UPDATE understudy_runs SET takeovers = 50")

    (status,) = looked_at(url).statuses()

    assert (status.phase, status.reason) == ("cannot_go_on", "50 processes died while they drove it")


def test_a_run_without_a_journal_is_listed_while_it_waits(url: str) -> None:
    with us.ActorSystem("shop", store=url, journal=False) as system:
        waits = needs_approval(cashier().run("go", system=system, user_id="ada"))

    (status,) = looked_at(url).statuses()

    assert (status.run_id, status.system, status.runner_id) == (waits.run_id, "shop", "cashier")
    assert (status.phase, status.user_id, status.since is None) == ("waiting", "ada", False)


@pytest.mark.parametrize(("phase", "leased_until", "since"), [("waiting", 9.0, 5.0), ("under_way", 11.0, None)])
def test_a_run_whose_turn_a_worker_does_is_not_told_with_the_start_of_its_wait(
    phase: str, leased_until: float, since: float | None
) -> None:
    pause = PauseHead("shop-1-2", 1, "nonce", "waiting", "{}", None, leased_until, 5.0)

    status = standing(RunEntry("shop-1-2", None, pause), lambda _: True, 10.0)

    assert (status.phase, status.since) == (phase, since)


def test_a_run_that_begins_to_wait_during_the_look_is_no_run_that_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with us.ActorSystem("shop", store=url) as system:
        agents = [cashier(), cashier()]
        waits = [needs_approval(agent.run("go", system=system)) for agent in agents]
        runs = looked_at(url)
        monkeypatch.setattr(runs.list, "_pauses", lambda: iter(()))  # it was read before they waited
        statuses = runs.statuses()
        first = next(statuses)
        finished(agents[1].resume(waits[1].token, us.Reject("no"), system=system))

        assert [(each.run_id, each.phase) for each in (first, *statuses)] == [(waits[0].run_id, "waiting")]


def test_a_look_makes_no_file_and_no_table(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE mine (x)")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    for name in ("empty.db", "other.db"):
        runs = looked_at(f"sqlite:///{tmp_path}/{name}")
        assert not runs.list.has_tables
        assert list(runs.statuses(over=True)) == []
        assert runs.list.entry("shop-1") is None
    with pytest.raises(us.StoreError, match="is not there"):
        looked_at(f"sqlite:///{tmp_path}/missing.db")

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_look_makes_no_table_on_a_server(postgres_url: str) -> None:
    for _ in range(2):
        runs = looked_at(postgres_url)
        assert not runs.list.has_tables
        assert list(runs.statuses(over=True)) == []


@pytest.mark.parametrize(("version", "made_by"), [(SCHEMA - 1, "an earlier version"), (SCHEMA + 1, "a later version")])
def test_a_store_of_another_version_is_refused_by_all_and_stays_as_it_is(url: str, version: int, made_by: str) -> None:
    us.ActorSystem("shop", store=url)
    database = open_store(url).database
    assert database is not None
    forget = "DELETE FROM understudy_schema WHERE part = 'maps'"  # as if that version had no maps
    database.write(lambda sql: sql.execute(forget))
    database.write(lambda sql: sql.execute("DROP TABLE understudy_maps"))
    database.write(
        lambda sql: sql.execute("UPDATE understudy_schema SET version = :v WHERE part = 'runs'", {"v": version})
    )

    def remembers(url: str) -> object:
        return us.PersistentMemory(url).read(us.ConversationKey("shop", "ada", "c-1"))

    def is_made(url: str) -> object:
        return us.ActorSystem("shop", store=url)

    many: tuple[Callable[[str], object], ...] = (looked_at, open_store, remembers, is_made)
    for opens in many:
        with pytest.raises(us.StoreError, match=rf"{made_by} of understudy: its runs have schema {version}") as caught:
            opens(url)
        assert "understudy erase --everything --store" in str(caught.value)
    found = database.read(lambda sql: sql.execute(f"SELECT * FROM ({database.words['tables']}) AS its").fetchall())
    assert "understudy_maps" not in {row[0] for row in found}


def test_a_run_that_is_deleted_is_gone_with_its_token(url: str, tmp_path: Path) -> None:
    left = leave_a_run(url, tmp_path)
    with us.ActorSystem("shop", store=url) as system:
        agent = cashier()
        waits = needs_approval(agent.run("go", system=system))
        runs = opened(url)

        for run_id in (left, waits.run_id):
            assert runs.delete(entry_of(runs, run_id)) == "done"

        assert phases(url) == {}
        assert system.recover(runners=[agent]) == []
        with pytest.raises(us.UnknownToken):
            agent.resume(waits.token, us.Approve(), system=system)


def test_a_run_that_was_answered_after_the_look_is_not_deleted(url: str) -> None:
    with us.ActorSystem("shop", store=url) as system:
        agent, runs = cashier(), opened(url)
        waits = needs_approval(agent.run("go", system=system))
        entry = entry_of(runs, waits.run_id)
        finished(agent.resume(waits.token, us.Approve(), system=system))

        assert runs.delete(entry) == "changed"

    assert phases(url) == {"cashier": "over"}


def test_a_run_that_a_living_process_drives_is_not_deleted(url: str) -> None:
    runs = opened(url)
    answers: list[str] = []

    def delete(ctx: us.ToolContext) -> str:
        answers.append(runs.delete(entry_of(runs, ctx.run_id)))
        return "done"

    with us.ActorSystem("shop", store=url) as system:
        agent = us.Agent("clerk", model=us.ScriptedModel([calls("delete"), says("done")]), tools=[delete])
        finished(agent.run("go", system=system))

    assert answers == ["driven"]


def test_a_cancel_looks_again_at_a_run_that_has_changed(url: str) -> None:
    with us.ActorSystem("shop", store=url) as system:
        agent, runs = cashier(), opened(url)
        waits = needs_approval(agent.run("go", system=system))
        before = entry_of(runs, waits.run_id)
        finished(agent.resume(waits.token, us.Approve(), system=system))
        looks = [before, entry_of(runs, waits.run_id)]

        assert runs.cancel_latest(lambda: looks.pop(0)) == "over"
        with pytest.raises(us.StoreError, match=f"run {waits.run_id} goes on and pauses all the time"):
            runs.cancel_latest(lambda: before)


def entry_of(runs: StoredRuns, run_id: str) -> RunEntry:
    entry = runs.list.entry(run_id)
    assert entry is not None
    return entry


# --- a handle


def shop_of(url: str) -> us.ActorSystem:
    return us.ActorSystem("shop", store=url)


def test_a_handle_tells_what_a_run_of_another_system_waits_for(url: str) -> None:
    agent = cashier()
    with shop_of(url) as system:
        waits = needs_approval(agent.run("go", system=system, user_id="ada"))
    with shop_of(url) as other:
        handle = other.handle(waits.run_id)

        assert (handle.run_id, handle.status().phase, handle.here()) == (waits.run_id, "waiting", None)
        assert handle.pauses() == waits.pauses
        waiting = handle.waiting()
        assert waiting is not None
        assert finished(agent.resume(waiting.token, us.Reject("no"), system=other)).run_id == waits.run_id
        assert (handle.status().phase, handle.status().reason) == ("over", "complete")
        assert (handle.waiting(), handle.pauses(), handle.cancel()) == (None, (), False)


def test_the_pauses_of_a_group_are_those_of_its_outcome(url: str) -> None:
    with shop_of(url) as system:
        group = us.ParallelAgent("desk", [cashier().replace(id="one"), cashier().replace(id="two")])
        waits = needs_approval(group.run("go", system=system))

        assert system.handle(waits.run_id).pauses() == waits.pauses
        assert len(waits.pauses) == 2


def test_a_run_that_waits_and_is_cancelled_never_goes_on(url: str) -> None:
    agent = cashier()
    with shop_of(url) as system:
        waits = needs_approval(agent.run("go", system=system))

        assert system.handle(waits.run_id).cancel()

        assert system.pending() == []
        status = system.handle(waits.run_id).status()
        assert (status.phase, status.reason) == ("over", "cancelled")
        with pytest.raises(us.TokenUsed):
            agent.resume(waits.token, us.Approve(), system=system)


def test_a_run_that_was_left_and_is_cancelled_never_goes_on(url: str, tmp_path: Path) -> None:
    left = leave_a_run(url, tmp_path)
    clerk = worker("clerk", Effects(tmp_path / "effects").tool(idempotent=True), ["a"])
    with shop_of(url) as system:
        assert system.handle(left).cancel()

        assert system.recover(runners=[clerk], adopt=True) == []
        assert system.handle(left).status().reason == "cancelled"
        assert looked_at(url).list.rows(head_of(url, left)) == []


def head_of(url: str, run_id: str) -> RunHead:
    head = entry_of(looked_at(url), run_id).head
    assert head is not None
    return head


def slow(goes_on: threading.Event) -> us.Agent:
    """Return an agent whose tool waits."""

    def wait() -> str:
        goes_on.wait(WAIT)
        return "done"

    return us.Agent("slow", model=us.ScriptedModel([calls("wait"), says("done")]), tools=[wait])


def test_a_run_that_is_under_way_here_ends_at_once_and_has_no_token(url: str) -> None:
    goes_on = threading.Event()
    with shop_of(url) as system:
        run = slow(goes_on).submit("go", system=system)
        handle = system.handle(run.run_id)
        here = handle.here()
        assert here is not None

        assert handle.cancel()

        goes_on.set()
        error = here.exception(timeout=WAIT)
        assert isinstance(error, us.RunCancelled)
        assert error.token == ""
        eventually(lambda: handle.status().reason == "cancelled", "the end is noted")


def test_a_process_that_is_asked_to_cancel_its_run_sees_that_at_a_beat(url: str) -> None:
    goes_on = threading.Event()
    with us.ActorSystem("shop", store=url, lease=1.0) as system:
        run = slow(goes_on).submit("go", system=system)
        request_cancel(url, run.run_id)

        error = run.exception(timeout=WAIT)

        goes_on.set()
        assert isinstance(error, us.RunCancelled)
        assert "another process asked for it" in str(error)
        assert error.token == ""
        eventually(lambda: system.handle(run.run_id).status().reason == "cancelled", "the end is noted")


def test_a_run_of_another_process_is_cancelled_there(url: str) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with us.ActorSystem("shop", store=url, lease=1.0) as system:
                ended = slow(threading.Event()).submit("go", system=system).exception(timeout=WAIT)
                status = 0 if isinstance(ended, us.RunCancelled) else 1
        finally:  # whatever fails: the child must not go on with the other tests
            os._exit(status)
    with shop_of(url) as system:
        eventually(lambda: any(looked_at(url).statuses()), "the run is accepted")
        handle = system.handle(next(looked_at(url).statuses()).run_id)
        assert (handle.status().phase, handle.here()) == ("under_way", None)

        assert handle.cancel()

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert system.recover(runners=[slow(threading.Event())]) == []
        assert handle.status().phase == "over"


def test_a_request_that_a_dead_process_did_not_see_ends_its_run(url: str, tmp_path: Path) -> None:
    left = leave_a_run(url, tmp_path)
    request_cancel(url, left)
    clerk = worker("clerk", Effects(tmp_path / "effects").tool(idempotent=True), ["a"])
    with shop_of(url) as system:
        assert system.handle(left).status().cancel_requested

        assert system.recover(runners=[clerk], adopt=True) == []

        status = system.handle(left).status()
        assert (status.phase, status.reason, status.cancel_requested) == ("over", "cancelled", False)


def request_cancel(url: str, run_id: str) -> None:
    """Ask the process of a run to cancel it, as another process does while that one lives."""
    database = open_store(url).database
    assert database is not None
    runs = StoredRuns(database, None)
    assert runs.cancel(entry_of(runs, run_id)) == "requested"


def test_a_run_that_goes_on_by_its_token_forgets_the_request_of_before(url: str) -> None:
    with shop_of(url) as system:
        agent = cashier()
        waits = needs_approval(agent.run("go", system=system))
        database = open_store(url).database
        assert database is not None
        database.write(lambda sql: sql.execute("UPDATE understudy_runs SET cancel_requested = 1.0"))

        finished(agent.resume(waits.token, us.Approve(), system=system))

    assert head_of(url, waits.run_id).cancel_requested is None


def test_a_turn_that_a_worker_does_is_lost_when_its_run_is_cancelled(url: str) -> None:
    found: list[tuple[str, str]] = []

    def act(ctx: us.ToolContext, cancels: bool) -> str:
        runs = opened(url)
        entry = runs.list.entry(ctx.run_id)
        if cancels and entry is not None:
            found.append((runs.status(entry).phase, runs.cancel(entry)))
        return "done"

    model = us.ScriptedModel([calls("act", cancels=False), calls("act", cancels=True)])
    agent = us.Agent("clerk", model=model, tools=[act])
    with shop_of(url) as system:
        first = agent.run_turn("go", system=system)
        assert isinstance(first, us.MoreTurns)

        with pytest.raises(us.LeaseLost):
            agent.run_turn(token=first.token, system=system)

    assert found == [("under_way", "done")]


def test_a_run_of_which_a_worker_does_a_turn_waits_for_nobody(url: str) -> None:
    told: list[tuple[object, object]] = []

    @us.tool(approval=True)
    def look(ctx: us.ToolContext) -> str:
        """Look what the run waits for."""
        handle = system.handle(ctx.run_id)
        told.append((handle.waiting(), handle.pauses()))
        return "done"

    agent = us.Agent("clerk", model=us.ScriptedModel([calls("look")]), tools=[look])
    with shop_of(url) as system:
        waits = needs_approval(agent.run("go", system=system))
        assert isinstance(agent.run_turn(token=waits.token, answer=us.Approve(), system=system), us.MoreTurns)

    assert told == [(None, ())]


def test_what_is_no_run_of_the_system_has_no_handle(url: str) -> None:
    with us.ActorSystem("bank", store=url) as bank:
        waits = needs_approval(cashier().run("go", system=bank))
    with shop_of(url) as system:
        for run_id in ("shop-1", waits.run_id):
            with pytest.raises(KeyError, match="has no run"):
                system.handle(run_id)
        with pytest.raises(TypeError, match="run_id"):
            system.handle(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"store": "memory:"}])
def test_a_system_without_a_durable_store_has_no_such_handles(options: dict[str, str]) -> None:
    with us.ActorSystem("shop", **options) as system, pytest.raises(ValueError, match="durable store"):  # type: ignore[arg-type]
        system.handle("shop-1")


def test_runs_that_were_left_are_counted_when_their_user_is_erased(url: str, tmp_path: Path) -> None:
    leave_a_run(url, tmp_path)
    with us.ActorSystem("shop", store=url) as system:
        us.Agent("teller", model=us.ScriptedModel([says("Hi.")])).run("go", system=system, user_id="ada")  # over

        assert open_store(url).count("ada", None) == us.Erased(runs=1)
        assert system.erase("ada") == us.Erased(runs=1)
        assert system.erase("ada") == us.Erased()
