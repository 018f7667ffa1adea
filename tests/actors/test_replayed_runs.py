"""Runs on real threads, whose lines are written, read again as text and compared with them: at each place, all in all.

`pytest --replay` does the same with the runs of any other test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import pytest

import understudy as us
from tests.support import oracle
from tests.support.random_runs import Play
from tests.support.scripts import needs_approval, needs_input
from tests.support.stores import DictStore
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import GroupLineState, MapLineState
from understudy.orchestration.runs.state import AgentLineState, LineState
from understudy.orchestration.runs.tally import Tally
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.messages import Usage

SOME = Usage(3, 2)


def saying(*turns: us.ModelTurn) -> ScriptedModel:
    return ScriptedModel(list(turns))


def writer(id: str, key: str, **options: Any) -> us.Agent[Any]:
    """Return an agent whose tool counts in the session."""

    def note(ctx: us.ToolContext) -> str:
        count = ctx.session.get(key, 0)
        assert isinstance(count, int)
        ctx.session[key] = count + 1
        ctx.session.pop("gone", None)
        ctx.session["temp:x"] = 1
        return "noted"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        is_done = bool(request.messages[-1].tool_results)
        return us.ModelTurn((says("Done.") if is_done else calls("note")).parts, SOME)

    return us.Agent(id, model=FunctionModel(answer), tools=[note], **options)


def asking(id: str) -> us.Agent[Any]:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says("__ask_user__: Which?", usage=SOME) if len(request.messages) == 1 else says("So.", usage=SOME)

    return us.Agent(id, model=FunctionModel(answer))


class Counting(us.AgentCallback):
    """Counts its moments in the session."""

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[Any]) -> us.Continue:
        count = ctx.session.get("ends", 0)
        assert isinstance(count, int)
        ctx.session["ends"] = count + 1
        return us.Continue()


# --- programs


def prompt(ctx: us.RunContext) -> str:
    ctx.session["begun"] = ctx.session.get("begun", 0)
    return "Be brief."


def tree(system: us.ActorSystem) -> None:
    """A sequence with a sub-agent and a parallel group, which pauses and goes on with other values of the session."""
    first = writer("first", "a", callbacks=[Counting()], system_prompt=prompt)
    beside = us.ParallelAgent("beside", [writer("left", "l"), writer("right", "r"), asking("curious")])
    lead = us.Agent("lead", model=saying(calls("inner", input="Go"), says("Led.")), sub_agents=[writer("inner", "i")])
    chain = us.SequentialAgent("chain", [first, beside, lead])

    paused = needs_input(chain.run("Go", session={"gone": 1, "kept": [1]}, system=system))
    end = chain.resume(paused.token, "this", system=system, session={"kept": [2], "a": 7})

    assert end.session["kept"] == [2] and end.session["i"] == 1


def stored_tree(_: us.ActorSystem) -> None:
    """The same from a store, in another system each time."""
    store = DictStore()
    chain = us.SequentialAgent("chain", [writer("first", "a", callbacks=[Counting()]), asking("curious")])
    with us.ActorSystem("one", store=store) as one:
        paused = needs_input(chain.run("Go", session={"gone": 1}, system=one))
    with us.ActorSystem("two", store=store) as two:
        assert chain.resume(paused.token, "this", system=two).text == "So."


def budgets(system: us.ActorSystem) -> None:
    """A limit of a group, raised after a pause; the price of each turn is known."""
    priced = us.Budget(turns=9, cost_usd=1.0, prices={"FunctionModel": us.Price(input=1.0, output=2.0)})
    chain = us.SequentialAgent("chain", [writer("first", "a"), asking("curious"), writer("last", "b")])
    paused = needs_input(chain.run("Go", budget=priced, system=system))

    end = chain.resume(paused.token, "this", budget=us.Budget(turns=20), system=system)

    assert end.turns == 6 and end.cost_usd is not None


def stored_values(_: us.ActorSystem) -> None:
    """A group and an agent that begin with the values of a user."""
    with us.ActorSystem("shop") as shop:
        writer("first", "user:a").run("Go", user_id="ada", system=shop)
        chain = us.SequentialAgent("chain", [writer("next", "user:a")])
        assert chain.run("Go", user_id="ada", system=shop).session["user:a"] == 2


def nested_runs(system: us.ActorSystem) -> None:
    """A tool that runs another agent, which is no part of the run and is paid by it."""
    inner = us.Agent("inner", model=FunctionModel(lambda _: says("7", usage=SOME)))

    def ask() -> str:
        return inner.run("Go", system=system).text

    outer = us.Agent("outer", model=saying(calls("ask"), says("Seven.", usage=SOME)), tools=[ask])
    assert outer.run("Go", system=system).usage == Usage(6, 4)


def first_wins(system: us.ActorSystem) -> None:
    """A group whose other children are cancelled, though they have spent something."""
    quick = writer("quick", "a")
    group = us.ParallelAgent("race", [quick, writer("slow", "b"), asking("curious")], merge="first")
    assert group.run("Go", system=system).text == "Done."


def cut_calls(system: us.ActorSystem) -> None:
    """A sub-agent that fails beside one that has spent something."""

    def fail(request: us.ModelRequest) -> us.ModelTurn:
        raise us.RateLimited("slow down")

    subs: list[Any] = [us.Agent("broken", model=FunctionModel(fail)), writer("inner", "i")]
    both = calls("inner", input="Go") + calls("broken", input="Go")
    lead = us.Agent("lead", model=saying(both, says("Led.")), sub_agents=subs, on_tool_error="raise")
    with pytest.raises(us.RateLimited) as caught:
        lead.run("Go", system=system)
    with pytest.raises(us.RateLimited):
        lead.resume(caught.value.token, system=system)


def approvals(system: us.ActorSystem) -> None:
    """A decision for a sub-agent of a child."""

    @us.tool(approval=True)
    def pay() -> str:
        return "paid"

    payer = us.Agent("payer", model=saying(calls("pay"), says("Paid.", usage=SOME)), tools=[pay])
    lead = us.Agent("lead", model=saying(calls("payer", input="Go"), says("Led.")), sub_agents=[payer])
    chain = us.SequentialAgent("chain", [writer("first", "a"), lead])
    paused = needs_approval(chain.run("Go", system=system))
    assert chain.resume(paused.token, us.Approve(), system=system).text == "Led."


def maps(system: us.ActorSystem) -> None:
    """A map with an answer, a question, an error and a run that stops short."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        match request.messages[0].text:
            case "ask":
                return says("__ask_user__: Which?", usage=SOME)
            case "fail":
                raise us.BadReply("no")
            case "stop":
                return says("Not yet.", usage=SOME)
            case _:
                return says("Done.", usage=SOME)

    agent = us.Agent("each", model=FunctionModel(answer), criteria=[us.KeywordCriteria("done")], max_continues=0)
    inputs = ["do", "ask", "fail", "stop", "do", "do"]
    for ordered in (True, False):
        found = list(
            agent.map(
                inputs, max_parallel=2, ordered=ordered, keep_errors=True, budget=us.Budget(turns=50), system=system
            )
        )
        assert len(found) == 6
    with pytest.raises(us.BadReply):
        list(agent.map(inputs, system=system))


