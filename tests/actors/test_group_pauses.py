"""Groups whose children wait for a person: how they pause, are saved, and go on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import echo, finished, needs_approval, needs_input
from tests.support.tools import pay
from understudy.testing import FunctionModel, ScriptedModel, calls, says

ASKS = "__ask_user__: "


def asker(id: str) -> us.Agent:
    """Make an agent that asks for a name, and answers with it."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if len(request.messages) == 1:
            return says(f"{ASKS}{id}?")
        return says(f"{id}: {request.messages[-1].text}")

    return us.Agent(id, model=FunctionModel(answer))


def test_a_sequence_goes_on_inside_of_the_step_that_paused_and_then_with_the_others(
    another: Callable[[], us.ActorSystem],
) -> None:
    before = ScriptedModel([says("first")])
    group = us.SequentialAgent("s", [us.Agent("a", model=before), asker("b"), echo("c")], pass_output=True)

    outcome = needs_input(group.run("x", system=another()))
    ended = group.resume(outcome.token, "Ada", system=another())

    assert (outcome.question, outcome.agent_id, outcome.pauses[0].path) == ("b?", "s", ("s", "b"))
    assert ended.text == "c(b: Ada)"
    assert len(before.requests) == 1


def test_the_others_finish_when_a_child_of_a_parallel_group_pauses_and_do_not_run_again(
    another: Callable[[], us.ActorSystem],
) -> None:
    other = ScriptedModel([says("done")])
    group = us.ParallelAgent("p", [asker("a"), us.Agent("b", model=other)])

    outcome = needs_input(group.run("x", system=another()))
    ended = group.resume(outcome.token, "Ada", system=another())

    assert len(other.requests) == 1
    assert ended.combined_text == '["a: Ada", "done"]'


def test_first_pauses_when_nothing_runs_that_may_succeed(another: Callable[[], us.ActorSystem]) -> None:
    bad = us.Agent("bad", model=ScriptedModel([us.BadReply("no")]))
    group = us.ParallelAgent("p", [bad, asker("a")], merge="first")

    outcome = needs_input(group.run("x", system=another()))

    assert group.resume(outcome.token, "Ada", system=another()).text == "a: Ada"


def test_a_pause_three_levels_deep_goes_on_there(another: Callable[[], us.ActorSystem]) -> None:
    flow = us.Workflow(
        "w", [us.Task("ask", asker("deep")), us.Task("use", echo("u"), prompt="${ask}", dependencies=["ask"])]
    )
    panel = us.ParallelAgent("panel", [flow, echo("b")])
    group = us.SequentialAgent("s", [panel, echo("c")], pass_output="combined")

    outcome = needs_input(group.run("x", system=another()))
    ended = group.resume(outcome.token, "Ada", system=another())

    assert outcome.pauses[0].path == ("s", "panel", "w", "deep")
    assert ended.text == 'c(["u(deep: Ada)", "b(x)"])'


def test_a_group_that_is_a_sub_agent_pauses_its_caller(another: Callable[[], us.ActorSystem]) -> None:
    panel = us.ParallelAgent("panel", [us.SequentialAgent("two", [asker("deep")]), echo("b")])

    def lead_says(request: us.ModelRequest) -> us.ModelTurn:
        return calls("panel", input="tides") if len(request.messages) == 1 else says("done")

    lead = us.Agent("lead", model=FunctionModel(lead_says), sub_agents=[panel])

    outcome = needs_input(lead.run("x", system=another()))
    ended = lead.resume(outcome.token, "Ada", system=another())

    assert outcome.pauses[0].path == ("lead", "panel", "two", "deep")
    assert [result.content for result in ended.messages[2].tool_results] == ["b(tides)"]


def test_what_the_session_of_a_paused_child_has_comes_through(another: Callable[[], us.ActorSystem]) -> None:
    @us.tool
    def write(ctx: us.ToolContext, value: str) -> str:
        """Write."""
        ctx.session["x"] = value
        return "written"

    def writes(value: str, asks: bool) -> us.Agent:
        def answer(request: us.ModelRequest) -> us.ModelTurn:
            if len(request.messages) == 1:
                return calls("write", value=value)
            return says(f"{ASKS}name?") if asks and len(request.messages) == 3 else says(value)

        return us.Agent(value, model=FunctionModel(answer), tools=[write])

    session = us.SessionState({"old": "0"})
    group = us.SequentialAgent("s", [writes("one", asks=False), us.ParallelAgent("p", [writes("two", asks=True)])])

    outcome = needs_input(group.run("go", session=session, system=another()))
    assert dict(session) == dict(outcome.session) == {"old": "0", "x": "one"}
    ended = group.resume(outcome.token, "Ada", system=another())

    assert dict(ended.session) == {"old": "0", "x": "two"}


def test_tokens_of_groups_work_once_and_answers_are_checked(system: us.ActorSystem) -> None:
    group = us.ParallelAgent("p", [asker("a"), asker("b")])
    outcome = needs_input(group.run("x", system=system))

    assert system.in_flight == 0
    with pytest.raises(us.AnswerRefused, match="got a text, and 2 questions were asked"):
        group.resume(outcome.token, "Ada", system=system)
    with pytest.raises(ValueError, match="max_turns"):
        group.resume(outcome.token, {pause.id: "Ada" for pause in outcome.pauses}, max_turns=3, system=system)
    with pytest.raises(ValueError, match="belongs to"):
        us.SequentialAgent("s", [echo("a")]).resume(outcome.token, "Ada", system=system)
    ended = group.resume(outcome.token, {pause.id: "Ada" for pause in outcome.pauses}, system=system)
    with pytest.raises(us.TokenUsed):
        group.resume(outcome.token, "Ada", system=system)

    assert json.loads(ended.combined_text or "") == ["a: Ada", "b: Ada"]


