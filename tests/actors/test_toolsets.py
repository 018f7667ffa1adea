"""Toolsets in runs: one object, one call at a time, made afresh with its agent."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, eventually, finished, results_of
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.tools.toolset import ToolSource


class Till(us.Toolset):
    """Counts what is in it, in a way that goes wrong when two do it at once."""

    def __init__(self, made: list[Till] | None = None) -> None:
        self.total = 0
        self.inside = 0
        self.most_inside = 0
        if made is not None:
            made.append(self)

    @us.tool
    def add(self, cents: int) -> int:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        before = self.total
        threading.Event().wait(0.001)
        self.total = before + cents
        self.inside -= 1
        return self.total

    @us.tool
    async def look(self, ctx: us.ToolContext) -> str:
        ctx.session["seen"] = self.total
        return f"{ctx.agent_id} sees {self.total}"

    @us.tool
    def breaks(self) -> str:
        raise ConnectionError("the drawer is stuck")


class Desk(Till):
    @us.tool(isolation="caller")
    def where(self) -> bool:
        return threading.current_thread() is threading.main_thread()


class Gate(us.Toolset):
    """Hangs on demand."""

    def __init__(self, opened: threading.Event) -> None:
        self.opened = opened

    @us.tool(timeout=0.05)
    def hang(self) -> str:
        self.opened.wait(WAIT)
        return "late"

    @us.tool
    def pass_by(self) -> str:
        return "passed"


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


def make(tools: list[ToolSource], *turns: us.ModelTurn, id: str = "clerk", **options: object) -> us.Agent:
    return us.Agent(id, model=ScriptedModel([*turns, says("ok")]), tools=tools, **options)  # type: ignore[call-overload, no-any-return]  # pyright: ignore[reportArgumentType]


def adds(count: int) -> us.ModelTurn:
    turn = calls("add", cents=1)
    for _ in range(count - 1):
        turn = turn + calls("add", cents=1)
    return turn


def test_calls_of_one_turn_and_of_several_share_the_object_and_take_turns(system: us.ActorSystem) -> None:
    made: list[Till] = []
    agent = make([partial(Till, made)], adds(20), calls("add", cents=5), calls("look"))

    outcome = finished(agent.run("go", system=system))

    (till,) = made
    assert (till.total, till.most_inside) == (25, 1)
    assert sorted(map(int, contents_of(outcome)[:20])) == list(range(1, 21))
    assert contents_of(outcome)[20:] == ["25", "clerk sees 25"]
    assert dict(outcome.session) == {"seen": 25}


def test_runs_at_the_same_time_take_turns_too(system: us.ActorSystem) -> None:
    made: list[Till] = []
    model = us.FunctionModel(lambda request: says("ok") if request.tool_results else adds(5))
    agent = us.Agent("clerk", model=model, tools=[partial(Till, made)])

    handles = [agent.submit("go", system=system) for _ in range(10)]
    for handle in handles:
        handle.result(WAIT)

    (till,) = made
    assert (till.total, till.most_inside) == (50, 1)


def test_each_agent_and_each_system_has_an_object_of_its_own(system: us.ActorSystem) -> None:
    made: list[Till] = []
    shelf = partial(Till, made)
    one, other = make([shelf], adds(1), adds(1)), make([shelf], adds(1), id="other")

    one.run("go", system=system)
    other.run("go", system=system)
    with us.ActorSystem("elsewhere") as elsewhere:
        make([shelf], adds(1)).run("go", system=elsewhere)

    assert [till.total for till in made] == [2, 1, 1]


def test_an_object_that_is_given_is_one_for_all_agents_that_list_it(system: us.ActorSystem) -> None:
    till = Till()
    model = us.FunctionModel(lambda request: says("ok") if request.tool_results else adds(5))
    agents = [us.Agent(f"clerk-{n}", model=model, tools=[till]) for n in range(6)]
    agents.append(us.Agent("alone", model=model, tools=[till.add]))

    for handle in [agent.submit("go", system=system) for agent in agents]:
        handle.result(WAIT)

    assert (till.total, till.most_inside) == (35, 1)


def test_it_is_made_at_the_first_call_and_what_its_class_raises_is_that_call_s_error(system: us.ActorSystem) -> None:
    attempts: list[int] = []

    class Picky(us.Toolset):
        def __init__(self) -> None:
            attempts.append(1)
            if len(attempts) == 1:
                raise OSError("not today")

        @us.tool
        def look(self) -> str:
            return "seen"

    agent = make([Picky], calls("look"), calls("look"))
    assert attempts == []

    outcome = agent.run("go", system=system)

    assert contents_of(outcome) == ["look failed: OSError: not today", "seen"]


def test_a_restart_of_the_agent_makes_it_afresh(system: us.ActorSystem) -> None:
    made: list[Till] = []
    turns = [adds(1), calls("breaks")]
    agent = make([partial(Till, made)], *turns, says("ok"), adds(1), restart_on=[ConnectionError])
    ref = system.spawn(agent)

    assert contents_of(ref.run("go")) == ["1", "breaks failed: ConnectionError: the drawer is stuck"]
    eventually(lambda: system.health().actors[0].restarts == 1, "the agent was restarted")
    assert contents_of(ref.run("go")) == ["1"]

    assert [till.total for till in made] == [1, 1]


def test_an_object_that_is_given_stays_after_a_restart(system: us.ActorSystem) -> None:
    till = Till()
    agent = make([till], adds(1), calls("breaks"), says("ok"), adds(1), restart_on=[ConnectionError])
    ref = system.spawn(agent)

    ref.run("go")
    eventually(lambda: system.health().actors[0].restarts == 1, "the agent was restarted")

    assert contents_of(ref.run("go")) == ["2"]


def test_a_call_that_hangs_is_given_up_and_others_are_told_until_it_comes_back(
    system: us.ActorSystem, opened: threading.Event
) -> None:
    gate = Gate(opened)
    turn = calls("hang") + calls("pass_by") + calls("pass_by")
    outcome = make([gate], turn, calls("pass_by")).run("go", system=system, timeout=WAIT)

    kinds = [result.error_kind for result in results_of(outcome)]
    assert kinds == ["timed_out", "unavailable", "unavailable", "unavailable"]
    assert contents_of(outcome)[3] == ("pass_by did not run: its toolset, Gate, is held by a call that never came back")

    opened.set()
    eventually(lambda: system.hung == 0, "the call came back")
    assert contents_of(make([gate], calls("pass_by"), id="next").run("go", system=system)) == ["passed"]


def test_a_restart_leaves_the_object_to_the_call_that_hangs_in_it(
    system: us.ActorSystem, opened: threading.Event
) -> None:
    @us.tool
    def fails() -> str:
        raise ConnectionError("gone")

    toolset = partial(Gate, opened)
    turns = [calls("hang"), calls("pass_by"), calls("fails"), says("ok"), calls("pass_by")]
    ref = system.spawn(make([toolset, fails], *turns, restart_on=[ConnectionError]))

    first = [result.error_kind for result in results_of(ref.run("go", timeout=WAIT))]
    eventually(lambda: system.health().actors[0].restarts == 1, "the agent was restarted")

    assert first == ["timed_out", "unavailable", "raised"]
    assert contents_of(ref.run("go", timeout=WAIT)) == ["passed"]
    assert system.hung == 1


def test_a_call_that_would_wait_for_its_own_caller_is_refused(system: us.ActorSystem) -> None:
    class Lead(us.Toolset):
        inner: us.Agent

        @us.tool
        def delegate(self) -> str:
            return self.inner.run("go").text

        @us.tool
        def note(self) -> str:
            return "noted"

    lead = Lead()
    lead.inner = make([lead], calls("note"), id="inner")

    (result,) = results_of(make([lead], calls("delegate"), id="outer").run("go", system=system, timeout=WAIT))

    assert result.error_kind == "raised"
    assert "CircularAgentCall" in result.content


def test_its_calls_may_be_the_caller_s(system: us.ActorSystem) -> None:
    outcome = make([Desk], calls("where") + calls("add", cents=1)).run("go", system=system, timeout=WAIT)

    assert contents_of(outcome) == ["true", "1"]


def test_nothing_keeps_a_toolset_whose_agent_is_gone(system: us.ActorSystem) -> None:
    made: list[Till] = []
    given = Till()
    given.prefix = "given_"
    gone = weakref.ref(given)
    make([partial(Till, made), given], adds(1), calls("given_look")).run("go", system=system)
    kept = weakref.ref(made.pop())
    del given
    gc.collect()

    eventually(lambda: gc.collect() >= 0 and kept() is None and gone() is None, "both are gone")
