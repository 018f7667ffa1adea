"""Sub-agents as part of a definition, and a run with sub-agents that is driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from understudy.orchestration import Agent, AgentRun, AwaitInput, CallModel, CallTools, Done, RunSpec, SubAgent
from understudy.orchestration.definitions.sub_agent import tool_name
from understudy.providers import ScriptedModel
from understudy.vocabulary.messages import JsonObject, ModelTurn, ToolCall, ToolResult, ToolSpec, calls, says
from understudy.vocabulary.models import Model

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "input": {
            "type": "string",
            "description": "the task, with all that is needed to do it; nothing else of this conversation is passed on",
        }
    },
    "required": ["input"],
    "additionalProperties": False,
}


def agent(id: str = "writer", **options: Any) -> Agent:
    model: Model = ScriptedModel([])
    return Agent(id, model=model, **options)


# --- what the model is told


def test_a_sub_agent_is_offered_as_a_tool_after_the_tools() -> None:
    def look() -> str:
        """Look."""
        return ""

    lead = agent(
        "lead",
        tools=[look],
        sub_agents=[agent("researcher", description="Finds facts."), SubAgent(agent(), description="Writes drafts.")],
    )

    assert [tool.name for tool in lead.tools] == ["look"]
    assert RunSpec.of(lead).tools[1:] == (
        ToolSpec("researcher", "Finds facts.", SCHEMA),
        ToolSpec("writer", "Writes drafts.", SCHEMA),
    )


def test_the_model_is_told_something_of_an_agent_without_a_description() -> None:
    assert SubAgent(agent()).spec.description == "Does tasks that are for 'writer'."


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("writer", "writer"),
        ("fact checker", "fact_checker"),
        ("v1.2/writer", "v1_2_writer"),
        ("2nd writer", "_2nd_writer"),
        ("-writer", "_-writer"),
        ("Übersetzer", "_bersetzer"),
        ("w" * 100, "w" * 64),
    ],
)
def test_an_id_becomes_a_name_that_every_provider_takes(id: str, name: str) -> None:
    assert tool_name(id) == name
    assert SubAgent(agent(id)).name == name


def test_a_forced_choice_may_be_a_sub_agent() -> None:
    from understudy.vocabulary.messages import Settings

    lead = agent("lead", sub_agents=[agent()], settings=Settings(tool_choice="writer"))

    assert lead.settings.tool_choice == "writer"


def test_one_agent_may_stand_under_two_names() -> None:
    writer = agent()

    lead = agent("lead", sub_agents=[writer, SubAgent(writer, name="draft")])

    assert [(each.name, each.runner) for each in lead.sub_agents] == [("writer", writer), ("draft", writer)]


def test_a_sub_agent_among_the_tools_is_a_sub_agent_all_the_same() -> None:
    draft = SubAgent(agent(), name="draft")

    lead = agent("lead", tools=[look_writer, draft])

    assert ([tool.name for tool in lead.tools], lead.sub_agents) == (["look_writer"], (draft,))


def test_a_changed_copy_has_the_same_sub_agents() -> None:
    lead = agent("lead", sub_agents=[agent()])

    assert lead.replace(max_turns=3).sub_agents == lead.sub_agents
    assert lead.replace(sub_agents=[]).sub_agents == ()


# --- what is refused when it is made


def look_writer() -> str:
    return ""


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: agent("lead", sub_agents=agent()), TypeError, "sub_agents must be a list"),
        (lambda: agent("lead", sub_agents="writer"), TypeError, "sub_agents must be a list"),
        (lambda: agent("lead", sub_agents=SubAgent(agent())), TypeError, "sub_agents must be a list"),
        (lambda: agent("lead", sub_agents=None), TypeError, "sub_agents must be a list"),
        (lambda: agent("lead", sub_agents=["writer"]), TypeError, "must hold agents"),
        (lambda: agent("lead", sub_agents=[look_writer]), TypeError, "must hold agents"),
        (lambda: agent("lead", sub_agents=[agent(), agent()]), ValueError, "two tools are named 'writer'"),
        (
            lambda: agent("lead", tools=[look_writer], sub_agents=[SubAgent(agent(), name="look_writer")]),
            ValueError,
            "two tools are named 'look_writer'",
        ),
        (lambda: agent("lead", sub_agents=[agent("a b"), agent("a_b")]), ValueError, "two tools are named 'a_b'"),
        (lambda: SubAgent(cast("Agent", "writer")), TypeError, "is made from an agent"),
        (lambda: SubAgent(cast("Agent", SubAgent(agent()))), TypeError, "is made from an agent"),
        (lambda: SubAgent(agent(), name="a b"), ValueError, "tool name 'a b'"),
        (lambda: SubAgent(agent(), name=""), ValueError, "tool name ''"),
        (lambda: SubAgent(agent(), name=cast(str, 7)), TypeError, "name must be a string"),
        (lambda: SubAgent(agent(), description=cast(str, 7)), TypeError, "description must be a string"),
        (lambda: SubAgent(agent(), timeout=0), ValueError, "timeout must be above 0"),
        (lambda: SubAgent(agent(), timeout=cast(float, "7")), TypeError, "timeout must be a number"),
        (lambda: SubAgent(agent(), allow="checker"), TypeError, "allow must be a list of ids"),
        (lambda: SubAgent(agent(), deny="checker"), TypeError, "deny must be a list of ids"),
        (lambda: SubAgent(agent(), deny=cast("list[str]", None)), TypeError, "deny must be a list of ids"),
        (lambda: SubAgent(agent(), allow=cast("list[str]", [agent("x")])), TypeError, "write 'x'"),
        (lambda: SubAgent(agent(), deny=cast("list[str]", [7])), TypeError, "must be a string"),
        (lambda: SubAgent(agent(), deny=[""]), ValueError, "1 to 128 characters"),
        (lambda: SubAgent(agent(), allow=["a", "b"], deny=["b"]), ValueError, "'b' cannot be both"),
    ],
)
def test_a_mistake_is_refused_before_anything_runs(
    make: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make()


# --- saved runs


def test_a_sub_agents_definition_is_part_of_the_fingerprint() -> None:
    def lead(writer: Agent) -> str:
        return RunSpec.of(agent("lead", sub_agents=[SubAgent(writer, name="w", description="d")])).fingerprint()

    assert lead(agent()) == lead(agent())
    assert lead(agent()) != lead(agent(system_prompt="Be brief."))
    assert lead(agent()) != lead(agent(sub_agents=[agent("deeper")]))


# --- by hand


class ByHand:
    """Drives a run and those inside of it, each loaded anew from its text before every step."""

    def __init__(self, *turns: tuple[str, ModelTurn], below: dict[str, RunSpec]) -> None:
        self._turns = list(turns)
        self._below = below

    def drive(self, run: AgentRun, spec: RunSpec) -> AgentRun:
        """Return the run when it is done or waits for a person."""
        while True:
            run = AgentRun.from_json(run.to_json(), spec)
            match run.next_step():
                case CallModel():
                    who, turn = self._turns.pop(0)
                    assert who == spec.agent_id
                    run.model_response(turn)
                case CallTools(calls=given):
                    for call in given:
                        self._call(run, call)
                case _:
                    return run

    def _call(self, run: AgentRun, call: ToolCall) -> None:
        below = self._below[call.name]
        child = run.child(call.id)
        if child is None:
            inner = AgentRun(below, str(call.arguments["input"]))
        else:
            inner = AgentRun.from_json(child.saved, below)
            inner.respond(child.answers)
        inner = self.drive(inner, below)
        match inner.next_step():
            case Done(outcome=outcome):
                run.tool_results([ToolResult(call.id, outcome.text)])
            case _:
                run.child_paused(call.id, inner.to_json(), inner.pauses)


def test_a_run_with_sub_agents_is_driven_by_hand_and_saved_at_every_step() -> None:
    checker, researcher = agent("checker"), agent("researcher")
    writer = agent("writer", sub_agents=[checker])
    spec = RunSpec.of(agent("lead", sub_agents=[researcher, SubAgent(writer, name="draft")]))
    hand = ByHand(
        ("lead", calls("researcher", input="tides") + calls("draft", input="on tides")),
        ("researcher", says("They rise.")),
        ("writer", calls("checker", input="true?")),
        ("checker", says("__ask_user__: Is it?")),
        ("checker", says("It is.")),
        ("writer", says("Tides rise.")),
        ("lead", says("Done.")),
        below={
            "checker": RunSpec.of(checker),
            "researcher": RunSpec.of(researcher),
            "draft": RunSpec.of(writer),
        },
    )

    waiting = hand.drive(AgentRun(spec, "Write about tides"), spec)
    (pause,) = waiting.pauses
    step = waiting.next_step()
    waiting.answer("Yes")
    done = hand.drive(waiting, spec)

    assert step == AwaitInput("Is it?")
    assert pause.path == ("lead", "writer", "checker")
    final = done.next_step()
    assert isinstance(final, Done)
    assert final.outcome.text == "Done."
    assert [result.content for result in done.messages[2].tool_results] == ["They rise.", "Tides rise."]
