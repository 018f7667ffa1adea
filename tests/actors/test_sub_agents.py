"""Calls of sub-agents: what they give, what they may see and change, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

import understudy as us
from tests.support.scripts import WAIT, busy_threads, eventually, finished, results_of
from tests.support.waiting_runs import tokens_of
from understudy.actors.runs.record import RunRecord
from understudy.actors.system.actor_system import runs_of
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def one(id: str, *turns: us.ModelTurn | Exception, tools: Iterable[us.ToolLike] = ()) -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns), tools=tools)


def lead_of(
    *sub_agents: us.SubAgentLike,
    id: str = "lead",
    turn: us.ModelTurn | None = None,
    tools: Iterable[us.ToolLike] = (),
) -> us.Agent:
    """Make an agent that calls all its sub-agents in one turn, and then says what they gave."""
    made = us.Agent(id, model=ScriptedModel([]), sub_agents=sub_agents, tools=tools)

    def work(request: us.ModelRequest) -> us.ModelTurn:
        if request.tool_results:
            return says(" | ".join(result.content for result in request.tool_results))
        all_of_them = us.ModelTurn(())
        for sub_agent in made.sub_agents:
            all_of_them = all_of_them + calls(sub_agent.name, input=f"task of {sub_agent.name}")
        return all_of_them if turn is None else turn

    return made.replace(model=FunctionModel(work))


def first_result(outcome: us.Outcome) -> us.ToolResult:
    return results_of(outcome)[0]


def echo(id: str) -> us.Agent:
    return us.Agent(id, model=FunctionModel(lambda request: says(f"{id} did: {request.messages[-1].text}")))


# --- what a call gives


def test_the_result_of_a_call_is_what_the_sub_agent_says_in_the_end() -> None:
    outcome = finished(lead_of(echo("researcher")).run("go"))

    assert first_result(outcome) == us.ToolResult("call-1-0", "researcher did: task of researcher", name="researcher")


def test_what_a_sub_agent_says_on_the_way_is_no_part_of_its_result() -> None:
    def look() -> str:
        return "seen"

    writer = one("writer", says("Let me look. ") + calls("look"), says("A draft."), tools=[look])

    assert first_result(lead_of(writer).run("go")).content == "A draft."


def test_several_of_one_turn_run_at_the_same_time_and_their_results_stand_in_call_order() -> None:
    both = threading.Barrier(2)

    def meet() -> str:
        both.wait(WAIT)
        return "met"

    left = one("left", calls("meet"), says("l"), tools=[meet])
    right = one("right", calls("meet"), says("r"), tools=[meet])

    assert finished(lead_of(left, right).run("go")).text == "l | r"


def test_one_sub_agent_may_be_called_twice_in_a_turn_and_stand_under_two_names() -> None:
    writer = echo("writer")
    turn = calls("writer", input="a") + calls("writer", input="b") + calls("draft", input="c")
    lead = lead_of(writer, us.SubAgent(writer, name="draft"), turn=turn)

    assert finished(lead.run("go")).text == "writer did: a | writer did: b | writer did: c"


def test_a_task_begins_without_what_was_said_before() -> None:
    model = ScriptedModel([says("one"), says("two")])
    writer = us.Agent("writer", model=model, system_prompt="You write.")
    lead = us.Agent(
        "lead",
        model=ScriptedModel([calls("writer", input="first"), calls("writer", input="second"), says("Done")]),
        sub_agents=[writer],
    )

    lead.run("a secret")

    assert [[message.text for message in request.messages] for request in model.requests] == [["first"], ["second"]]
    assert [request.system for request in model.requests] == ["You write.", "You write."]


@pytest.mark.parametrize(
    "arguments", [{}, {"input": 7}, {"input": None}, {"input": ["a"]}, {"input": "a", "tone": "warm"}]
)
def test_a_call_that_is_no_task_is_answered_with_what_is_wrong_and_runs_nobody(
    arguments: dict[str, us.JsonValue],
) -> None:
    model = ScriptedModel([says("never")])
    turn = us.ModelTurn((us.ToolCall("a", "writer", arguments),))

    outcome = lead_of(us.Agent("writer", model=model), turn=turn).run("go")

    assert (first_result(outcome).is_error, first_result(outcome).error_kind) == (True, "bad_arguments")
    assert model.requests == []


def test_a_model_in_place_of_a_sub_agents_own_answers_there_too() -> None:
    writer = one("writer")

    with writer.override(model=ScriptedModel([says("overridden")])):
        assert finished(lead_of(writer).run("go")).text == "overridden"


def test_a_sub_agent_that_is_called_as_a_function_runs_by_itself() -> None:
    assert us.SubAgent(echo("writer"))("a task") == "writer did: a task"


def test_the_events_of_a_run_tell_of_its_sub_agents_as_of_tools() -> None:
    events = list(lead_of(echo("writer")).submit("go").events())

    told = [type(event).__name__ for event in events if isinstance(event, (us.ToolStarted, us.ToolFinished))]
    assert told == ["ToolStarted", "ToolFinished"]


# --- what it may see and change


def test_deps_and_the_user_are_those_of_the_run_around_it_and_the_conversation_is_not() -> None:
    def who(ctx: us.ToolContext[str]) -> str:
        return f"{ctx.deps} {ctx.user_id} {ctx.conversation_id}"

    writer = one("writer", calls("who"), says("ok"), tools=[who])

    outcome = lead_of(writer).run("go", deps="a database", user_id="ada", conversation_id="c-1")

    assert finished(outcome).text == "ok"
    assert isinstance(writer.model, ScriptedModel)
    seen = [result.content for result in writer.model.requests[1].tool_results]
    assert seen == ["a database ada None"]


def writing(id: str, key: str, value: str, then: us.ModelTurn | Exception | None = None) -> us.Agent:
    """Make an agent that notes what it finds under a key, writes another value there, and answers with what it found."""

    def note(ctx: us.ToolContext) -> str:
        found = str(ctx.session.get(key))
        ctx.session[key] = value
        return found

    def work(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("note")
        if isinstance(then, Exception):
            raise then
        return says(request.tool_results[0].content) if then is None else then

    return us.Agent(id, model=FunctionModel(work), tools=[note])


def test_what_it_changes_in_the_session_is_committed_with_its_result_in_call_order() -> None:
    session = us.SessionState({"draft": "old", "other": "kept"})
    lead = lead_of(writing("a", "draft", "from a"), writing("b", "draft", "from b"))

    outcome = finished(lead.run("go", session=session))

    assert outcome.text == "old | old"
    assert dict(session) == {"draft": "from b", "other": "kept"}


def test_a_value_that_it_did_not_change_does_not_overwrite_what_another_one_changed() -> None:
    session = us.SessionState({"a": "old", "b": "old"})
    lead = lead_of(writing("first", "a", "new"), writing("second", "b", "new"))

    lead.run("go", session=session)

    assert dict(session) == {"a": "new", "b": "new"}


def test_a_key_that_it_removes_is_removed() -> None:
    def forget(ctx: us.ToolContext) -> str:
        del ctx.session["draft"]
        return "forgotten"

    session = us.SessionState({"draft": "old"})

    lead_of(one("writer", calls("forget"), says("ok"), tools=[forget])).run("go", session=session)

    assert dict(session) == {}


def test_what_a_sub_agent_changed_is_dropped_when_it_fails() -> None:
    session = us.SessionState({"draft": "old"})
    lead = lead_of(writing("a", "draft", "new", then=us.ProviderError("no")))

    outcome = lead.run("go", session=session)

    assert first_result(outcome).is_error
    assert dict(session) == {"draft": "old"}


# --- how it may end otherwise


def test_a_failure_is_an_error_that_the_model_reads_by_its_type_and_no_success() -> None:
    outcome = lead_of(one("writer", us.RateLimited("slow down"))).run("go")

    assert first_result(outcome) == us.ToolResult(
        "call-1-0", "writer failed: RateLimited: slow down", is_error=True, error_kind="raised", name="writer"
    )


def test_a_limit_of_a_sub_agent_is_an_error_and_leaves_no_token_behind() -> None:
    def look() -> str:
        return "seen"

    writer = us.Agent("writer", model=ScriptedModel([calls("look")] * 3), tools=[look], max_iterations=1)

    with us.ActorSystem("limits") as system:
        outcome = lead_of(writer).run("go", system=system)
        kept = len(tokens_of(system))

    assert first_result(outcome).is_error
    assert "MaxIterationsExceeded: agent 'writer' used its 1 rounds" in first_result(outcome).content
    assert kept == 0


def failing(error: Exception) -> us.Agent:
    return us.Agent("writer", model=ScriptedModel([error]))


def limited() -> us.Agent:
    def look() -> str:
        return "seen"

    return us.Agent("writer", model=ScriptedModel([calls("look")]), tools=[look], max_iterations=0)


def never_done() -> us.Agent:
    return us.Agent("writer", model=FunctionModel(lambda _: says("hm")), criteria=[us.KeywordCriteria("DONE")])


@pytest.mark.parametrize(
    ("writer", "kind", "tokens"),
    [
        (failing(us.RateLimited("slow down", retry_after=7.0)), us.RateLimited, 1),
        (failing(us.BadReply("half a turn")), us.BadReply, 0),
        (limited(), us.MaxIterationsExceeded, 1),
        (never_done(), us.UnfinishedRun, 1),
    ],
)
def test_where_errors_of_tools_end_the_run_one_of_a_sub_agent_keeps_its_type(
    writer: us.Agent, kind: type[us.UnderstudyError], tokens: int
) -> None:
    with us.ActorSystem("strict") as system:
        with pytest.raises(us.UnderstudyError) as caught:
            lead_of(writer).replace(on_tool_error="raise").run("go", system=system)
        kept = len(tokens_of(system))

    assert type(caught.value) is kind
    assert bool(caught.value.token) == bool(tokens)
    assert kept == tokens


def test_an_answer_that_met_no_criterion_is_an_error_and_no_success() -> None:
    result = first_result(lead_of(never_done()).run("go"))

    assert result.is_error
    assert "UnfinishedRun" in result.content and "it said last: hm" in result.content


def test_the_limits_of_a_run_are_not_used_up_by_its_sub_agents() -> None:
    def look() -> str:
        return "seen"

    writer = one("writer", *[calls("look")] * 5, says("ok"), tools=[look])

    outcome = finished(lead_of(writer).replace(max_iterations=1, max_turns=2).run("go"))

    assert (outcome.text, outcome.iterations, outcome.turns) == ("ok", 1, 2)


class Hanging:
    """A tool that waits until it is told to stop."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.told = threading.Event()

    def wait(self, ctx: us.ToolContext) -> str:
        """Wait."""
        ctx.scope.on_cancel(self.told.set)
        self.began.set()
        assert self.told.wait(WAIT)
        return "told"


