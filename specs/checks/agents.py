"""Checks what the values of agents mean: ids, models, prompts, memories, output schemas, budgets.

The checks read the raw documents, so they also run where the grammar finds other problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from understudy.orchestration.definitions.checks import ID
from understudy.specs.grammar.agent import AgentGrammar
from understudy.specs.grammar.grammar import is_meant
from understudy.specs.reading.files import Sources
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem, did_you_mean, listed
from understudy.vocabulary.answers.json_schema import BadSchema, fits
from understudy.vocabulary.context.budget import Price
from understudy.vocabulary.messages import JsonObject
from understudy.vocabulary.models import PROVIDERS, ModelName, likely, name_of, names_of
from understudy.vocabulary.presets import PRESETS
from understudy.vocabulary.runs.compaction import DEFAULT_KEEP, DEFAULT_THRESHOLD

from .definitions import Definition
from .model_clients import OPTIONS, model_string, models_in_turn, option_problem
from .names import check_named
from .registered_objects import MEMORY, MODEL
from .registry import Registered
from .settings import check_agent_settings
from .tools import check_tools


def check_definition(
    definition: Definition, sources: Sources, registered: Registered, memories: Mapping[str, object]
) -> Iterator[Problem]:
    """Yield the problems of one definition on its own, beyond those of its grammar."""
    located = definition.located
    id = located.at("id")
    if id.text is not None and not ID.fullmatch(id.text):
        yield id.problem(f"'id' must be 1 to 128 characters on one line, without edges of space; got {id.text[:60]!r}")
    yield from check_named(definition, registered)
    if definition.kind == "agent":
        yield from _check_model(located)
        yield from _check_fallback(located, registered)
        yield from check_agent_settings(located, registered)
        yield from _check_prompt(located, sources)
        yield from check_tools(located, registered.toolbox)
        yield from _check_memory(located, memories, registered)
        yield from _check_output(located)
        yield from _check_schemas(located)
        yield from _check_budget(located, registered)
        yield from _check_compaction(located)


COMPATIBLE = "for other OpenAI-compatible servers write provider: openai with their base_url"


def _check_model(agent: LocatedValue) -> Iterator[Problem]:
    at_provider, at_model = agent.at("provider"), agent.at("model")
    if at_model.is_mapping:
        given = [at for key in ("provider", *OPTIONS) if (at := agent.at(key)).value is not None]
        yield from [at.key_problem(f"a registered model has its own {at.path[-1]!r}; leave it out") for at in given]
        return
    provider, model = at_provider.text, at_model.text
    if provider is not None and provider not in PROVIDERS:
        hint = did_you_mean(provider.lower(), PROVIDERS) or f"; {COMPATIBLE}"
        yield at_provider.problem(f"unknown provider {provider!r}; expected {listed(sorted(PROVIDERS))}{hint}")
        return
    if any(at.value is not None and at.text is None for at in (at_provider, at_model)):
        return
    prefix = "" if model is None else model.partition(":")[0]
    # Names of models on other servers may hold a colon: Ollama has `mistral:7b`.
    names_two = prefix in PROVIDERS and (provider not in PRESETS or prefix == provider)
    if provider is not None and model is not None and ":" in model and names_two:
        yield at_model.problem(f"'provider' and 'model' both name a provider; write model: {model.partition(':')[2]}")
        return
    text = model_string(provider, model)
    if model is None and provider != "rehearsal":
        if not any(is_meant(key, "model", AgentGrammar) for key, _ in agent.entries()):
            wanted = (
                f"NAME, the model of {provider!r}" if provider else "PROVIDER:MODEL, such as anthropic:claude-haiku-4-5"
            )
            yield at_model.problem(f"'model' is missing; expected model: {wanted}")
        return
    if provider is None and ":" not in text and text not in PROVIDERS:
        meant = likely(text)
        hint = f"did you mean {meant!r}?" if meant else f"add provider: NAME, one of {listed(sorted(PROVIDERS))}"
        yield at_model.problem(f"no provider for {text!r}; {hint}")
        return
    try:
        name = ModelName.parse(text)
    except ValueError as error:
        yield at_model.problem(str(error))
        return
    for key, at in agent.entries():
        problem = option_problem(name, key, at.value)
        if problem:
            yield at.problem(problem)


def _check_fallback(agent: LocatedValue, registered: Registered) -> Iterator[Problem]:
    for model in agent.at("fallback").items():
        if model.text is not None:
            try:
                ModelName.parse(model.text)
            except ValueError as error:
                yield model.problem(str(error))
    seen: set[int] = set()
    for at, made in models_in_turn(agent, registered):
        if id(made) in seen:
            yield at.problem(
                f"{name_of(made)} stands among the agent's models twice; the second would fail like the first"
            )
        seen.add(id(made))


def _check_prompt(agent: LocatedValue, sources: Sources) -> Iterator[Problem]:
    file = agent.at("system_prompt").at("file")
    if file.text is not None:
        found = sources.prompt(file)
        if isinstance(found, Problem):
            yield found


def _check_memory(agent: LocatedValue, memories: Mapping[str, object], registered: Registered) -> Iterator[Problem]:
    memory = agent.at("memory")
    if memory.text is not None and memory.text not in memories:
        there = listed(memories, "no 'memories'")
        hint = did_you_mean(memory.text, memories)
        if not hint and not registered.problem(MEMORY, memory.text):
            hint = f"; for the registered one write memory: {{name: {memory.text}}}"
        yield memory.problem(f"no memory {memory.text!r}; there are {there}{hint}")


def _check_output(agent: LocatedValue) -> Iterator[Problem]:
    if agent.at("output_type").value is not None and agent.at("output_schema").value is not None:
        both = "'output_type' and 'output_schema' both say what the answer must be; leave one of them out"
        yield agent.at("output_type").key_problem(both)


def _check_schemas(agent: LocatedValue) -> Iterator[Problem]:
    criteria = [criterion.at("schema") for criterion in agent.at("criteria").items()]
    for schema in (agent.at("output_schema"), *criteria):
        if schema.is_mapping:
            try:
                fits(cast(JsonObject, schema.value))
            except BadSchema as error:
                yield schema.below(error.path).problem(f"{schema.path[-1]!r}: {error}")
            except ValueError as error:
                yield schema.problem(f"{schema.path[-1]!r}: {error}")


def _check_budget(agent: LocatedValue, registered: Registered) -> Iterator[Problem]:
    cost = agent.at("budget").at("cost_usd")
    name = _priced_as(agent, registered)
    if (
        cost.value is not None
        and name
        and name not in dict(agent.at("budget").at("prices").entries())
        and Price.of(name) is None
    ):
        yield cost.problem(
            f"no price is known of {name!r}, so its cost cannot be bounded; add prices: {{{name!r}: {{input: …, output: …}}}}"
        )


def _priced_as(agent: LocatedValue, registered: Registered) -> str:
    """Return the name of the agent's model in price lists; empty if it is not known."""
    model = agent.at("model")
    named = model.at("name").text
    if model.is_mapping:
        return "" if named is None or registered.problem(MODEL, named) else names_of(registered.get(MODEL, named))[0]
    try:
        return str(ModelName.parse(model_string(agent.at("provider").text, model.text)))
    except ValueError:
        return ""


