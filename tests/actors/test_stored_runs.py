"""What a store tells of the runs of all processes, and how a run is removed: a look changes nothing, a change fits its look."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import understudy as us
from tests.support.killing import Effects, killed, worker
from tests.support.scripts import WAIT, finished, needs_approval
from understudy.actors.stores.inspection.look_at import look_at
from understudy.actors.stores.inspection.stored_runs import StoredRuns, runs_in
from understudy.actors.stores.open_store import open_store
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name a store that nobody has opened."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


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


def test_a_look_leaves_tables_of_an_earlier_version_as_they_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with us.ActorSystem("shop", store=url) as system:
        cashier().run("go", system=system)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        file.execute("ALTER TABLE understudy_runs DROP COLUMN cancel_requested")
        file.execute("ALTER TABLE understudy_pauses DROP COLUMN put_at")
        file.execute("UPDATE understudy_schema SET version = version - 1 WHERE part IN ('runs', 'pauses')")

    (status,) = looked_at(url).statuses()

    assert (status.phase, status.since) == ("waiting", None)
    us.ActorSystem("shop", store=url)  # brings them up to date
    assert phases(url) == {"cashier": "waiting"}


def test_tables_of_a_later_version_are_refused(url: str) -> None:
    us.ActorSystem("shop", store=url)
    database = open_store(url).database
    assert database is not None
    database.write(lambda sql: sql.execute("UPDATE understudy_schema SET version = 99 WHERE part = 'runs'"))

    with pytest.raises(us.StoreError, match="later version"):
        looked_at(url)


def test_a_run_that_is_deleted_is_gone_with_its_token(url: str, tmp_path: Path) -> None:
    left = leave_a_run(url, tmp_path)
    with us.ActorSystem("shop", store=url) as system:
        agent = cashier()
        waits = needs_approval(agent.run("go", system=system))
        runs = opened(url)

        for run_id in (left, waits.run_id):
            entry = runs.list.entry(run_id)
            assert entry is not None
            assert runs.delete(entry) == "done"

        assert phases(url) == {}
        assert system.recover(runners=[agent]) == []
        with pytest.raises(us.UnknownToken):
            agent.resume(waits.token, us.Approve(), system=system)


def test_a_run_that_was_answered_after_the_look_is_not_deleted(url: str) -> None:
    with us.ActorSystem("shop", store=url) as system:
        agent, runs = cashier(), opened(url)
        waits = needs_approval(agent.run("go", system=system))
        entry = runs.list.entry(waits.run_id)
        assert entry is not None
        finished(agent.resume(waits.token, us.Approve(), system=system))

        assert runs.delete(entry) == "changed"

    assert phases(url) == {"cashier": "over"}


def test_a_run_that_a_living_process_drives_is_not_deleted(url: str) -> None:
    runs = opened(url)
    answers: list[str] = []

    def delete(ctx: us.ToolContext) -> str:
        entry = runs.list.entry(ctx.run_id)
        assert entry is not None
        answers.append(runs.delete(entry))
        return "done"

    with us.ActorSystem("shop", store=url) as system:
        agent = us.Agent("clerk", model=us.ScriptedModel([calls("delete"), says("done")]), tools=[delete])
        finished(agent.run("go", system=system))

    assert answers == ["driven"]
