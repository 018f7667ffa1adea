"""What Python can make, a spec can say, parameter by parameter; what it cannot is listed here with the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

import understudy as us
from understudy.orchestration import Runner
from understudy.orchestration.supervision.restarts import Strategy
from understudy.providers.http.model_client import HttpModel
from understudy.specs.builders.definitions import STRATEGIES
from understudy.specs.checks.model_clients import OPTIONS
from understudy.specs.grammar import agent, groups, memory, named
from understudy.specs.grammar.grammar import Grammar, keys_of
from understudy.vocabulary.runs.callbacks import AgentCallback

GRAMMARS: dict[Callable[..., object], type[Grammar]] = {
    us.Agent: agent.AgentGrammar,
    us.Settings: agent.SettingsGrammar,
    us.Tool: agent.ToolGrammar,
    us.SubAgent: agent.SubAgentGrammar,
    us.Budget: agent.BudgetGrammar,
    us.Price: agent.PriceGrammar,
    us.InMemoryMemory: memory.InMemoryGrammar,
    us.WindowedMemory: memory.WindowedGrammar,
    us.PersistentMemory: memory.PersistentGrammar,
    us.MaxIterationsCriteria: agent.MaxIterationsGrammar,
    us.KeywordCriteria: agent.KeywordGrammar,
    us.StructuredOutputCriteria: agent.StructuredOutputGrammar,
    us.LoggingCallback: named.LoggingGrammar,
    us.InputGuardrail: named.InputGuardrailGrammar,
    us.OutputGuardrail: named.OutputGuardrailGrammar,
    us.SequentialAgent: groups.SequentialGrammar,
    us.ParallelAgent: groups.ParallelGrammar,
    us.Workflow: groups.GraphGrammar,
    us.Task: groups.TaskGrammar,
    us.Supervisor: groups.SupervisorGrammar,
    us.Child: groups.ChildGrammar,
    us.OneForOne: groups.SupervisorGrammar,
    us.OneForAll: groups.SupervisorGrammar,
    us.RestForOne: groups.SupervisorGrammar,
    us.OpenAI: agent.AgentGrammar,
    us.OpenAIResponses: agent.AgentGrammar,
    us.Anthropic: agent.AgentGrammar,
    us.Gemini: agent.AgentGrammar,
    us.Vertex: agent.AgentGrammar,
    us.VertexClaude: agent.AgentGrammar,
    us.AzureOpenAI: agent.AgentGrammar,
}
"""What a spec makes -> the mapping that says so."""

CLIENTS = (us.OpenAI, us.OpenAIResponses, us.Anthropic, us.Gemini, us.Vertex, us.VertexClaude, us.AzureOpenAI)

CALLED = {
    "AzureOpenAI.deployment": "model",
    "MaxIterationsCriteria.limit": "max",
    "ParallelAgent.children": "steps",
    "ParallelAgent.merge": "merge_strategy",
    "SubAgent.runner": "agent",
    "Task.name": "id",
    "Task.runner": "agent",
    "Tool.function": "name",
    "WindowedMemory.turns": "window_size",
    "PersistentMemory.turns": "window_size",
    "Child.actor": "ref",
    **{f"{client.__name__}.{option}": key for client in CLIENTS for key, option in OPTIONS.items()},
}
"""Parameter -> its key, where they differ."""

A_SECRET = "keys never stand in a spec; they come from the environment"
FOR_TESTS = "a double of the network or the clock, for tests of Python code; a model with one is registered"
NOT_IN_SPECS = {
    "WindowedMemory.memory": "a persistent memory has a window of its own",
    "PersistentMemory.store": "the store is the system's: its URL may have a password",
    "Tool.name": "a tool goes by its name; register Tool.replace(name=…) for another one",
    "Tool.reconcile": "a function that belongs to the tool; register Tool.replace(reconcile=…) for another one",
    "Tool.transactional": "the function asks for its transaction; register Tool.replace(transactional=…) for another one",
    "Tool.transaction_timeout": "as long as its statements take; register Tool.replace(…) for another one",
    "Child.name": "a runner goes by its id",
    "Child.mailbox": "a runner takes runs, which no mailbox bounds",
    "Child.turn_timeout": "a runner takes runs, which have timeouts of their own",
    "OpenAI.preset": "`provider` says it; a model with a preset of one's own is registered",
    "OpenAI.api_key": A_SECRET,
    "OpenAIResponses.api_key": A_SECRET,
    "OpenAIResponses.store": "a choice about data, made in Python: a model that lets OpenAI keep answers is registered",
    "Anthropic.api_key": A_SECRET,
    "Gemini.api_key": A_SECRET,
    "Vertex.access_token": A_SECRET,
    "VertexClaude.access_token": A_SECRET,
    "AzureOpenAI.api_key": A_SECRET,
    "AzureOpenAI.token": A_SECRET,
    **{f"{client.__name__}.{name}": FOR_TESTS for client in CLIENTS for name in ("transport", "timing")},
    **{
        f"{client.__name__}.extra_headers": "headers may hold keys, which never stand in a spec; a model with some is registered"
        for client in CLIENTS
    },
}
"""Parameter -> why no spec says it."""


def parameters() -> list[str]:
    """Return the parameters of everything that a spec makes."""
    return [f"{made.__name__}.{name}" for made in GRAMMARS for name in inspect.signature(made).parameters]


def key_of(parameter: str) -> str:
    """Return the key by which a spec says a parameter; empty if it has none."""
    made, name = parameter.split(".")
    grammar = next(grammar for each, grammar in GRAMMARS.items() if each.__name__ == made)
    others = {key for other, key in CALLED.items() if other.startswith(f"{made}.") and other != parameter}
    key = CALLED.get(parameter, "" if name in others else name)
    return key if key in [known for known, _ in keys_of(grammar)] else ""


@pytest.mark.parametrize("parameter", parameters())
def test_a_parameter_has_a_key_or_a_reason_to_have_none(parameter: str) -> None:
    assert bool(key_of(parameter)) != (parameter in NOT_IN_SPECS), (
        "give it a key in the grammar of specs, or say in this file why it has none; not both"
    )


def test_the_tables_speak_of_parameters_that_there_are() -> None:
    gone = (CALLED.keys() | NOT_IN_SPECS.keys()) - set(parameters())

    # Each provider has some of the options of clients.
    assert {each for each in gone if each.split(".")[1] not in OPTIONS.values()} == set()


def test_a_client_takes_what_its_parameter_is_called_in_specs() -> None:
    assert set(OPTIONS) <= {key for key, _ in keys_of(agent.AgentGrammar)}


def concrete(base: type) -> set[type]:
    """Return the public classes below one that a program can make objects of."""
    public = [getattr(us, name) for name in vars(us)["__all__"]]
    return {
        each
        for each in public
        if isinstance(each, type) and issubclass(each, base) and each is not base and not inspect.isabstract(each)
    }


@pytest.mark.parametrize("base", [Runner, AgentCallback, Strategy, HttpModel])
def test_a_class_of_understudys_own_can_be_made_by_a_spec(base: type) -> None:
    assert concrete(base) <= GRAMMARS.keys()


def test_a_strategy_has_a_word() -> None:
    assert concrete(Strategy) == set(STRATEGIES.values())


def test_memories_and_criteria_are_all_known() -> None:
    public = [getattr(us, name) for name in vars(us)["__all__"] if name.endswith(("Memory", "Criteria", "Guardrail"))]

    by_another_key = {us.CompactedMemory}  # an agent's `compaction` says the same
    assert set(public) - {us.Memory, us.SummaryMemory} - by_another_key <= GRAMMARS.keys()