def hanging(id: str) -> tuple[us.Agent, Hanging]:
    tool = Hanging()
    return one(id, calls("wait"), says("never"), tools=[tool.wait]), tool


def test_cancelling_a_run_ends_its_sub_agents() -> None:
    writer, tool = hanging("writer")

    with us.ActorSystem("cancelled") as system:
        handle = lead_of(writer).submit("go", system=system)
        assert tool.began.wait(WAIT)
        assert handle.cancel()
        assert tool.told.wait(WAIT)

        with pytest.raises(us.RunCancelled):
            handle.result(WAIT)
        eventually(lambda: system.in_flight == 0, "neither run is under way")
        eventually(lambda: system.hung == 0, "nothing hangs")


def test_a_runs_deadline_holds_for_its_sub_agents() -> None:
    seen: list[float | None] = []

    def look(ctx: us.ToolContext) -> str:
        seen.append(ctx.scope.remaining())
        return "seen"

    lead_of(one("writer", calls("look"), says("ok"), tools=[us.tool(timeout=None)(look)])).run("go", timeout=WAIT)

    (left,) = seen
    assert left is not None and left <= WAIT


def test_a_deadline_that_passes_inside_of_a_sub_agent_ends_the_run_as_timed_out() -> None:
    writer, tool = hanging("writer")

    with us.ActorSystem("late") as system:
        with pytest.raises(us.RunTimedOut, match="'lead'"):
            lead_of(writer).run("go", timeout=0.2, system=system)
        assert tool.told.wait(WAIT)
        eventually(lambda: system.in_flight == 0, "neither run is under way")


