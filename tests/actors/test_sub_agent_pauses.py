"""Sub-agents that wait for a person: the run around them waits too, and the answer goes on inside of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, eventually, finished, needs_approval, needs_input, results_of
from tests.support.tools import pay
from tests.support.waiting_runs import tokens_of
from understudy.testing import ScriptedModel, calls, says

ASK = "__ask_user__: "


def agent(
    id: str, *turns: us.ModelTurn | Exception, tools: Iterable[us.ToolLike] = (), below: Iterable[us.SubAgentLike] = ()
) -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns), tools=tools, sub_agents=below)


def asking(id: str, question: str = "Which?", then: str = "ok") -> us.Agent:
    return agent(id, says(ASK + question), says(then))


def paying(id: str, cents: int = 1) -> us.Agent:
    return agent(id, calls("pay", cents=cents), says(f"{id} is done"), tools=[pay])


def lead_of(*below: us.SubAgentLike, tools: Iterable[us.ToolLike] = ()) -> us.Agent:
    """Make an agent that calls all its sub-agents and tools in one turn, and is done then."""
    made = agent("lead", tools=tools, below=below)
    turn = us.ModelTurn(())
    for sub_agent in made.sub_agents:
        turn = turn + calls(sub_agent.name, input="go")
    for tool in made.tools:
        turn = turn + calls(tool.name)
    return made.replace(model=ScriptedModel([turn, says("Done.")]))


def requests(agent: us.Agent) -> list[us.ModelRequest]:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


# --- one pause


def test_a_question_of_a_sub_agent_is_one_of_the_run_and_the_answer_goes_on_inside() -> None:
    writer = asking("writer", "Which tone?", then="A warm draft.")
    lead = lead_of(writer)

    paused = needs_input(lead.run("go"))
    outcome = finished(lead.resume(paused.token, "warm"))

    assert (paused.question, paused.agent_id) == ("Which tone?", "lead")
    assert [(pause.path, pause.question) for pause in paused.pauses] == [(("lead", "writer"), "Which tone?")]
    assert contents_of(outcome) == ["A warm draft."]
    assert outcome.run_id == paused.run_id


def test_a_sub_agent_that_waits_is_no_success_and_no_result_at_all() -> None:
    lead = lead_of(asking("writer"))

    handle = lead.submit("go")
    paused = needs_input(handle.result(WAIT))

    assert results_of(paused) == []
    assert [type(event).__name__ for event in handle.events()][-2:] == ["ToolStarted", "RunFinished"]


def test_a_resumed_sub_agent_remembers_its_task_and_what_it_did() -> None:
    def look() -> str:
        return "seen"

    writer = agent("writer", calls("look"), says(ASK + "Which?"), says("ok"), tools=[look])
    lead = lead_of(writer)

    lead.resume(needs_input(lead.run("go")).token, "this")

    assert [message.text for message in requests(writer)[2].messages] == ["go", "", "", ASK + "Which?", "this"]
    assert [result.content for result in requests(writer)[2].messages[2].tool_results] == ["seen"]


def test_an_approval_inside_of_a_sub_agent_is_decided_from_outside() -> None:
    lead = lead_of(paying("writer"))

    paused = needs_approval(lead.run("go"))
    outcome = finished(lead.resume(paused.token, us.Approve(arguments={"cents": 5})))

    assert [(call.name, call.arguments) for call in paused.calls] == [("pay", {"cents": 1})]
    assert contents_of(outcome) == ["writer is done"]


def test_the_decision_reaches_the_call_that_waits() -> None:
    writer = paying("writer")
    lead = lead_of(writer)

    paused = needs_approval(lead.run("go"))
    lead.resume(paused.token, {paused.calls[0].id: us.Reject("too much")})

    assert requests(writer)[1].tool_results[0].content == "Rejected: too much"


def test_a_model_of_a_sub_agent_may_ask_with_the_tool_for_it() -> None:
    writer = agent("writer", calls("ask_user", question="Which?"), says("ok"), tools=[us.ask_user])
    lead = lead_of(writer)

    finished(lead.resume(needs_input(lead.run("go")).token, "this"))

    assert requests(writer)[1].tool_results[0].content == "this"


def test_a_sub_agent_may_wait_again() -> None:
    lead = lead_of(agent("writer", says(ASK + "One?"), says(ASK + "Two?"), says("ok")))

    one = needs_input(lead.run("go"))
    two = needs_input(lead.resume(one.token, "1"))
    outcome = finished(lead.resume(two.token, "2"))

    assert (one.question, two.question, contents_of(outcome)) == ("One?", "Two?", ["ok"])
    assert one.token != two.token


def test_a_token_of_a_run_with_sub_agents_works_once_and_is_the_only_one() -> None:
    writer = asking("writer")
    lead = lead_of(writer)

    with us.ActorSystem("tokens") as system:
        paused = needs_input(lead.run("go", system=system))
        kept = len(tokens_of(system))
        with pytest.raises(ValueError, match="belongs to 'lead'"):
            writer.resume(paused.token, "this", system=system)
        lead.resume(paused.token, "this", system=system)
        with pytest.raises(us.TokenUsed):
            lead.resume(paused.token, "this", system=system)

    assert kept == 1


# --- depth


def test_a_question_three_levels_down_names_the_way_and_its_answer_finds_it() -> None:
    checker = asking("checker", "True?", then="It is true.")
    writer = agent("writer", calls("checker", input="?"), says("A draft."), below=[checker])
    editor = agent("editor", calls("writer", input="?"), says("An edition."), below=[writer])
    lead = lead_of(editor)

    paused = needs_input(lead.run("go"))
    outcome = finished(lead.resume(paused.token, "yes"))

    assert [pause.path for pause in paused.pauses] == [("lead", "editor", "writer", "checker")]
    assert requests(checker)[1].messages[-1].text == "yes"
    assert requests(writer)[1].tool_results[0].content == "It is true."
    assert contents_of(outcome) == ["An edition."]


# --- several pauses


def test_all_others_of_the_turn_end_first_and_are_not_done_again() -> None:
    ran: list[str] = []

    def look() -> str:
        ran.append("look")
        return "seen"

    quick = agent("quick", calls("look"), says("quick is done"), tools=[look])
    lead = lead_of(asking("writer"), quick, tools=[look])

    paused = needs_input(lead.run("go"))
    assert ran == ["look", "look"]
    outcome = finished(lead.resume(paused.token, "this"))

    assert contents_of(outcome) == ["ok", "quick is done", "seen"]
    assert ran == ["look", "look"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "the last one first"])
def test_two_that_wait_are_answered_one_after_the_other_each_with_a_token(order: tuple[int, int]) -> None:
    left, right = asking("left", "Left?", then="l"), asking("right", "Right?", then="r")
    lead = lead_of(left, right)
    first, second = order

    both = needs_input(lead.run("go"))
    one = needs_input(lead.resume(both.token, {both.pauses[first].id: "this"}))
    outcome = finished(lead.resume(one.token, "that"))

    assert [pause.question for pause in both.pauses] == ["Left?", "Right?"]
    assert [pause.id for pause in one.pauses] == [both.pauses[second].id]
    assert contents_of(outcome) == ["l", "r"]
    assert [len(requests(left)), len(requests(right))] == [2, 2]


def test_two_that_wait_are_answered_at_once() -> None:
    lead = lead_of(asking("left", then="l"), paying("right"))

    both = needs_input(lead.run("go"))
    answers: dict[str, us.PauseAnswer] = {both.pauses[0].id: "this", both.pauses[1].id: us.Approve()}

    assert contents_of(finished(lead.resume(both.token, answers))) == ["l", "right is done"]


def test_two_calls_of_one_sub_agent_wait_apart() -> None:
    class Repeats:
        """Asks about its task, and then repeats task and answer; it is asked by two runs in turns."""

        def complete(self, request: us.ModelRequest) -> us.ModelTurn:
            texts = [message.text for message in request.messages if message.role == "user"]
            return says(f"{ASK}{texts[0]}?") if len(texts) == 1 else says(" ".join(texts))

    writer = us.Agent("writer", model=Repeats())
    turn = calls("writer", input="a") + calls("writer", input="b") + calls("draft", input="c")
    lead = agent("lead", turn, says("Done."), below=[writer, us.SubAgent(writer, name="draft")])

    three = needs_input(lead.run("go"))
    two = needs_input(lead.resume(three.token, {three.pauses[1].id: "second"}))
    outcome = finished(lead.resume(two.token, {two.pauses[0].id: "first", two.pauses[1].id: "third"}))

    assert [pause.question for pause in three.pauses] == ["a?", "b?", "c?"]
    assert contents_of(outcome) == ["a first", "b second", "c third"]


def test_of_what_one_sub_agent_waits_for_a_part_may_be_answered() -> None:
    both = calls("ask_user", question="Which?") + calls("pay", cents=1)
    writer = agent("writer", both, says("ok"), tools=[us.ask_user, pay])
    lead = lead_of(writer)

    first = needs_approval(lead.run("go"))
    approval, question = first.pauses
    second = needs_input(lead.resume(first.token, {approval.id: us.Approve()}))
    outcome = finished(lead.resume(second.token, "this"))

    assert [pause.id for pause in second.pauses] == [question.id]
    assert [result.content for result in requests(writer)[1].tool_results] == ["this", "paid 1"]
    assert contents_of(outcome) == ["ok"]


def test_what_the_run_waits_for_itself_stands_before_what_its_sub_agents_wait_for() -> None:
    @us.tool(approval=True)
    def send() -> str:
        return "sent"

    lead = lead_of(asking("writer"), tools=[send])

    first = needs_approval(lead.run("go"))
    second = needs_input(lead.resume(first.token, us.Approve()))
    outcome = finished(lead.resume(second.token, "this"))

    assert [pause.path for pause in first.pauses] == [("lead",), ("lead", "writer")]
    assert contents_of(outcome) == ["ok", "sent"]


@pytest.mark.parametrize("answer", [us.Approve(), None, {"child/nobody/question": "this"}])
def test_an_answer_that_does_not_fit_is_refused_and_the_token_stands(answer: us.Decision | None) -> None:
    lead = lead_of(asking("writer"))
    paused = needs_input(lead.run("go"))

    with pytest.raises((TypeError, us.ProtocolViolation)):
        lead.resume(paused.token, answer)

    assert finished(lead.resume(paused.token, "this")).text == "Done."


def test_a_failure_that_ends_the_run_ends_it_also_where_another_one_waits() -> None:
    lead = lead_of(asking("writer"), agent("other", us.RateLimited("slow down"))).replace(on_tool_error="raise")

    with pytest.raises(us.RateLimited):
        lead.run("go")


# --- what goes on with it


def noting(id: str, *after: us.ModelTurn | Exception) -> us.Agent:
    """Make an agent that notes in the session, asks, and goes on."""

    def note(ctx: us.ToolContext) -> str:
        found = ctx.session.pop("draft", None)
        ctx.session["noted"] = f"{found} by {ctx.deps}"
        return "noted"

    return agent(id, calls("note"), says(ASK + "Which?"), *after, tools=[note])


def test_what_it_changed_in_the_session_before_it_waited_is_committed_with_its_result() -> None:
    session = us.SessionState({"draft": "old", "other": "kept"})
    lead = lead_of(noting("writer", says("ok")))

    paused = needs_input(lead.run("go", session=session, deps="ada"))
    assert dict(session) == {"draft": "old", "other": "kept"}
    lead.resume(paused.token, "this")

    assert dict(session) == {"other": "kept", "noted": "old by ada"}


def test_what_others_changed_while_it_waited_is_kept() -> None:
    def change(ctx: us.ToolContext) -> str:
        ctx.session["other"] = "changed"
        return "ok"

    session = us.SessionState({"other": "old"})
    lead = lead_of(noting("writer", says("ok")), tools=[change])

    lead.resume(needs_input(lead.run("go", session=session)).token, "this")

    assert session["other"] == "changed"


def test_what_it_changed_is_dropped_when_it_fails_after_it_waited() -> None:
    session = us.SessionState({"draft": "old"})
    lead = lead_of(noting("writer", us.RateLimited("slow down")))

    outcome = finished(lead.resume(needs_input(lead.run("go", session=session)).token, "this"))

    assert contents_of(outcome) == ["writer failed: RateLimited: slow down"]
    assert dict(session) == {"draft": "old"}


def test_deps_are_given_again_and_reach_the_sub_agent() -> None:
    def whose(ctx: us.ToolContext[str]) -> str:
        return ctx.deps

    writer = agent("writer", says(ASK + "Go on?"), calls("whose"), says("ok"), tools=[whose])
    lead = lead_of(writer)

    lead.resume(needs_input(lead.run("go", deps="first")).token, "yes", deps="second")

    assert requests(writer)[2].tool_results[0].content == "second"


def test_a_sub_agent_that_goes_on_is_cancelled_with_the_run_and_has_its_deadline() -> None:
    began, told = threading.Event(), threading.Event()

    def hang(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        began.set()
        assert told.wait(WAIT)
        return "told"

    lead = lead_of(agent("writer", says(ASK + "Go on?"), calls("hang"), tools=[hang]))

    with us.ActorSystem("later") as system:
        paused = needs_input(lead.run("go", system=system))
        with pytest.raises(us.RunTimedOut, match="'lead'"):
            lead.resume(paused.token, "yes", timeout=0.2, system=system)
        assert began.is_set() and told.wait(WAIT)
        eventually(lambda: system.in_flight == 0 and system.hung == 0, "nothing goes on")


def test_the_lists_of_a_sub_agent_hold_when_it_goes_on() -> None:
    other = agent("other", says("never"))

    def on() -> str:
        return finished(other.run("go")).text

    writer = agent("writer", says(ASK + "Go on?"), calls("on"), says("ok"), tools=[on])
    lead = lead_of(us.SubAgent(writer, deny=["other"]))

    lead.resume(needs_input(lead.run("go")).token, "yes")

    assert "DisallowedAgentCall" in requests(writer)[2].tool_results[0].content


def test_a_sub_agent_that_a_tool_runs_waits_for_whoever_ran_it() -> None:
    writer = asking("writer")

    def ask() -> str:
        return writer.run("go").completion_reason

    lead = lead_of(tools=[ask])

    assert contents_of(finished(lead.run("go"))) == ["it waits for an answer to: Which?"]


# --- in another process


def team() -> us.Agent:
    """Make the same definitions as every other time, as another process does; its models answer what is left to say."""

    class Scripted:
        """Knows from the history alone where it is."""

        def __init__(self, *turns: us.ModelTurn) -> None:
            self._turns = turns

        def complete(self, request: us.ModelRequest) -> us.ModelTurn:
            return self._turns[sum(message.role == "assistant" for message in request.messages)]

    checker = us.Agent("checker", model=Scripted(says(ASK + "True?"), says("true")))
    left = us.Agent("left", model=Scripted(calls("checker", input="?"), says("l")), sub_agents=[checker])
    right = us.Agent("right", model=Scripted(calls("pay", cents=7), says("r")), tools=[pay])
    both = calls("left", input="go") + calls("right", input="go")
    return us.Agent("lead", model=Scripted(both, says("Done.")), sub_agents=[left, right])


def test_a_run_with_sub_agents_goes_on_in_another_system_with_definitions_made_anew(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with us.ActorSystem("one", store=store) as one:
        both = needs_input(team().run("go", system=one))
    with us.ActorSystem("two", store=store) as two:
        rest = needs_approval(team().resume(both.token, {both.pauses[0].id: "yes"}, system=two))
    with us.ActorSystem("three", store=store) as three:
        outcome = finished(team().resume(rest.token, us.Approve(), system=three))

    assert [pause.path for pause in both.pauses] == [("lead", "left", "checker"), ("lead", "right")]
    assert [pause.path for pause in rest.pauses] == [("lead", "right")]
    assert contents_of(outcome) == ["l", "r"]


def test_a_run_is_refused_when_the_definition_of_a_sub_agent_has_changed(tmp_path: Path) -> None:
    lead = team()
    with us.ActorSystem("one", store=f"sqlite:///{tmp_path / 'runs.db'}") as one:
        paused = needs_input(lead.run("go", system=one))
        left, right = lead.sub_agents
        assert isinstance(left.runner, us.Agent)
        changed = lead.replace(sub_agents=[left.runner.replace(system_prompt="Be brief."), right])

        with pytest.raises(us.SpecChanged, match="'lead'"):
            changed.resume(paused.token, "yes", system=one)
