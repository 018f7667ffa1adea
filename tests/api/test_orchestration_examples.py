"""The examples of potato-agent's page on orchestration, by its headings, with scripted models."""

from __future__ import annotations

import json
import threading

import pytest

import understudy as us
from tests.support.orchestration_examples import (
    ANSWERS,
    parallel_agent,
    parallel_step_inside_a_sequential_pipeline,
    sequential_agent,
    sequential_steps_inside_a_parallel_agent,
)
from tests.support.scripts import WAIT
from understudy.orchestration.group.spec import PassOutput
from understudy.testing import FunctionModel, ScriptedModel, calls, says


class Cast:
    """Models by agent: each says its line, and remembers what it was asked."""

    def __init__(self, **lines: list[us.ModelTurn]) -> None:
        self.names: dict[str, str] = {}
        self._models = {id: ScriptedModel(lines.get(id, [says(text)])) for id, text in ANSWERS.items()}

    def __call__(self, id: str, name: str) -> us.Model:
        self.names[id] = name
        return self._models[id]

    def told(self, id: str) -> list[str]:
        """Return what an agent was told last, of all messages but its own."""
        last = self._models[id].requests[-1]
        return [message.text for message in last.messages if message.role == "user"]


# --- The AgentRunner Trait


def writes(id: str, key: str) -> us.Agent:
    """Make an agent whose tool writes to the session, and which says what it found there."""

    @us.tool
    def write(ctx: us.ToolContext) -> str:
        """Write."""
        found = json.dumps(dict(ctx.session), sort_keys=True)
        ctx.session[key] = id
        return found

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(request.tool_results[0].content) if request.tool_results else calls("write")

    return us.Agent(id, model=FunctionModel(answer), tools=[write])


def asks(id: str) -> us.Agent:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(f"__ask_user__: {id}?") if len(request.messages) == 1 else says(request.text)

    return us.Agent(id, model=FunctionModel(answer))


def one_of_each() -> list[us.Agent | us.SequentialAgent | us.ParallelAgent | us.Workflow]:
    return [
        asks("a"),
        us.SequentialAgent("s", [asks("a")]),
        us.ParallelAgent("p", [asks("a")]),
        us.Workflow("w", [us.Task("t", asks("a"))]),
    ]


@pytest.mark.parametrize("runner", one_of_each(), ids=lambda runner: runner.id)
def test_every_agent_and_orchestrator_has_an_id_runs_and_goes_on(
    runner: us.Agent | us.SequentialAgent | us.ParallelAgent | us.Workflow,
) -> None:
    session = us.SessionState({"key": "value"})

    paused = runner.run("input", session=session)
    assert isinstance(paused, us.NeedsInput)
    outcome = runner.resume(paused.token, "the answer")

    assert (paused.agent_id, paused.question, outcome.text) == (runner.id, "a?", "the answer")
    assert dict(outcome.session) == {"key": "value"}


# --- SequentialAgent


def test_a_pipeline_hands_the_planners_output_to_the_executor(capsys: pytest.CaptureFixture[str]) -> None:
    cast = Cast()

    sequential_agent(cast)

    assert capsys.readouterr().out == "Rust is a language.\n"
    assert cast.told("planner") == ["Write a blog post about Rust"]
    assert cast.told("executor") == ["1. Outline. 2. Write."]
    assert cast.names == {"planner": "gpt-4o", "executor": "gpt-4o"}


def test_what_one_agent_writes_to_the_session_the_next_one_reads() -> None:
    session = us.SessionState()

    outcome = us.SequentialAgent("s", [writes("a", "first"), writes("b", "second")]).run("x", session=session)

    assert outcome.text == '{"first": "a"}'
    assert dict(session) == {"first": "a", "second": "b"}


# --- pass_output


@pytest.mark.parametrize(("pass_output", "expected"), [(False, "b(x)"), (True, "b(a(x))")])
def test_what_each_agent_is_told_follows_pass_output(pass_output: bool, expected: str) -> None:
    a, b = [us.Agent(id, model=FunctionModel(lambda r, id=id: says(f"{id}({r.text})"))) for id in "ab"]  # type: ignore[misc]

    assert us.SequentialAgent("s", [a, b], pass_output=pass_output).run("x").text == expected


# --- NeedsInput propagation


def test_a_question_stops_the_pipeline_and_its_answer_goes_on_with_the_agent_that_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cast = Cast(planner=[says("__ask_user__: For whom?"), says("1. For children.")])

    sequential_agent(cast, answer="For children")

    assert capsys.readouterr().out.splitlines() == ["Pipeline needs input: For whom?", "Rust is a language."]
    assert cast.told("planner") == ["Write a blog post about Rust", "For children"]
    assert cast.told("executor") == ["1. For children."]