@pytest.mark.parametrize("beside", [(), ("quick",)], ids=["alone", "beside another"])
def test_a_sub_agent_that_takes_too_long_is_ended_and_not_only_waited_for_no_longer(beside: tuple[str, ...]) -> None:
    writer, tool = hanging("writer")
    lead = lead_of(us.SubAgent(writer, timeout=0.2), *[echo(id) for id in beside])

    with us.ActorSystem("slow") as system:
        outcome = finished(lead.run("go", system=system))

        assert tool.told.wait(WAIT)
        eventually(lambda: system.in_flight == 0 and system.hung == 0, "nothing of the sub-agent goes on")
    assert first_result(outcome).error_kind == "timed_out"
    assert first_result(outcome).content == "writer did not return within 0.2 s; it was given up"


def test_a_sub_agent_that_crashes_goes_on_and_so_does_the_call() -> None:
    failures = [RuntimeError("a bug")]

    def prompt(context: us.RunContext) -> str:
        if failures:
            raise failures.pop()
        return "You write."

    writer = us.Agent("writer", model=ScriptedModel([says("A draft.")]), system_prompt=prompt)
    crashed: list[us.SystemEvent] = []

    with us.ActorSystem("bugs") as system:
        system.subscribe(crashed.append, us.RunCrashed)
        outcome = finished(lead_of(writer).run("go", system=system))

    assert outcome.text == "A draft."
    assert [event.address for event in crashed] == ["bugs/writer"]


