"""An agent's definition: what is refused, that it does not change, copies and overrides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import understudy as us
from understudy.orchestration import RunSpec
from understudy.orchestration.definitions.agent import AgentChanges
from understudy.providers import Rehearsal, ScriptedModel
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import Settings
from understudy.vocabulary.models import ModelName


def look(sku: str) -> str:
    """Look."""
    return sku


def find(sku: str) -> str:
    """Find."""
    return sku


NAMED_CACHE = "cachedContents/a"
CLERK = us.Agent("clerk", model="openai:gpt-4o", tools=[look], description="Looks.", max_iterations=5)


# --- what is refused


@pytest.mark.parametrize("id", ["", " ", " clerk", "clerk ", "a\nb", "x" * 129])
def test_an_id_that_would_not_stand_in_a_log_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="an agent's id must be 1 to 128 characters on one line"):
        us.Agent(id, model="rehearsal")


@pytest.mark.parametrize("id", ["a", "night clerk", "кассир", "x" * 128, "a/b:c"])
def test_an_id_may_be_any_other_line(id: str) -> None:
    assert us.Agent(id, model="rehearsal").id == id


Make = Callable[..., us.Agent[str]]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"model": "opnai:x"}, ValueError, "agent 'clerk': unknown provider.*did you mean 'openai:x'"),
        ({"model": "openai:"}, ValueError, "agent 'clerk': no model named"),
        ({"model": 3}, TypeError, "agent 'clerk': model must be"),
        ({"model": None}, TypeError, "agent 'clerk': model must be"),
        ({"model": Rehearsal}, TypeError, "agent 'clerk': model must be"),
        (
            {"model": look},
            TypeError,
            r"model must be .*; a function becomes a model by FunctionModel of understudy\.testing$",
        ),
        ({"system_prompt": 3}, TypeError, "agent 'clerk': system_prompt must be a string or a function"),
        ({"description": 3}, TypeError, "agent 'clerk': description must be a string"),
        ({"settings": {"temperature": 1}}, TypeError, "agent 'clerk': settings must be Settings"),
        ({"tools": look}, TypeError, "agent 'clerk': tools must be a list"),
        ({"tools": us.tool(look)}, TypeError, "agent 'clerk': tools must be a list"),
        ({"tools": "look"}, TypeError, "agent 'clerk': tools must be a list"),
        ({"tools": [look, us.tool(name="look")(find)]}, ValueError, "agent 'clerk': two tools are named 'look'"),
        ({"settings": Settings(tool_choice="lok")}, ValueError, "agent 'clerk': tool_choice 'lok' is no tool"),
        ({"settings": Settings(tool_choice="required")}, ValueError, "'required', but it has no tools"),
        ({"max_iterations": -1}, ValueError, "agent 'clerk': max_iterations must be at least 0, got -1"),
        ({"max_turns": 0}, ValueError, "agent 'clerk': max_turns must be at least 1, got 0"),
        ({"max_iterations": 2.0}, TypeError, "agent 'clerk': max_iterations must be a whole number, got 2.0"),
        ({"max_turns": True}, TypeError, "agent 'clerk': max_turns must be a whole number, got True"),
        ({"max_turns": None}, TypeError, "agent 'clerk': max_turns must be a whole number, got None"),
    ],
)
def test_a_definition_that_could_not_run_is_refused_when_it_is_made(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    make = cast(Make, us.Agent)

    with pytest.raises(error, match=words):
        make("clerk", **({"model": "rehearsal"} | arguments))


def brief(context: object) -> str:
    """Return a system prompt."""
    return "Be brief."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tools": [look]}, "may have no tools; put them into the cache"),
        ({"sub_agents": [CLERK]}, "may have no tools;"),
        ({"output_type": list[int], "output_mode": "tool"}, "may have no tools;"),
        ({"system_prompt": "Be brief."}, "may have no system prompt;"),
        ({"system_prompt": brief, "tools": [look]}, "may have no system prompt and no tools;"),
        ({"settings": Settings(cache=NAMED_CACHE, extra={"tools": [{"googleSearch": {}}]})}, "may have no tools"),
    ],
)
def test_an_agent_whose_settings_name_a_cache_has_no_prompt_and_no_tools(
    arguments: dict[str, object], words: str
) -> None:
    make = cast(Make, us.Agent)
    usual: dict[str, object] = {"model": "gemini:gemini-2.5-pro", "settings": Settings(cache=NAMED_CACHE)}

    with pytest.raises(ValueError, match=words):
        make("clerk", **(usual | arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"settings": Settings(cache=NAMED_CACHE)},
        {"settings": Settings(cache=NAMED_CACHE), "output_type": list[int]},
        {"settings": Settings(cache=True), "tools": [look], "system_prompt": "Be brief."},
    ],
)
def test_other_agents_with_a_cache_are_made(arguments: dict[str, object]) -> None:
    make = cast(Make, us.Agent)

    assert make("clerk", model="gemini:gemini-2.5-pro", **arguments).settings is arguments["settings"]


def test_an_id_is_a_string() -> None:
    with pytest.raises(TypeError, match="an agent's id must be a string, got 3"):
        us.Agent(cast(str, 3), model="rehearsal")


def test_no_rounds_at_all_may_be_allowed() -> None:
    assert us.Agent("clerk", model="rehearsal", max_iterations=0).max_iterations == 0


def test_making_an_agent_builds_no_schema() -> None:
    def odd(lock: threading.Lock) -> None: ...

    agent = us.Agent("clerk", model="rehearsal", tools=[odd])

    with pytest.raises(TypeError, match="tool 'odd': an annotation|tool 'odd': parameter 'lock'"):
        RunSpec.of(agent)


# --- what it is


def test_a_model_string_is_taken_apart_and_a_model_object_stays() -> None:
    model = Rehearsal()

    assert CLERK.model == ModelName("openai", "gpt-4o")
    assert us.Agent("clerk", model=model).model is model


@pytest.mark.parametrize("name", ["id", "model", "tools", "max_iterations", "nonsense"])
def test_an_agent_does_not_change(name: str) -> None:
    with pytest.raises(AttributeError, match="agent 'clerk' does not change"):
        setattr(CLERK, name, 3)
    with pytest.raises(AttributeError, match="agent 'clerk' does not change"):
        delattr(CLERK, name)

    assert (CLERK.id, CLERK.max_iterations) == ("clerk", 5)


def test_a_list_of_tools_may_change_after_the_agent_was_made() -> None:
    tools: list[us.ToolLike] = [look]
    agent = us.Agent("clerk", model="rehearsal", tools=tools)

    tools.append(find)

    assert [tool.name for tool in agent.tools] == ["look"]


# --- copies


def test_a_changed_copy_keeps_the_rest() -> None:
    other = CLERK.replace(max_iterations=3)

    assert (other.max_iterations, CLERK.max_iterations) == (3, 5)
    assert (other.id, other.model, other.tools, other.description) == (
        CLERK.id,
        CLERK.model,
        CLERK.tools,
        CLERK.description,
    )
    assert other is not CLERK


@pytest.mark.parametrize("model", ["openai:gpt-4o", "google:gemini-2.5-flash", "rehearsal"])
def test_a_copy_keeps_its_model_string(model: str) -> None:
    agent = us.Agent("clerk", model=model)

    assert agent.replace(max_turns=3).model == agent.model


def test_a_copy_is_checked_like_a_new_agent() -> None:
    with pytest.raises(ValueError, match="max_turns must be at least 1"):
        CLERK.replace(max_turns=0)
    with pytest.raises(TypeError, match="an agent has no nonsense; it has id, budget, .*, description"):
        CLERK.replace(**cast(AgentChanges, {"nonsense": 1}))


# --- overrides


def test_overrides_nest_and_end_with_their_block() -> None:
    one, two = ScriptedModel([]), ScriptedModel([])
    seen: list[object] = [CLERK.current_model]

    with CLERK.override(model=one):
        seen.append(CLERK.current_model)
        with CLERK.override(model=two):
            seen.append(CLERK.current_model)
        seen.append(CLERK.current_model)
    seen.append(CLERK.current_model)

    assert seen == [CLERK.model, one, two, one, CLERK.model]


def test_an_override_ends_when_its_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), CLERK.override(model=Rehearsal()):
        raise ZeroDivisionError

    assert CLERK.current_model is CLERK.model


def test_an_override_needs_a_model_and_not_its_name() -> None:
    with (
        pytest.raises(TypeError, match="agent 'clerk': override needs a model with a complete"),
        CLERK.override(model="rehearsal"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point
    ):
        pass


def test_an_override_holds_in_every_thread() -> None:
    model = ScriptedModel([])
    seen: list[object] = []

    with CLERK.override(model=model):
        thread = threading.Thread(target=lambda: seen.append(CLERK.current_model), name="other", daemon=True)
        thread.start()
        thread.join(10)

    assert seen == [model]


def test_an_override_leaves_copies_and_the_fingerprint_as_they_were() -> None:
    before = RunSpec.of(CLERK).fingerprint()

    with CLERK.override(model=Rehearsal()):
        assert CLERK.replace().current_model == CLERK.model
        assert RunSpec.of(CLERK).fingerprint() == before


# --- its spec


def test_a_spec_holds_what_the_run_decides_by() -> None:
    def rule(call: us.ToolCall, context: RunContext) -> bool:
        return True

    agent = us.Agent(
        "clerk",
        model="google:gemini-2.5-flash",
        system_prompt="Be brief.",
        tools=[look, us.tool(approval=True)(find), us.tool(name="sell", approval=rule)(look)],
        settings=Settings(temperature=0.0),
        max_iterations=3,
        max_turns=4,
    )

    spec = RunSpec.of(agent)

    assert (spec.agent_id, spec.model, spec.system) == ("clerk", "gemini:gemini-2.5-flash", "Be brief.")
    assert [tool.name for tool in spec.tools] == ["look", "find", "sell"]
    assert spec.approvals == {"look": False, "find": True, "sell": None}
    assert (spec.settings, spec.max_iterations, spec.max_turns) == (Settings(temperature=0.0), 3, 4)
    assert RunSpec.of(agent) is spec


def test_a_prompt_made_by_a_function_is_not_in_the_spec() -> None:
    agent = us.Agent("clerk", model=Rehearsal(), system_prompt=lambda context: context.agent_id)

    assert (RunSpec.of(agent).system, RunSpec.of(agent).model) == (None, "Rehearsal")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("instructions", "use system_prompt="),
        ("completion_criteria", "use criteria="),
        ("deps_type", r"deps need no type here; give the object itself to run\(deps=…\)"),
        ("hooks", "use callbacks="),
        ("name", "its first argument is the id"),
        ("session_store", r"use us.ActorSystem\(store=…\)"),
        ("temperature", r"use settings=us.Settings\(temperature=…\)"),
        ("tool", "did you mean tools="),
    ],
)
def test_an_argument_that_an_agent_does_not_have_says_what_to_write(name: str, instead: str) -> None:
    with pytest.raises(TypeError, match=f"an agent has no argument {name}=: {instead}"):
        us.Agent("clerk", model="openai:gpt-4o", **cast(Any, {name: "x"}))