# --- ParallelAgent


def test_a_parallel_agent_collects_all_responses(capsys: pytest.CaptureFixture[str]) -> None:
    cast = Cast()

    parallel_agent(cast)

    assert capsys.readouterr().out == 'All responses: ["positive", "Rust adds something."]\n'
    assert cast.told("sentiment") == cast.told("summary") == ["The new Rust release adds..."]
    assert cast.names == {"sentiment": "gpt-4o-mini", "summary": "gpt-4o"}


# --- MergeStrategy


def test_the_final_response_of_collect_all_is_the_last_agents() -> None:
    agents = [us.Agent(id, model=ScriptedModel([says(id)])) for id in ("one", "two")]

    outcome = us.ParallelAgent("p", agents).run("x")

    assert (outcome.text, json.loads(outcome.combined_text or "")) == ("two", ["one", "two"])


def test_first_returns_the_first_to_complete_and_cancels_the_others() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def hang(request: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        scope.on_cancel(cancelled.set)
        begun.set()
        assert cancelled.wait(WAIT)
        return says("late")

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert begun.wait(WAIT)  # else the other one might never begin, and there would be nothing to cancel
        return says("quick")

    slow, quick = us.Agent("slow", model=FunctionModel(hang)), us.Agent("quick", model=FunctionModel(answer))

    outcome = us.ParallelAgent("p", [slow, quick], merge="first").run("x")

    assert (outcome.text, outcome.combined_text) == ("quick", None)
    assert cancelled.wait(WAIT)


# --- Session state in parallel agents


def test_parallel_agents_do_not_see_one_anothers_writes_and_all_are_merged() -> None:
    session = us.SessionState({"given": 1})
    agents = [writes("a", "first"), writes("b", "second"), writes("c", "second")]

    outcome = us.ParallelAgent("p", agents, max_parallel=1).run("x", session=session)

    assert json.loads(outcome.combined_text or "") == ['{"given": 1}'] * 3
    assert dict(session) == {"given": 1, "first": "a", "second": "c"}


# --- NeedsInput in parallel agents


def test_only_the_agent_that_asked_goes_on_in_a_parallel_agent() -> None:
    model = ScriptedModel([says("done")])
    parallel = us.ParallelAgent("p", [asks("a"), us.Agent("b", model=model)])

    paused = parallel.run("x")
    assert isinstance(paused, us.NeedsInput)
    outcome = parallel.resume(paused.token, "the answer")

    assert outcome.combined_text == '["the answer", "done"]'
    assert len(model.requests) == 1


# --- Parallel step inside a sequential pipeline


@pytest.mark.parametrize(
    ("pass_output", "told"),
    [
        (True, "Found in the knowledge base."),
        ("combined", '["Found on the web.", "Found in the database.", "Found in the knowledge base."]'),
    ],
)
def test_a_parallel_step_hands_on_its_last_text_or_all_of_them(
    capsys: pytest.CaptureFixture[str], pass_output: PassOutput, told: str
) -> None:
    cast = Cast()

    parallel_step_inside_a_sequential_pipeline(cast, pass_output)

    assert capsys.readouterr().out == "All of it agrees.\n"
    assert cast.told("synthesizer") == [told]


# --- Sequential steps inside a parallel agent


def test_two_pipelines_run_beside_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    cast = Cast()

    sequential_steps_inside_a_parallel_agent(cast)

    assert capsys.readouterr().out == '["a2 is done.", "b2 is done."]\n'
    assert [cast.told(id) for id in ("step_a1", "step_a2", "step_b1", "step_b2")] == [
        ["Begin"],
        ["a1 is done."],
        ["Begin"],
        ["b1 is done."],
    ]


# --- Sub-Agents via Tools


def test_an_agent_decides_which_sub_agent_to_call() -> None:
    called, left = ScriptedModel([says("It adds tides.")]), ScriptedModel([])
    sub_agents = [us.Agent("summary", model=called), us.Agent("sentiment", model=left)]
    model = ScriptedModel([calls("summary", input="the release"), says("done")])
    lead = us.Agent("lead", model=model, sub_agents=sub_agents)

    outcome = us.SequentialAgent("s", [lead]).run("x")

    assert outcome.text == "done"
    assert model.requests[1].tool_results[0].content == "It adds tides."
    assert [request.text for request in called.requests] == ["the release"]
    assert left.requests == []
