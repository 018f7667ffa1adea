"""One conversation in several systems and processes: runs take turns, in the order in which they asked the store."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.scripts import WAIT, eventually
from understudy.actors.stores import grants
from understudy.actors.stores.grants import Grants, grants_of
from understudy.actors.stores.open_store import open_store
from understudy.testing import FunctionModel, ScriptedModel, calls, says

KEY = us.ConversationKey("shop", "ada", "c-42")

HEAD = """
import sys, threading
import understudy as us
from understudy.actors.stores import grants
from understudy.testing import FunctionModel, says
grants.LEASE = 1.0
URL = sys.argv[1]
"""


class Gated:
    """An agent whose model says how many messages it saw, once the gate is open."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.gate = threading.Event()
        self.agent = us.Agent("clerk", model=FunctionModel(self._answer), memory=us.PersistentMemory(turns=None))

    def _answer(self, request: us.ModelRequest) -> us.ModelTurn:
        self.asked.set()
        assert self.gate.wait(WAIT)
        return says(str(len(request.messages)))


@pytest.fixture
def here(url: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=url) as system:
        yield system


@pytest.fixture
def there(url: str) -> Iterator[us.ActorSystem]:
    """A system that shares nothing with the other one but its name and its store."""
    with us.ActorSystem("shop", store=url) as system:
        yield system


def begin(agent: us.Agent[str], system: us.ActorSystem, timeout: float | None = None) -> us.RunHandle[str]:
    return agent.submit("hi", system=system, user_id="ada", conversation_id="c-42", timeout=timeout)


def tickets(url: str) -> int:
    database = open_store(url).database
    assert database is not None
    row = database.read(lambda sql: sql.execute("SELECT count(*) FROM understudy_tickets").fetchone())
    assert row is not None
    return int(row[0])


def turns(url: str) -> list[str]:
    return [each.messages[-1].text for each in us.PersistentMemory(url).read(KEY)]


def test_a_run_waits_for_one_of_another_system_and_knows_its_turn(
    url: str, here: us.ActorSystem, there: us.ActorSystem
) -> None:
    first, second = Gated(), Gated()
    one = begin(first.agent, here)
    assert first.asked.wait(WAIT)
    other = begin(second.agent, there)
    eventually(lambda: tickets(url) == 2, "both have a ticket")

    assert other.status().doing == "waiting for conversation c-42"
    assert not second.asked.is_set()
    second.gate.set()
    first.gate.set()

    assert (one.get(timeout=WAIT).text, other.get(timeout=WAIT).text) == ("1", "3")
    eventually(lambda: tickets(url) == 0, "all tickets are given back")


def test_only_the_first_in_line_of_a_system_asks_the_store(url: str, here: us.ActorSystem) -> None:
    gated = Gated()
    runs = [begin(gated.agent, here) for _ in range(5)]
    assert gated.asked.wait(WAIT)

    assert tickets(url) == 1
    gated.gate.set()
    assert [run.get(timeout=WAIT).text for run in runs] == ["1", "3", "5", "7", "9"]


@pytest.mark.parametrize("ending", ["deadline", "cancel"])
def test_a_run_that_ends_while_it_waits_leaves_the_line(
    ending: str, url: str, here: us.ActorSystem, there: us.ActorSystem
) -> None:
    first, second = Gated(), Gated()
    one = begin(first.agent, here)
    assert first.asked.wait(WAIT)
    other = begin(second.agent, there, timeout=0.3 if ending == "deadline" else None)
    eventually(lambda: tickets(url) == 2 or other.status().phase == "failed", "the other one waits")
    if ending == "cancel":
        other.cancel()

    with pytest.raises(us.RunTimedOut if ending == "deadline" else us.RunCancelled):
        other.get(timeout=WAIT)
    eventually(lambda: tickets(url) == 1, "its ticket is given back")
    first.gate.set()
    assert one.get(timeout=WAIT).text == "1"
    assert not second.asked.is_set()


def test_a_run_that_pauses_gives_its_conversation_to_other_processes(
    url: str, here: us.ActorSystem, there: us.ActorSystem
) -> None:
    @us.tool(approval=True)
    def refund() -> str:
        return "paid"

    model = ScriptedModel([calls("refund"), says("done")])
    cashier = us.Agent("cashier", model=model, tools=[refund], memory=us.PersistentMemory())
    paused = cashier.run("hi", system=here, user_id="ada", conversation_id="c-42")
    assert isinstance(paused, us.NeedsApproval)
    gated = Gated()
    gated.gate.set()

    assert begin(gated.agent, there).get(timeout=WAIT).text == "1"
    assert cashier.resume(paused.token, us.Approve(), system=there).text == "done"
    assert turns(url) == ["1", "done"]