PROGRAMS: list[Callable[[us.ActorSystem], None]] = [
    tree,
    stored_tree,
    budgets,
    stored_values,
    nested_runs,
    first_wins,
    cut_calls,
    approvals,
    maps,
]


@pytest.fixture
def system() -> Any:
    with us.ActorSystem("replayed") as system:
        yield system


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_the_lines_of_a_program_come_to_its_states_sessions_and_spending(
    program: Callable[[us.ActorSystem], None], system: us.ActorSystem
) -> None:
    with oracle.installed(places=20) as found:
        program(system)

    assert found.differences == []
    assert not found.skipped
    assert found.trees > 0


@pytest.mark.parametrize("seed", range(24))
def test_the_lines_of_a_random_run_come_to_its_states(seed: int) -> None:
    """`python -m tests.soak replays` tries thousands of them."""
    with oracle.installed(places=6) as found:
        Play(seed).perform()

    assert found.differences == []
    assert found.compared > 0 and not found.skipped


# --- faults of replay, which the comparison must notice


def nothing(self: object, *given: object) -> None:
    """Take what is given, and do nothing."""


def taking(state: type[LineState], kind: type[e.RunEvent], take: Callable[[Any, Any], None]) -> Any:
    """Have a state that is replayed take an event in another way; the live run has states of the same class."""
    real = state.table[kind]

    def taken(self: LineState, event: e.RunEvent) -> None:
        (real if self.account.is_live else take)(self, event)

    return patch.object(state, "table", {**state.table, kind: taken})


def without(state: type[LineState], kind: type[e.RunEvent], **fields: Any) -> Any:
    """Have a state take an event as if it had other fields."""
    real = state.table[kind]

    def take(self: Any, event: e.RunEvent) -> None:
        real(self, oracle.with_changes(event, **fields))

    return taking(state, kind, take)


FAULTS: Mapping[str, tuple[Callable[[us.ActorSystem], None], Any]] = {
    "changes of the session are lost": (tree, patch.object(LineState, "lay", nothing)),
    "values that others changed are lost": (tree, patch.object(LineState, "_see", nothing)),
    "values of the opening are lost": (stored_values, without(GroupLineState, e.Opened, session={})),
    "changes of a prompt function are lost": (tree, without(AgentLineState, e.Opened, changes=None)),
    "changes of a child are lost": (tree, without(GroupLineState, e.ChildDone, changes=None)),
    "a parallel group lays nothing over": (tree, taking(GroupLineState, e.Ended, LineState.end)),
    "spending is lost": (tree, patch.object(Tally, "add", nothing)),
    "a limit is lost": (budgets, without(GroupLineState, e.Extended, budget=None)),
    "a turn is lost": (nested_runs, taking(AgentLineState, e.TurnTaken, nothing)),
    "a round begins unnoticed": (nested_runs, taking(AgentLineState, e.RoundBegan, nothing)),
    "a result is lost": (nested_runs, taking(AgentLineState, e.ResultCame, nothing)),
    "a person's answer is lost": (approvals, taking(AgentLineState, e.Answered, nothing)),
    "the run of a sub-agent that stopped is lost": (cut_calls, taking(AgentLineState, e.ChildStopped, nothing)),
    "an answer of a map is lost": (maps, taking(MapLineState, e.HandedOut, nothing)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_replay_is_noticed(fault: str, system: us.ActorSystem) -> None:
    program, fails = FAULTS[fault]
    with fails, oracle.installed() as found:
        program(system)

    assert found.differences
