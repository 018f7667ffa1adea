"""Resumed runs that the runtime cannot go on with: their token is used up, so the error has another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, finished, needs_input, results_of
from tests.support.stores import DictStore
from understudy.testing import ScriptedModel, calls, says

Another = Callable[[], us.ActorSystem]
Runner = us.Agent | us.SequentialAgent
ASKS = says("__ask_user__: Which?")


@dataclass
class Desk:
    """Agents that call a tool, ask a person and answer."""

    noted: list[str] = field(default_factory=list[str])

    def agent(self, *more: us.ModelTurn) -> us.Agent:
        def note(word: str) -> str:
            self.noted.append(word)
            return "noted"

        turns = [calls("note", word="a"), ASKS, *more, says("Done.")]
        return us.Agent("clerk", model=ScriptedModel(turns), tools=[note])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def resumed(runner: Runner, token: str, answer: str | None, system: us.ActorSystem) -> us.UnderstudyError:
    error = runner.submit_resume(token, answer, system=system).exception(WAIT)
    assert isinstance(error, us.UnderstudyError)
    return error


def alone(clerk: us.Agent) -> us.Agent:
    return clerk


def in_group(clerk: us.Agent) -> us.SequentialAgent:
    return us.SequentialAgent("s", [clerk])


def lead_of(clerk: us.Agent) -> us.Agent:
    turns = [calls("clerk", input="x"), says("Done.")]
    return us.Agent("lead", model=ScriptedModel(turns), tools=[us.SubAgent(clerk)], on_tool_error="raise")


@pytest.mark.parametrize(
    "around",
    [alone, in_group, lead_of],
    ids=["alone", "in a group", "as a sub-agent"],
)
def test_a_run_whose_agent_had_stopped_is_resumed_when_the_agent_is_there_again(
    desk: Desk, another: Another, around: Callable[[us.Agent], Runner]
) -> None:
    clerk = desk.agent()
    runner, system = around(clerk), another()
    token = needs_input(runner.run("go", system=system)).token
    system = another()
    system.spawn(clerk).stop()
    down = resumed(runner, token, "This", system)
    again = resumed(runner, down.token, None, system)
    system.spawn(clerk)

    outcome = finished(runner.resume(again.token, system=system))

    assert isinstance(down, us.AgentDown) and isinstance(again, us.AgentDown)
    assert (outcome.text, desk.noted) == ("Done.", ["a"])
    with pytest.raises(us.TokenUsed):
        runner.resume(down.token, system=system)


def test_a_run_that_begins_and_finds_its_agent_stopped_has_no_token(desk: Desk, another: Another) -> None:
    clerk, system = desk.agent(), another()
    system.spawn(clerk).stop()

    error = clerk.submit("go", system=system).exception(WAIT)

    assert isinstance(error, us.AgentDown)
    assert error.token == ""


def test_a_resumed_run_that_keeps_crashing_is_resumed_when_the_fault_is_mended(desk: Desk, another: Another) -> None:
    faults = list[Exception]()

    class Broken(us.AgentCallback):
        def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.Continue:
            if faults:
                raise faults[0]
            return us.Continue()

    clerk = desk.agent().replace(callbacks=[Broken()])
    token = needs_input(clerk.run("go", system=another())).token
    faults.append(LookupError("a bug"))
    error = resumed(clerk, token, "This", another())
    faults.clear()

    outcome = finished(clerk.resume(error.token, system=another()))

    assert isinstance(error, us.AgentCrashed)
    assert (outcome.text, desk.noted) == ("Done.", ["a"])


def test_a_resumed_run_whose_next_pause_cannot_be_stored_at_once_keeps_its_token(desk: Desk) -> None:
    faults, store = list[Exception](), DictStore()

    def fail_once(method: str) -> None:
        if method == "put" and faults:
            raise faults.pop()

    store.on_call = fail_once
    clerk = desk.agent(ASKS)
    with us.ActorSystem("shop", store=store) as system:
        token = needs_input(clerk.run("go", system=system)).token
        faults.append(OSError("the disk is full"))
        error = resumed(clerk, token, "This", system)
        outcome = finished(clerk.resume(error.token, "That", system=system))

    assert isinstance(error, us.StoreError)
    assert ([result.content for result in results_of(outcome)], desk.noted) == (["noted"], ["a"])


# --- refused, because it would wait for itself


def refused_in_conversation(go_on: Callable[[], object], keeper: us.Agent, system: us.ActorSystem) -> BaseException:
    """Have a tool go on with a run of conversation "c", while a run that has the conversation waits for the tool's run."""
    begin, errors, handles = Gate(), list[us.UnderstudyError](), list[us.RunHandle[str]]()

    def try_it() -> str:
        begin()
        try:
            return str(go_on())
        except us.UnderstudyError as error:
            errors.append(error)
            raise

    def wait() -> str:
        begin.open()
        return handles[0].result(WAIT).text

    other = us.Agent("other", model=ScriptedModel([calls("try_it"), says("Done.")]), tools=[try_it])
    handles.append(other.submit("go", system=system))
    assert begin.entered.wait(WAIT)
    keeper = keeper.replace(model=ScriptedModel([calls("wait"), says("Done.")]), tools=[wait])
    keeper.run("go", conversation_id="c", system=system)
    return errors[0]