def test_a_stored_group_is_held_to_its_definition(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    group = us.SequentialAgent("s", [asker("a"), echo("b")])
    with us.ActorSystem("shop", store=store) as system:
        outcome = needs_input(group.run("x", system=system))
        changed = us.SequentialAgent("s", [asker("a"), echo("c")], pass_output=True)

        with pytest.raises(us.SpecChanged):
            changed.resume(outcome.token, "Ada", system=system)
        ended = changed.resume(outcome.token, "Ada", adopt=True, system=system)

    assert ended.text == "c(a: Ada)"


def test_usage_counts_from_the_beginning_of_the_run(another: Callable[[], us.ActorSystem]) -> None:
    used = us.Usage(input_tokens=10, output_tokens=5)

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        text = f"{ASKS}name?" if len(request.messages) == 1 else "ok"
        return us.ModelTurn(says(text).parts, usage=used)

    group = us.SequentialAgent("s", [us.Agent(id, model=FunctionModel(answer)) for id in ("a", "b")])

    first = needs_input(group.run("x", system=another()))
    second = needs_input(group.resume(first.token, "Ada", system=another()))
    ended = group.resume(second.token, "Ada", system=another())

    assert [each.usage.input_tokens for each in (first, second, ended)] == [10, 30, 40]
    assert [each.turns for each in (first, second, ended)] == [1, 3, 4]


# --- what was too long for models to read


@us.tool(max_result=50)
def report() -> str:
    return "word " * 100


def teller(id: str, *turns: us.ModelTurn) -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns), tools=[report])


def test_what_children_found_too_long_for_their_models_is_in_the_outcome_of_the_group_by_position(
    system: us.ActorSystem,
) -> None:
    inner = us.SequentialAgent("s", [echo("e"), teller("a", calls("report"), says("a"))])
    group = us.ParallelAgent("p", [teller("b", calls("report"), calls("report"), says("b")), inner])

    found = group.run("x", system=system).artifacts

    assert set(found) == {"child/0/artifact-1", "child/0/artifact-2", "child/1/child/1/artifact-1"}
    assert {(id, each.id, each.text) for id, each in found.items()} == {(id, id, "word " * 100) for id in found}


def test_a_group_that_pauses_keeps_what_its_children_found_and_adds_what_the_others_find(
    another: Callable[[], us.ActorSystem],
) -> None:
    late = teller("late", calls("report"), says(f"{ASKS}Which?"), says("late"))
    group = us.ParallelAgent("p", [teller("early", calls("report"), says("early")), late])

    waiting = needs_input(group.run("x", system=another()))
    ended = group.resume(waiting.token, "This", system=another())

    assert list(waiting.artifacts) == ["child/0/artifact-1"]
    assert list(ended.artifacts) == ["child/0/artifact-1", "child/1/artifact-1"]


def test_of_the_first_to_succeed_only_what_it_found_counts(system: us.ActorSystem) -> None:
    failing = us.Agent("bad", model=ScriptedModel([calls("report"), us.BadReply("what?")]), tools=[report])
    group = us.ParallelAgent("p", [failing, teller("b", calls("report"), says("b"))], merge="first", max_parallel=1)

    assert list(group.run("x", system=system).artifacts) == ["child/1/artifact-1"]


def test_an_approval_with_arguments_that_do_not_fit_is_refused_at_any_depth_and_the_token_stands(
    another: Callable[[], us.ActorSystem],
) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("pay", cents=1)
        return says(request.tool_results[0].content.splitlines()[-1])  # behind the line about the changed arguments

    def hand_over(request: us.ModelRequest) -> us.ModelTurn:
        return says(request.tool_results[0].content) if request.tool_results else calls("cashier", input="go")

    cashier = us.Agent("cashier", model=FunctionModel(answer), tools=[pay])
    lead = us.Agent("lead", model=FunctionModel(hand_over), sub_agents=[cashier])
    group = us.SequentialAgent("desk", [us.ParallelAgent("panel", [echo("other"), lead])])
    waiting = needs_approval(group.run("go", system=another()))

    assert [call.name for call in waiting.calls] == ["pay"]
    assert waiting.pauses[0].path == ("desk", "panel", "lead", "cashier")
    with pytest.raises(us.AnswerRefused, match="argument 'nope'"):
        group.resume(waiting.token, us.Approve({"cents": 2, "nope": 1}), system=another())
    outcome = group.resume(waiting.token, {waiting.pauses[0].id: us.Approve({"cents": 2})}, system=another())

    assert finished(outcome).combined_text == '["other(go)", "paid 2"]'


def test_each_group_around_a_run_that_waits_adds_about_the_same_to_its_text(tmp_path: Path) -> None:
    def written(depth: int) -> int:
        runner: us.Agent | us.SequentialAgent = us.Agent(
            "leaf", model=ScriptedModel([calls("pay", cents=1)]), tools=[pay]
        )
        for level in range(depth):
            runner = us.SequentialAgent(f"level-{level}", [runner])
        store = tmp_path / f"{depth}.db"
        with us.ActorSystem("shop", store=f"sqlite:///{store}") as system:
            needs_approval(runner.run("go", system=system))
        with closing(sqlite3.connect(store)) as database:
            (size,) = database.execute("SELECT sum(length(payload)) FROM understudy_pauses").fetchone()
        return int(size)

    flat, three, six = written(0), written(3), written(6)

    assert six - three <= 2 * (three - flat)
