"""Processes that are stopped by a signal inside of a tool's transaction, and what others can do meanwhile."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from tests.support.freezing import is_all_over, outcome_of, stop, watching
from tests.support.killing import forked
from tests.support.scripts import eventually
from tests.support.shelf import Shelf, caller, take
from understudy.actors.stores import sqlite_writer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is stopped after a fork")


def seller() -> us.Agent:
    """Return an agent that takes one bell from the shelf; in another process, it is stopped before the commit."""
    here = os.getpid()

    @us.tool(transactional=True, transaction_timeout=4.0)  # longer than the server waits for one that is stopped
    def sell(ctx: us.ToolContext) -> str:
        """Sell a bell."""
        with ctx.transaction() as sql:
            take(sql)
            if os.getpid() != here:
                stop()
        return "sold here" if os.getpid() == here else "sold there"

    return caller(sell)


def frozen(do: Callable[[], object]) -> int:
    """Do something in a forked child until it stops; returns its number."""
    child = forked(do)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    return child


def test_on_a_server_another_process_makes_the_call_and_the_stopped_one_cannot_commit(
    postgres_url: str, tmp_path: Path
) -> None:
    shelf, told, agent = Shelf(postgres_url), tmp_path / "told", seller()
    child = frozen(lambda: told.write_text(outcome_of(agent, us.ActorSystem("shop", store=postgres_url, lease=1.0))))
    try:
        with watching(postgres_url, agent):
            eventually(lambda: is_all_over(postgres_url), "the run has ended here")
        assert shelf.units == 6
    finally:
        os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)

    assert told.read_text() in {"LeaseLost", "StoreError"}  # the beat tells it, or the server that ended the session
    assert shelf.units == 6


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a lock")
def test_in_a_file_nobody_writes_and_errors_name_the_stopped_process_until_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, agent = f"sqlite:///{tmp_path}/shop.db", seller()
    shelf = Shelf(url)
    with us.ActorSystem("shop", store=url) as system:
        child = frozen(lambda: outcome_of(agent, us.ActorSystem("shop", store=url, lease=1.0)))
        try:
            with monkeypatch.context() as patch:
                patch.setattr(sqlite_writer, "PATIENCE", 0.2)
                with pytest.raises(us.StoreError, match=rf"process {child} writes now"):
                    agent.run("go", system=system)
            assert shelf.units == 7
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    with watching(url, agent):
        eventually(lambda: is_all_over(url), "the run has ended here")
    assert shelf.units == 6
