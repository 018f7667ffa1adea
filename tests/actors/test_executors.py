"""The executors of tools in real runs: addresses, counters, `tree()` and `health()`, and calls after the end."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, eventually, results_of
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.system import run_manager
from understudy.actors.system.health import ActorFigures
from understudy.actors.tools.executor import Executors
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.tools.toolset import ToolSource


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system
        system.stop(0.0)


@pytest.fixture
def opened() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


class Till(us.Toolset):
    @us.tool
    def add(self, cents: int) -> int:
        return cents

    @us.tool
    def breaks(self) -> str:
        raise ConnectionError("the drawer is stuck")


def look_up(key: str) -> str:
    return key.upper()


def agent_with(
    *tools: ToolSource, turns: tuple[us.ModelTurn, ...] = (), id: str = "clerk", **options: object
) -> us.Agent:
    return us.Agent(id, model=ScriptedModel([*turns, says("ok")]), tools=tools, **options)  # type: ignore[call-overload, no-any-return]  # pyright: ignore[reportArgumentType]


def tools_of(system: us.ActorSystem, agent: str = "clerk") -> dict[str, ActorFigures]:
    """Return the figures of an agent's tools by address, without the name of the system."""
    (found,) = [actor for actor in system.health().actors if actor.address == f"shop/{agent}"]
    return {tool.address.removeprefix("shop/tools/"): tool for tool in found.tools}


def test_a_tool_has_figures_before_its_first_call(system: us.ActorSystem) -> None:
    system.spawn(agent_with(look_up))

    (figures,) = tools_of(system).values()

    assert (figures.address, figures.state, figures.depth) == ("shop/tools/look_up", "running", 0)
    assert (figures.handled, figures.failed, figures.expired, figures.dead, figures.hung) == (0, 0, 0, 0, 0)
    assert figures.busy_for is None
    assert system.tree().splitlines()[2] == "    tools/look_up: running, 0 waiting, 0 handled, 0 failed, 0 restarts"


def test_each_call_is_counted_alone_or_with_others(system: us.ActorSystem) -> None:
    turns = (calls("look_up", key="a"), calls("look_up", key="b") + calls("look_up", key="c"))
    system.spawn(agent_with(look_up, turns=turns)).run("go")

    (figures,) = tools_of(system).values()

    assert (figures.handled, figures.failed, figures.busy_for) == (3, 0, None)


@pytest.mark.parametrize("limit", [None, 2])
def test_a_call_whose_tool_raises_has_failed(system: us.ActorSystem, limit: int | None) -> None:
    @us.tool(max_parallel=limit)
    def breaks() -> str:
        raise ConnectionError("gone")

    system.spawn(agent_with(breaks, turns=(calls("breaks"), calls("breaks") + calls("breaks")))).run("go")

    (figures,) = tools_of(system).values()
    assert (figures.handled, figures.failed) == (0, 3)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with another"])
@pytest.mark.parametrize("limit", [None, 3])
def test_a_tool_that_hangs_is_seen_as_its_executor_until_it_comes_back(
    system: us.ActorSystem, opened: threading.Event, limit: int | None, alone: bool
) -> None:
    @us.tool(timeout=0.05, max_parallel=limit)
    def hang() -> str:
        opened.wait(WAIT)
        return "late"

    turn = calls("hang") if alone else calls("hang") + calls("look_up", key="a")
    outcome = system.spawn(agent_with(hang, look_up, turns=(turn,))).run("go", timeout=WAIT)

    assert results_of(outcome)[0].error_kind == "timed_out"
    figures = tools_of(system)["hang"]
    assert (figures.hung, figures.failed, figures.handled) == (1, 1, 0)
    assert figures.busy_for is not None and figures.busy_for > 0.0
    assert "tools/hang: running, 0 waiting, 0 handled, 1 failed, 0 restarts, busy for" in system.tree()
    opened.set()
    eventually(lambda: tools_of(system)["hang"].hung == 0, "it has come back")
    figures = tools_of(system)["hang"]
    assert (figures.busy_for, figures.failed, figures.handled) == (None, 1, 0)


def test_calls_in_line_are_seen_and_those_of_a_cancelled_run_are_counted(
    system: us.ActorSystem, opened: threading.Event
) -> None:
    begun = threading.Event()

    @us.tool(max_parallel=1)
    def hold() -> str:
        begun.set()
        opened.wait(WAIT)
        return "held"

    first = system.spawn(agent_with(hold, turns=(calls("hold"),))).submit("go")
    assert begun.wait(WAIT)
    second = agent_with(hold, turns=(calls("hold"),), id="second").submit("go", system=system)
    eventually(lambda: tools_of(system)["hold"].depth == 1, "the second call stands in line")
    assert tools_of(system, "second")["hold"].oldest_age > 0.0

    second.cancel()

    figures = tools_of(system)["hold"]
    assert (figures.depth, figures.high_water, figures.expired) == (0, 1, 1)
    assert [(letter.address, letter.reason, letter.message_type) for letter in system.dead_letters()] == [
        ("shop/tools/hold", "cancelled", "ToolCall")
    ]
    opened.set()
    first.result(WAIT)
    assert tools_of(system)["hold"].handled == 1


