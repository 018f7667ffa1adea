"""The examples of potato-spec's page on specs load as they stand there, and mean what the page says."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import understudy as us
from tests.support.spec_examples import (
    ASSISTANT,
    CALLBACKS,
    COMPLETE,
    CRITERIA,
    FORMAT,
    GRAPH,
    IN_MEMORY,
    PARALLEL,
    SEQUENTIAL,
    WINDOWED,
    agent_with,
    agents,
    plan_and_execute,
)
from understudy.testing import FunctionModel, ScriptedModel, says


class MyCallback(us.AgentCallback):
    def __init__(self) -> None:
        self.asked = 0

    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        self.asked += 1
        return us.Continue()


def test_the_format_loads_and_is_what_it_says() -> None:
    loaded = us.load_spec_text(FORMAT)
    summarizer, analyzer = loaded.agent("summarizer"), loaded.agent("analyzer")

    assert loaded.sequential("pipeline").steps == (summarizer, analyzer)
    assert loaded.sequential("pipeline").pass_output is True
    assert (str(summarizer.model), summarizer.max_iterations) == ("anthropic:claude-haiku-4-5", 3)
    assert summarizer.system_prompt == "You are a summarization assistant.\n"
    assert isinstance(summarizer.memory, us.WindowedMemory)
    assert [type(each) for each in summarizer.criteria] == [us.MaxIterationsCriteria, us.KeywordCriteria]
    assert [type(each) for each in summarizer.callbacks] == [us.LoggingCallback]
    assert (analyzer.criteria, analyzer.callbacks, analyzer.tools) == ((), (), ())


@pytest.mark.parametrize(("keys", "kind"), [(WINDOWED, us.WindowedMemory), (IN_MEMORY, us.InMemoryMemory)])
def test_the_memories_load(keys: str, kind: type[us.Memory]) -> None:
    assert type(us.load_spec_text(agent_with(keys)).agent("a").memory) is kind


@pytest.mark.parametrize(
    ("answers", "text", "reason"),
    [
        (["Working", "All DONE"], "All DONE", "keyword"),
        (["Working", "done, but not so", '{"so": 1}'], '{"so": 1}', "structured output"),
    ],
)
def test_the_criteria_end_a_run(answers: list[str], text: str, reason: str) -> None:
    agent = us.load_spec_text(agent_with(CRITERIA)).agent("a")

    with agent.override(model=ScriptedModel([says(answer) for answer in answers])):
        outcome = agent.run("go")

    assert outcome.text == text
    assert reason in outcome.completion_reason
    assert agent.run_spec.max_iterations == 5


def test_the_callbacks_are_called(caplog: pytest.LogCaptureFixture) -> None:
    mine = MyCallback()
    agent = us.load_spec_text(agent_with(CALLBACKS), callbacks={"my_callback": mine}).agent("a")

    with caplog.at_level(logging.INFO), agent.override(model=ScriptedModel([says("Hello.")])):
        agent.run("go")

    assert mine.asked == 1
    assert caplog.records


def test_a_sequence_may_define_its_steps_inline() -> None:
    loaded = us.load_spec_text(agents("summarizer") + SEQUENTIAL)

    assert [step.id for step in loaded.sequential("pipeline").steps] == ["summarizer", "analyzer"]
    assert str(loaded.agent("analyzer").model) == "openai:gpt-4o"


def echo(id: str) -> FunctionModel:
    return FunctionModel(lambda request: says(f"{id}: {request.messages[-1].text}"))


def test_a_parallel_group_collects_all() -> None:
    loaded = us.load_spec_text(agents("sentiment_agent", "summary_agent") + PARALLEL)
    first, second = loaded.agent("sentiment_agent"), loaded.agent("summary_agent")

    with first.override(model=echo("one")), second.override(model=echo("two")):
        outcome = loaded.parallel("multi_analysis").run("x")

    assert isinstance(outcome, us.Complete)
    assert outcome.combined_text == '["one: x", "two: x"]'


def test_a_workflow_binds_its_parameters_and_keeps_to_its_dependencies() -> None:
    loaded = us.load_spec_text(agents("researcher", "writer") + GRAPH)
    researcher, writer = loaded.agent("researcher"), loaded.agent("writer")

    with researcher.override(model=echo("found")), writer.override(model=echo("wrote")):
        outcome = loaded.workflow("dag").run(parameters={"topic": "tides"})

    assert outcome.tasks["fetch"].text == "found: Gather background information on tides"
    research = "found: Gather background information on tides"
    assert (
        outcome.text == f'wrote: <result task="fetch">\n{research}\n</result>\n\nWrite a report based on the research'
    )
    assert loaded.workflow("dag").tasks[1].dependencies == ("fetch",)


def test_a_spec_loads_from_a_string_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "production.yaml"
    file.write_text(ASSISTANT)

    for loaded in (us.load_spec_text(ASSISTANT), us.load_spec(file)):
        assert loaded.agent("assistant").system_prompt == "You are a helpful assistant."


def test_tools_and_callbacks_are_registered_before_loading(tmp_path: Path) -> None:
    file = tmp_path / "production.yaml"
    file.write_text(agent_with(CALLBACKS + "tools: [web_search]\n"))
    mine = MyCallback()

    def web_search(query: str) -> str:
        return query

    loader = us.SpecLoader().register_tool("web_search", web_search).register_callback("my_callback", mine)
    agent = loader.load_file(file).agent("a")

    assert [tool.name for tool in agent.tools] == ["web_search"]
    assert agent.callbacks[-1] is mine


def test_what_was_loaded_is_found_by_its_kind() -> None:
    loaded = us.load_spec_text(
        agents("sentiment_agent", "summary_agent", "researcher", "writer") + PARALLEL + GRAPH[11:]
    )

    found = (loaded.agent("writer"), loaded.parallel("multi_analysis"), loaded.workflow("dag"))
    assert [type(each) for each in found] == [us.Agent, us.ParallelAgent, us.Workflow]
    for find in (loaded.agent, loaded.sequential, loaded.parallel, loaded.workflow):
        with pytest.raises(us.SpecError, match="nobody"):
            find("nobody")


def test_the_complete_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(COMPLETE.replace("provider: openai", "provider: rehearsal").replace("    model: gpt-4o\n", ""))

    plan_and_execute(str(file))

    assert "Write a blog post about Rust" in capsys.readouterr().out