def test_a_sub_agent_that_fails_for_good_is_an_error_of_its_call_alone() -> None:
    def prompt(context: us.RunContext) -> str:
        raise RuntimeError("a bug")

    writer = us.Agent("writer", model=ScriptedModel([]), system_prompt=prompt)

    outcome = finished(lead_of(writer, echo("other")).run("go"))

    wrong, right = results_of(outcome)
    assert "AgentCrashed" in wrong.content and "a bug" in wrong.content
    assert right.content == "other did: task of other"


def test_sub_agents_are_admitted_however_many_runs_there_may_be() -> None:
    inner = lead_of(echo("a"), echo("b"), id="middle")

    with us.ActorSystem("narrow", max_runs=1) as system:
        assert finished(lead_of(inner).run("go", system=system, timeout=WAIT)).text.startswith("a did")


def test_retries_are_those_of_the_run_around_it() -> None:
    left: list[int | None] = []

    def look(ctx: us.ToolContext) -> str:
        ctx.scope.take_retry()
        left.append(ctx.scope.retries_left)
        return "seen"

    def writer(id: str) -> us.Agent:
        return one(id, calls("look"), says("ok"), tools=[look])

    lead = us.Agent(
        "lead",
        model=ScriptedModel([calls("a", input=""), calls("b", input=""), says("ok")]),
        sub_agents=[writer("a"), writer("b")],
    )
    lead.run("go")

    assert left == [49, 48]


# --- the caller's thread


def test_a_tool_of_a_sub_agent_that_wants_the_callers_thread_gets_it() -> None:
    threads: list[int] = []

    @us.tool(isolation="caller")
    def book() -> str:
        threads.append(threading.get_ident())
        return "booked"

    inner = one("inner", calls("book"), says("ok"), tools=[book])
    lead = lead_of(lead_of(inner, id="middle"))

    assert finished(lead.run("go")).text == "ok"
    assert threads == [threading.get_ident()]
    with pytest.raises(ValueError, match="'book'"):
        lead.submit("go")


