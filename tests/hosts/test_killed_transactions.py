"""Calls of transactional tools whose process is killed at each of its writes: each has its effect once, in both stores."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import understudy as us
from tests.support.deadly import DeadlyDatabase
from tests.support.killing import killed
from tests.support.scripts import WAIT, contents_of, finished
from tests.support.shelf import Shelf, caller, take
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.store import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


@pytest.fixture(params=["sqlite", "postgresql"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    is_server = request.param == "postgresql"
    yield Shelf(request.getfixturevalue("postgres_url") if is_server else f"sqlite:///{tmp_path}/shop.db")
    gc.collect()  # the connections of the systems, of which the server has few


@us.tool(transactional=True)
def book(ctx: us.ToolContext) -> str:
    """Take a bell."""
    with ctx.transaction() as sql:
        take(sql)
        sql.execute("INSERT INTO shelf VALUES (?, 1)", (ctx.call_key,))  # a second one with this key fails
    return "booked"


def deadly_system(shelf: Shelf, deadly: int, *, before: bool) -> us.ActorSystem:
    database = open_store(shelf.url).database
    assert database is not None
    return us.ActorSystem("shop", store=Store(DeadlyDatabase(database, deadly, before=before)))


def run_and_maybe_die(agent: us.Agent, shelf: Shelf, deadly: int, *, before: bool) -> None:
    agent.run("go", system=deadly_system(shelf, deadly, before=before))


def left_to_do(shelf: Shelf, agent: us.Agent) -> list[us.Outcome[object]]:
    with shelf.system() as system:
        return [handle.result(timeout=WAIT) for handle in system.recover(runners=[agent])]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("before", [True, False])
def test_a_process_that_is_killed_at_any_write_has_booked_once_or_not_at_all(
    before: bool, count: int, shelf: Shelf
) -> None:
    agent, deadly, recovered = caller(book, calls=count), 1, 0
    while killed(partial(run_and_maybe_die, agent, shelf, deadly, before=before)):
        outcomes = left_to_do(shelf, agent)

        booked = 7 - shelf.units
        assert booked == count if outcomes else booked in (0, count)
        assert [contents_of(finished(outcome)) for outcome in outcomes] == [["booked"] * count] * len(outcomes)
        shelf.ask("UPDATE shelf SET units = 7 WHERE sku = 'bell'")
        deadly, recovered = deadly + 1, recovered + len(outcomes)

    assert shelf.units == 7 - count
    assert recovered > count


@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_is_killed_inside_of_the_block_has_changed_nothing(number: int, shelf: Shelf) -> None:
    here = os.getpid()

    def act(ctx: us.ToolContext) -> str:
        """Act."""
        with ctx.transaction() as sql:
            for done in range(3):
                take(sql)
                if done == number and os.getpid() != here:
                    os.kill(os.getpid(), signal.SIGKILL)
        return "booked"

    agent = caller(us.tool(name="act", transactional=True)(act))
    assert killed(lambda: agent.run("go", system=shelf.system()))
    assert shelf.units == 7

    (outcome,) = left_to_do(shelf, agent)

    assert contents_of(finished(outcome)) == ["booked"]
    assert shelf.units == 4


def test_a_plain_call_in_doubt_does_not_happen_again_when_its_tool_has_become_transactional(shelf: Shelf) -> None:
    here = os.getpid()

    def act(ctx: us.ToolContext) -> str:
        """Act."""
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return "booked"

    plain = caller(us.tool(name="act")(act))
    assert killed(lambda: plain.run("go", system=shelf.system()))

    (outcome,) = left_to_do(shelf, caller(us.tool(name="act", transactional=True)(act)))

    assert isinstance(outcome, us.NeedsApproval)
    assert outcome.pauses[0].in_doubt == ("act0",)