def check_memories(located_values: list[LocatedValue]) -> tuple[dict[str, LocatedValue], list[Problem]]:
    """Return the shared memories of all files by name, and a problem for each duplicate name."""
    found: dict[str, LocatedValue] = {}
    problems: list[Problem] = []
    for located in located_values:
        for name, at in located.at("memories").entries():
            if name in found:
                first = found[name]
                problems.append(at.key_problem(f"the memory {name!r} stands in {first.document.source} too"))
            found.setdefault(name, at)
    return found, problems


def _check_compaction(agent: LocatedValue) -> Iterator[Problem]:
    at = agent.at("compaction")
    model, keep = at.at("model"), at.at("keep")
    if model.text is not None:
        try:
            ModelName.parse(model.text)
        except ValueError as error:
            yield model.problem(str(error))
    shares = [(DEFAULT_KEEP if keep.value is None else keep.value), at.at("threshold").value]
    kept, most = shares[0], DEFAULT_THRESHOLD if shares[1] is None else shares[1]
    if isinstance(kept, (int, float)) and isinstance(most, (int, float)) and 0 <= kept < 1 and 0 < most <= kept:
        where = at.at("threshold") if keep.value is None else keep
        yield where.problem(f"'keep' must be below 'threshold'; got {kept:g} and {most:g}")
