"""Runs in a queue, for a place in their system or for their conversation: how they leave it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import understudy as us
from tests.support.doors import Doors
from tests.support.scripts import WAIT, finished, needs_input
from tests.support.stores import DictStore
from understudy.actors.system.run_manager import IN_LINE
from understudy.testing import FunctionModel, says

pytestmark = pytest.mark.usefixtures("empty_graph")


@dataclass
class Line:
    """One run at a time comes out of it, whose model stands before a door.

    Attributes:
        doing: what is said of a run that stands in it.
    """

    system: us.ActorSystem
    agent: us.Agent
    conversation: str | None
    doing: str

    def submit(self, name: str, agent: us.Agent | None = None) -> us.RunHandle[str]:
        return (agent or self.agent).submit(name, conversation_id=self.conversation, system=self.system)


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture(params=["place", "conversation", "stored conversation"])
def line(request: pytest.FixtureRequest, doors: Doors) -> Iterator[Line]:
    places = request.param == "place"
    agent = us.Agent("clerk", model=doors, memory=None if places else us.InMemoryMemory())
    store = DictStore() if request.param == "stored conversation" else None
    with us.ActorSystem("shop", store=store, max_runs=1 if places else None) as system:
        if places:
            yield Line(system, agent, None, IN_LINE)
        else:
            yield Line(system, agent, "c-42", "waiting for conversation c-42")
        system.stop(0.0)


def test_runs_in_line_hold_no_thread(doors: Doors, line: Line) -> None:
    handles = [line.submit("a")]
    doors.came_are("a")
    before = threading.active_count()
    handles += [line.submit("b") for _ in range(300)]

    assert threading.active_count() <= before + 1  # another test's thread may come and go
    doors.open("a", "b")
    assert {finished(handle.result(WAIT)).text for handle in handles} == {"a", "b"}


def test_a_run_that_is_cancelled_in_line_never_begins_and_leaves_no_gap(doors: Doors, line: Line) -> None:
    inside, cancelled, last = [line.submit(name) for name in ("in", "cancelled", "last")]
    assert cancelled.cancel()
    with pytest.raises(us.RunCancelled):
        cancelled.result(0)
    doors.open("in", "last")

    assert finished(last.result(WAIT)).text == "last"
    assert inside.done()
    assert doors.came == ["in", "last"]


def test_a_deadline_holds_in_line_too(doors: Doors, line: Line) -> None:
    line.submit("in")
    doors.came_are("in")

    with pytest.raises(us.RunTimedOut, match=f"while {line.doing}"):
        line.agent.run("late", conversation_id=line.conversation, system=line.system, timeout=0.05)
    doors.open("in", "next")
    assert finished(line.submit("next").result(WAIT)).text == "next"
    assert doors.came == ["in", "next"]


def test_a_paused_run_stands_in_line_again(doors: Doors, line: Line) -> None:
    doors.open("ask", "Ada")
    token = needs_input(line.submit("ask").result(WAIT)).token
    line.submit("in")
    doors.came_are("ask", "in")
    handle = line.agent.submit_resume(token, "Ada", system=line.system)
    assert handle.status().doing == line.doing
    doors.open("in")

    assert finished(handle.result(WAIT)).text == "Ada"


def test_a_system_that_stops_ends_all_in_line(doors: Doors, line: Line) -> None:
    handles = [line.submit(name) for name in ("in", "second", "third")]
    doors.came_are("in")

    assert sorted(line.system.stop(0.0)) == sorted(handle.run_id for handle in handles)
    assert {type(handle.exception(WAIT)) for handle in handles} == {us.RunCancelled}
    doors.open("in")
    assert doors.came == ["in"]


def test_all_in_line_hear_that_their_agent_has_stopped(doors: Doors, line: Line) -> None:
    ref = line.system.spawn(line.agent)
    handles = [line.submit("a") for _ in range(1_500)]  # more than calls may stand in one another
    doors.came_are("a")
    ref.stop(timeout=WAIT)
    doors.open("a")

    assert finished(handles[0].result(WAIT)).text == "a"
    assert all(isinstance(handle.exception(WAIT), us.AgentDown) for handle in handles[1:])
    other = us.Agent("other", model=FunctionModel(lambda request: says("next")), memory=line.agent.memory)
    assert finished(line.submit("go", other).result(WAIT)).text == "next"