def test_a_call_in_line_ends_with_the_time_of_its_run(system: us.ActorSystem, opened: threading.Event) -> None:
    begun = threading.Event()

    @us.tool(max_parallel=1)
    def hold() -> str:
        begun.set()
        opened.wait(WAIT)
        return "held"

    first = system.spawn(agent_with(hold, turns=(calls("hold"),))).submit("go")
    assert begun.wait(WAIT)
    late = agent_with(hold, turns=(calls("hold"),), id="late").submit("go", system=system, timeout=0.1)

    assert isinstance(late.exception(WAIT), us.RunTimedOut)

    eventually(lambda: tools_of(system)["hold"].depth == 0, "it stands in line no more")
    assert tools_of(system)["hold"].expired == 1
    opened.set()
    first.result(WAIT)


def test_agents_that_list_one_tool_share_its_executor(system: us.ActorSystem) -> None:
    shared = us.tool(look_up)
    for id in ("one", "other"):
        system.spawn(agent_with(shared, turns=(calls("look_up", key="a"),), id=id)).run("go")

    assert [tools_of(system, id)["look_up"].handled for id in ("one", "other")] == [2, 2]


def test_a_second_tool_of_a_name_has_a_number_behind_it(system: us.ActorSystem) -> None:
    for id in ("one", "other"):
        system.spawn(agent_with(us.tool(look_up), id=id))

    found = [name for id in ("one", "other") for name in tools_of(system, id)]

    assert sorted(found) == ["look_up", "look_up-2"]


def test_a_toolset_is_one_executor_for_all_its_methods(system: us.ActorSystem) -> None:
    system.spawn(agent_with(Till, turns=(calls("add", cents=1), calls("breaks")))).run("go")

    assert [(name, figures.handled, figures.failed) for name, figures in tools_of(system).items()] == [("Till", 1, 1)]


def test_a_toolset_that_is_made_anew_keeps_its_address_and_its_counters(system: us.ActorSystem) -> None:
    turns = (calls("add", cents=1), calls("breaks"), says("ok"), calls("add", cents=1))
    ref = system.spawn(agent_with(partial(Till), turns=turns, restart_on=[ConnectionError]))
    ref.run("go")
    eventually(lambda: system.health().actors[0].restarts == 1, "the agent was restarted")

    assert contents_of(ref.run("go")) == ["1"]

    (figures,) = tools_of(system).values()
    assert (figures.address, figures.handled, figures.failed, figures.restarts) == ("shop/tools/Till", 2, 1, 1)


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("turn", [calls("look_up", key="a"), calls("look_up", key="a") + calls("look_up", key="b")])
def test_a_call_after_the_end_of_the_system_is_a_dead_letter(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch, turn: us.ModelTurn, limit: int | None
) -> None:
    def stopped(name: str, events: EventStream) -> Executors:
        executors = Executors(name, events)
        executors.stop()
        return executors

    monkeypatch.setattr(run_manager, "Executors", stopped)
    late = us.ActorSystem("late")

    outcome = agent_with(us.tool(max_parallel=limit)(look_up), turns=(turn,)).run("go", system=late)

    told = {(result.error_kind, result.content) for result in results_of(outcome)}
    assert told == {("unavailable", "look_up did not run: late/tools/look_up has stopped")}
    letters = {(letter.address, letter.reason, letter.message_type) for letter in late.dead_letters()}
    assert letters == {("late/tools/look_up", "stopped", "ToolCall")}
    late.stop()


def test_a_tool_that_is_gone_takes_its_executor_along(system: us.ActorSystem) -> None:
    agent = agent_with(us.tool(look_up), turns=(calls("look_up", key="a"),))
    gone = weakref.ref(agent.tools[0])
    agent.run("go", system=system)
    del agent
    eventually(lambda: gc.collect() >= 0 and gone() is None, "the tool is gone")

    system.spawn(agent_with(us.tool(look_up), id="other"))

    assert [(name, figures.handled) for name, figures in tools_of(system, "other").items()] == [("look_up", 0)]


def test_a_work_that_comes_late_to_a_stopped_system_hears_that_the_tool_has_stopped() -> None:
    entered, gate, ran = threading.Event(), threading.Event(), list[str]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        entered.set()
        assert gate.wait(WAIT)
        return calls("note")

    def note() -> None:
        ran.append("ran")

    system = us.ActorSystem("shop")
    handle = us.Agent("clerk", model=FunctionModel(answer), tools=[note]).submit("go", system=system)
    assert entered.wait(WAIT)
    system.stop(0.0)
    gate.set()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    eventually(lambda: system.hung == 0, "the work has come back")
    assert ran == []