def test_a_run_that_has_lost_its_conversation_ends_with_an_error_and_stores_nothing(
    url: str, here: us.ActorSystem
) -> None:
    gated = Gated()
    run = begin(gated.agent, here)
    assert gated.asked.wait(WAIT)
    database = open_store(url).database
    assert database is not None
    grants_of(database).drop_of_user("ada", "shop")
    gated.gate.set()

    with pytest.raises(us.RunError, match=f"run {run.run_id} has lost conversation 'c-42'"):
        run.get(timeout=WAIT)
    assert turns(url) == []
    assert begin(gated.agent, here).get(timeout=WAIT).text == "1"
    assert [each.restarts for each in here.health().actors] == [0]


def test_a_store_that_cannot_be_asked_leaves_the_run_and_the_next_one_asks_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = Gated()
    gated.gate.set()
    here = us.ActorSystem("shop", store=url, store_patience=0.0)

    def fail(*_: object, **__: object) -> None:
        raise us.StoreError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Grants, "take", fail)
        with pytest.raises(us.StoreError, match="the disk is gone"):
            begin(gated.agent, here).get(timeout=WAIT)

    assert begin(gated.agent, here).get(timeout=WAIT).text == "1"
    (left,) = here.recover(runners=[gated.agent])
    assert isinstance(left.result(timeout=WAIT), us.Complete)


def test_a_group_has_its_conversation_from_its_first_step_to_its_last(
    url: str, here: us.ActorSystem, there: us.ActorSystem
) -> None:
    first, second, other = Gated(), Gated(), Gated()
    group = us.SequentialAgent("both", [first.agent, second.agent.replace(id="second")])
    run = group.submit("hi", system=here, user_id="ada", conversation_id="c-42")
    assert first.asked.wait(WAIT)
    outside = begin(other.agent, there)
    eventually(lambda: tickets(url) == 2, "both have a ticket")
    for each in (first, second, other):
        each.gate.set()

    run.get(timeout=WAIT)
    assert outside.get(timeout=WAIT).text == "5"


def test_two_stores_of_one_group_are_both_asked(tmp_path: Path, here: us.ActorSystem) -> None:
    first, second = Gated(), Gated()
    elsewhere = us.PersistentMemory(f"sqlite:///{tmp_path}/other.db")
    group = us.SequentialAgent("both", [first.agent, second.agent.replace(id="second", memory=elsewhere)])
    run = group.submit("hi", system=here, user_id="ada", conversation_id="c-42")
    assert first.asked.wait(WAIT)

    assert tickets(f"sqlite:///{tmp_path}/other.db") == 1
    first.gate.set()
    second.gate.set()
    assert run.get(timeout=WAIT).text == "1"


# --- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_no_conversation_of_its_parent(url: str, here: us.ActorSystem) -> None:
    gated = Gated()
    run = begin(gated.agent, here)
    assert gated.asked.wait(WAIT)

    def child() -> None:
        mine = Gated()
        with us.ActorSystem("shop", store=url) as system, pytest.raises(us.RunTimedOut):
            mine.agent.run("hi", system=system, user_id="ada", conversation_id="c-42", timeout=0.5)
        assert not mine.asked.is_set()

    in_child(child)
    gated.gate.set()
    assert run.get(timeout=WAIT).text == "1"
    assert turns(url) == ["1"]


def start(body: str, url: str) -> subprocess.Popen[str]:
    program = HEAD + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True)


def test_processes_and_threads_take_turns_in_one_conversation_and_lose_none(url: str) -> None:
    program = """
        def answer(request):
            return says(str(len(request.messages)))
        clerk = us.Agent("clerk", model=FunctionModel(answer), memory=us.PersistentMemory(turns=None))
        def talk(system):
            said = clerk.run("hi", system=system, user_id="ada", conversation_id="c-42").text
            print(said + chr(10), end="", flush=True)  # one write: other threads print too
        with us.ActorSystem("shop", store=URL) as system:
            threads = [threading.Thread(target=talk, args=(system,)) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
    """
    processes = [start(program, url) for _ in range(2)]
    said = [line for process in processes for line in process.communicate(timeout=120)[0].split()]

    assert sorted(map(int, said)) == list(range(1, 17, 2))
    assert turns(url) == [str(number) for number in range(1, 17, 2)]


def test_a_killed_process_is_replaced_within_the_lease(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "LEASE", 1.0)
    holder = start(
        """
        def answer(request):
            print("holding", flush=True)
            threading.Event().wait()
        clerk = us.Agent("clerk", model=FunctionModel(answer), memory=us.PersistentMemory())
        with us.ActorSystem("shop", store=URL) as system:
            clerk.run("hi", system=system, user_id="ada", conversation_id="c-42")
        """,
        url,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"
    gated = Gated()
    gated.gate.set()
    with us.ActorSystem("shop", store=url) as system:
        run = begin(gated.agent, system, timeout=WAIT)
        eventually(lambda: tickets(url) == 2, "the run waits")
        holder.kill()
        holder.communicate(timeout=WAIT)

        assert run.get(timeout=WAIT).text == "1"