def test_a_run_that_such_a_tool_begins_is_inside_of_the_sub_agents_run() -> None:
    caught: list[tuple[str, ...]] = []

    @us.tool(isolation="caller")
    def again() -> str:
        try:
            return inner.run("once more").text
        except us.CircularAgentCall as error:
            caught.append(error.path)
            raise

    inner = one("inner", calls("again"), says("ok"), tools=[again])

    lead_of(inner).run("go")

    assert caught == [("inner", "inner")]


# --- circles


def test_a_runner_reached_again_through_sub_agents_is_refused_with_everyone_on_the_way() -> None:
    caught: list[tuple[str, ...]] = []

    def back() -> str:
        try:
            return lead.run("again").text
        except us.CircularAgentCall as error:
            caught.append(error.path)
            raise

    checker = one("checker", calls("back"), says("went on"), tools=[back])
    writer = us.Agent("writer", model=ScriptedModel([calls("checker", input="?"), says("ok")]), sub_agents=[checker])
    lead = lead_of(writer)

    outcome = lead.run("go")

    assert caught == [("lead", "writer", "checker", "lead")]
    assert finished(outcome).text == "ok"  # whoever called reads of it, and goes on


def test_a_sub_agent_that_is_reached_through_itself_is_an_error_that_names_the_way() -> None:
    def on() -> str:
        return finished(middle.run("on")).text

    writer = one("writer", calls("on"), says("went on"), tools=[on])
    middle = lead_of(writer, id="middle")
    caught: list[us.SystemEvent] = []

    with us.ActorSystem("round") as system:
        system.subscribe(caught.append, us.CircleRefused)
        outcome = lead_of(writer).run("go", system=system)

    assert finished(outcome).text == "went on"
    assert isinstance(writer.model, ScriptedModel)
    (read,) = writer.model.requests[1].tool_results
    assert "writer failed: CircularAgentCall: " in read.content
    assert "writer -> middle -> writer" in read.content
    assert [event.path for event in caught if isinstance(event, us.CircleRefused)] == [("writer", "middle", "writer")]


def test_nesting_has_an_end() -> None:
    agent = echo("level-33")
    for level in range(32, 0, -1):
        agent = lead_of(agent, id=f"level-{level}")

    assert "RunError: runs may wait for one another 32 deep" in finished(agent.run("go")).text


# --- threads


def test_however_deep_sub_agents_are_only_the_innermost_holds_a_thread() -> None:
    asked, go = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        assert go.wait(WAIT)
        return says("deep down")

    depth, nested = 10, us.Agent("level-10", model=FunctionModel(answer))
    for level in range(depth - 1, -1, -1):
        nested = lead_of(nested, id=f"level-{level}")
    with us.ActorSystem("deep") as system:
        before = busy_threads()
        handle = nested.submit("go", system=system)
        assert asked.wait(WAIT)

        assert system.in_flight == depth + 1
        eventually(lambda: busy_threads() <= before + 1, "only the model holds a thread")
        go.set()

        assert finished(handle.result(WAIT)).text == "deep down"


def test_a_run_comes_back_at_once_when_code_that_goes_on_has_ended_its_sub_agent() -> None:
    waits = us.Task("step", one("step", us.BadReply("what?")), retries=1, backoff=(60.0, 60.0))
    steps = us.Workflow("steps", [waits])

    def under_way() -> list[RunRecord]:
        return [each for each in runs_of(system).in_flight() if each.doing == "between children"]

    def end() -> str:
        (record,) = under_way()
        assert record.host.endings.cancel(record)
        return finished(handle.result(WAIT)).text

    with us.ActorSystem("ended") as system:
        handle = lead_of(steps).submit("go", system=system)
        eventually(lambda: len(under_way()) == 1, "the task waits to be run again")
        outcome = one("other", calls("end"), says("ok"), tools=[end]).run("go", system=system)

    assert "RunCancelled" in first_result(outcome).content
    assert not first_result(outcome).is_error
