"""How many runs may be under way at once, and what becomes of those that wait for a place."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import understudy as us
from tests.support.doors import Doors
from tests.support.scripts import WAIT, contents_of, eventually, finished
from understudy.actors.runs.record import RunRecord
from understudy.actors.system.actor_system import runs_of
from understudy.actors.system.run_manager import IN_LINE, Admission
from understudy.actors.waiting.graph import graph
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def agent(doors: Doors) -> us.Agent:
    return us.Agent("clerk", model=doors)


@pytest.fixture
def narrow() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", max_runs=1) as system:
        yield system
        system.stop(0.0)


def test_no_more_runs_are_under_way_than_allowed_and_the_first_in_line_comes_next(
    doors: Doors, agent: us.Agent
) -> None:
    with us.ActorSystem("shop", max_runs=2) as system:
        handles = [agent.submit(name, system=system) for name in "abcd"]
        eventually(lambda: sorted(doors.came) == ["a", "b"], "two have come")
        assert [handle.status().doing for handle in handles[2:]] == [IN_LINE, IN_LINE]
        doors.open("b")
        assert finished(handles[1].result(WAIT)).text == "b"
        eventually(lambda: doors.came[2:] == ["c"], "the third has come")
        doors.open(*"acd")

        assert [finished(handle.result(WAIT)).text for handle in handles] == ["a", "b", "c", "d"]
        assert doors.came[2:] == ["c", "d"]


def test_what_is_begun_inside_of_a_run_is_always_admitted(narrow: us.ActorSystem) -> None:
    inner = us.Agent("inner", model=ScriptedModel([says("deep"), says("deeper")]))

    def delegate() -> str:
        return finished(inner.run("go", timeout=WAIT)).text + finished(inner.submit("go").result(WAIT)).text

    outer = us.Agent("outer", model=ScriptedModel([calls("delegate"), says("ok")]), tools=[delegate])

    outcome = outer.run("go", system=narrow, timeout=WAIT)
    assert contents_of(outcome) == ["deepdeeper"]


def test_a_run_that_ended_before_it_stood_in_line_takes_no_place(agent: us.Agent) -> None:
    with us.ActorSystem("shop") as system:
        started: list[RunRecord] = []
        admission = Admission(1, started.append)
        over = runs_of(system).prepare(agent, "over", RunOptions())
        assert over.host.endings.cancel(over)
        admission.enter(over)
        following = runs_of(system).prepare(agent, "following", RunOptions())
        admission.enter(following)

        assert following in started


def test_many_threads_and_few_places() -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1
        return says(request.messages[-1].text)

    agent, texts = us.Agent("clerk", model=FunctionModel(answer)), list[list[str]]()
    with us.ActorSystem("shop", max_runs=3) as system:

        def work(name: int) -> None:
            texts.append([finished(agent.run(f"{name}.{n}", system=system, timeout=WAIT)).text for n in range(20)])

        threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)

    assert sorted(text for each in texts for text in each) == sorted(f"{a}.{b}" for a in range(16) for b in range(20))
    assert most <= 3


def test_a_run_that_waits_for_one_which_stands_in_line_behind_it_is_refused(narrow: us.ActorSystem) -> None:
    later: list[us.RunHandle] = []
    there = threading.Event()

    def wait_for_the_next() -> str:
        assert there.wait(WAIT)
        try:
            return finished(later[0].result(WAIT)).text
        except us.CircularAgentCall as error:
            return " -> ".join(error.path)

    turns = [calls("wait_for_the_next"), says("first")]
    first = us.Agent("first", model=ScriptedModel(turns), tools=[wait_for_the_next]).submit("go", system=narrow)
    later.append(us.Agent("second", model=ScriptedModel([says("second")])).submit("go", system=narrow))
    there.set()

    assert contents_of(first.result(WAIT)) == ["first -> second -> first"]
    assert finished(later[0].result(WAIT)).text == "second"


def test_a_run_in_line_may_be_waited_for_while_another_place_will_be_free(doors: Doors, agent: us.Agent) -> None:
    later: list[us.RunHandle] = []
    there = threading.Event()

    def wait_for_the_next() -> str:
        assert there.wait(WAIT)
        return finished(later[0].result(WAIT)).text

    with us.ActorSystem("shop", max_runs=2) as system:
        other = agent.submit("other", system=system)
        turns = [calls("wait_for_the_next"), says("first")]
        first = us.Agent("first", model=ScriptedModel(turns), tools=[wait_for_the_next]).submit("go", system=system)
        later.append(us.Agent("second", model=ScriptedModel([says("second")])).submit("go", system=system))
        there.set()
        doors.open("other")

        assert contents_of(first.result(WAIT)) == ["second"]
        assert finished(other.result(WAIT)).text == "other"
    assert len(graph) == 0
