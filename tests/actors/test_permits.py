"""`allow` and `deny` of a sub-agent: they hold for whatever runs below it, and for nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import understudy as us
from tests.support.process_tools import ask_another
from tests.support.scripts import WAIT, finished
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def other(id: str = "other") -> us.Agent:
    return us.Agent(id, model=FunctionModel(lambda request: says(f"{id} ran")))


Begin = Callable[[us.Agent], str]


def runs(agent: us.Agent) -> str:
    return finished(agent.run("go")).text


def submits(agent: us.Agent) -> str:
    return finished(agent.submit("go").result(WAIT)).text


def runs_in_a_thread(agent: us.Agent) -> str:
    found: list[str | Exception] = []

    def work() -> None:
        try:
            found.append(runs(agent))
        except us.RunError as error:
            found.append(error)

    thread = threading.Thread(target=us.carry(work))
    thread.start()
    thread.join(WAIT)
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result


@dataclass(frozen=True)
class Go(us.Query[str]):
    pass


def has_an_actor_run(agent: us.Agent) -> str:
    class Relay(us.Actor[Go]):
        def on_receive(self, message: Go) -> str:
            try:
                return runs(agent)
            except us.DisallowedAgentCall as error:
                return f"refused: {error}"

    with us.ActorSystem("relays") as relays:
        answer = relays.spawn(Relay).ask(Go(), timeout=WAIT)
    if answer.startswith("refused"):
        raise us.DisallowedAgentCall(answer)
    return answer


def runs_below(agent: us.Agent) -> str:
    """Have another agent run it, which nobody denied."""
    model = ScriptedModel([calls("on"), says("ok")])
    middle = us.Agent("middle", model=model, tools=[us.tool(name="on")(lambda: runs(agent))])
    middle.run("go")
    (result,) = model.requests[1].tool_results
    if result.is_error:
        raise us.DisallowedAgentCall(result.content)
    return result.content


def delegates(agent: us.Agent) -> str:
    model = ScriptedModel([calls(agent.id, input="go"), says("ok")])
    us.Agent("middle", model=model, sub_agents=[agent]).run("go")
    (result,) = model.requests[1].tool_results
    if result.is_error:
        assert "DisallowedAgentCall" in result.content
        raise us.DisallowedAgentCall(result.content)
    return result.content


WAYS = [runs, submits, runs_in_a_thread, has_an_actor_run, runs_below, delegates]


class Outcome:
    """What came of beginning a run in a tool of the sub-agent `writer`."""

    def __init__(self, begin: Begin, agent: us.Agent, **lists: list[str]) -> None:
        self.error: us.DisallowedAgentCall | None = None
        self.text = ""

        def on() -> str:
            try:
                self.text = begin(agent)
            except us.DisallowedAgentCall as error:
                self.error = error
            return "went on"

        writer = us.Agent("writer", model=ScriptedModel([calls("on"), says("ok")]), tools=[on])
        sub_agent = us.SubAgent(writer, name="draft", allow=lists.get("allow"), deny=lists.get("deny", []))
        model = ScriptedModel([calls("draft", input="go"), says("Done.")])
        assert finished(us.Agent("lead", model=model, sub_agents=[sub_agent]).run("go")).text == "Done."


@pytest.mark.parametrize("begin", WAYS)
def test_what_is_denied_is_refused_whoever_begins_it_below(begin: Begin) -> None:
    result = Outcome(begin, other(), deny=["other"])

    assert result.error is not None
    assert "'other' may not run here: sub-agent 'draft' denies it" in str(result.error)


@pytest.mark.parametrize("begin", WAYS)
def test_what_is_not_allowed_is_refused_whoever_begins_it_below(begin: Begin) -> None:
    result = Outcome(begin, other(), allow=["middle"])

    assert result.error is not None
    assert "sub-agent 'draft' allows only 'middle'" in str(result.error)


@pytest.mark.parametrize("begin", WAYS)
def test_what_is_allowed_runs(begin: Begin) -> None:
    assert Outcome(begin, other(), allow=["middle", "other"], deny=["writer"]).text == "other ran"


def test_an_empty_list_allows_nothing_below_and_the_sub_agent_itself_runs() -> None:
    result = Outcome(runs, other(), allow=[])

    assert "allows only none" in str(result.error)


def test_the_error_names_the_way_to_the_one_refused_and_who_refuses() -> None:
    error = Outcome(runs, other(), deny=["other"]).error

    assert error is not None
    assert (error.path, error.by) == (("lead", "writer", "other"), "sub-agent 'draft'")


def test_the_lists_of_all_sub_agents_on_the_way_hold() -> None:
    def through_another(agent: us.Agent) -> str:
        inner = Outcome(runs, agent, allow=["other"])
        if inner.error is not None:
            raise inner.error
        return inner.text

    error = Outcome(through_another, other(), deny=["other"]).error

    assert error is not None
    assert str(error).startswith("'other' may not run here: sub-agent 'draft' denies it")


def test_beside_a_sub_agent_and_after_it_its_lists_do_not_hold() -> None:
    model = ScriptedModel([calls("writer", input="go") + calls("other", input="go") + calls("on"), says("Done.")])
    agent = other()

    def on() -> str:
        return runs(agent)

    writer = us.SubAgent(other("writer"), deny=["other"])
    us.Agent("lead", model=model, sub_agents=[writer, agent], tools=[on]).run("go")

    assert [result.content for result in model.requests[1].tool_results] == ["writer ran", "other ran", "other ran"]
    assert runs(agent) == "other ran"


def test_a_runner_is_told_by_its_id_and_not_by_the_name_of_its_tool() -> None:
    def lead(denied: str) -> str:
        inner = ScriptedModel([calls("renamed", input="go"), says("ok")])
        writer = us.Agent("writer", model=inner, sub_agents=[us.SubAgent(other(), name="renamed")])
        model = ScriptedModel([calls("writer", input="go"), says("Done.")])
        us.Agent("lead", model=model, sub_agents=[us.SubAgent(writer, deny=[denied])]).run("go")
        return inner.requests[1].tool_results[0].content

    assert lead("renamed") == "other ran"
    assert "DisallowedAgentCall" in lead("other")


def test_a_tool_that_was_given_up_is_bound_all_the_same() -> None:
    ended, caught = threading.Event(), threading.Event()
    agent = other()

    def on() -> str:
        assert ended.wait(WAIT)
        try:
            return runs(agent)
        except us.DisallowedAgentCall:
            caught.set()
            raise

    writer = us.Agent("writer", model=ScriptedModel([calls("on")]), tools=[us.tool(timeout=None)(on)])
    model = ScriptedModel([calls("writer", input="go"), says("Done.")])
    lead = us.Agent("lead", model=model, sub_agents=[us.SubAgent(writer, deny=["other"], timeout=0.1)])

    lead.run("go")
    ended.set()

    assert caught.wait(WAIT)


def test_a_tool_in_a_process_is_bound_too() -> None:
    inner = ScriptedModel([calls("ask_another"), says("ok")])
    writer = us.Agent("writer", model=inner, tools=[ask_another])
    model = ScriptedModel([calls("writer", input="go"), says("Done.")])
    us.Agent("lead", model=model, sub_agents=[us.SubAgent(writer, deny=["inner"])]).run("go")

    assert "DisallowedAgentCall: 'inner' may not run here" in inner.requests[1].tool_results[0].content