@pytest.fixture
def memory() -> us.InMemoryMemory:
    return us.InMemoryMemory()


@pytest.fixture
def keeper(memory: us.InMemoryMemory) -> us.Agent:
    return us.Agent("keeper", model=ScriptedModel([]), memory=memory)


def test_a_resumed_run_that_would_wait_for_itself_is_resumed_when_nothing_waits_for_it(
    desk: Desk, another: Another, memory: us.InMemoryMemory, keeper: us.Agent
) -> None:
    clerk = desk.agent().replace(memory=memory)
    token, system = needs_input(clerk.run("go", conversation_id="c", system=another())).token, another()

    error = refused_in_conversation(lambda: clerk.resume(token, "This", system=system), keeper, system)

    assert isinstance(error, us.CircularAgentCall)
    assert finished(clerk.resume(error.token, system=another())).text == "Done."
    assert desk.noted == ["a"]


def test_a_turn_that_would_wait_for_itself_keeps_its_token(
    desk: Desk, memory: us.InMemoryMemory, keeper: us.Agent, system: us.ActorSystem
) -> None:
    clerk = desk.agent().replace(memory=memory)
    token = needs_input(clerk.run("go", conversation_id="c", system=system)).token

    def go_on() -> us.TurnOutcome[str]:
        return clerk.run_turn(token=token, answer="This", system=system)

    error = refused_in_conversation(go_on, keeper, system)
    last = go_on()

    assert isinstance(error, us.CircularAgentCall)
    assert isinstance(last, us.Complete)
    assert (last.text, desk.noted) == ("Done.", ["a"])


@pytest.mark.parametrize("first", [True, False], ids=["a child that waits", "a child that is next"])
def test_a_resumed_group_whose_child_would_wait_for_itself_is_resumed_when_nothing_waits_for_it(
    desk: Desk, another: Another, first: bool
) -> None:
    errors = list[us.CircularAgentCall]()

    def go_on() -> str:
        try:
            return group.resume(token, "This", system=system).text
        except us.CircularAgentCall as error:
            errors.append(error)
            raise

    turns = [calls("go_on"), says("Done."), says("2")]
    caller = us.Agent("caller", model=ScriptedModel([ASKS, *turns] if first else turns), tools=[go_on])
    group = us.SequentialAgent("s", [caller] if first else [desk.agent(), caller])
    token, system = needs_input(group.run("go", system=another())).token, another()

    caller.run("go", system=system)
    outcome = finished(group.resume(errors[0].token, system=another()))

    assert (outcome.text, desk.noted) == ("2", [] if first else ["a"])


def test_a_resumed_group_whose_next_agent_has_stopped_begins_it_when_it_is_there_again(
    desk: Desk, another: Another
) -> None:
    last = us.Agent("last", model=ScriptedModel([says("2")]))
    group = us.SequentialAgent("s", [desk.agent(), last])
    token, system = needs_input(group.run("go", system=another())).token, another()
    system.spawn(last).stop()
    down = resumed(group, token, "This", system)
    system.spawn(last)

    outcome = finished(group.resume(down.token, system=system))

    assert isinstance(down, us.AgentDown)
    assert (outcome.text, desk.noted) == ("2", ["a"])
