"""Builds agents from the grammar's objects."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, cast

from understudy.orchestration import Agent, SubAgent, Workflow
from understudy.orchestration.definitions.checks import SystemPrompt
from understudy.orchestration.definitions.runner import Runner
from understudy.providers import FallbackModel
from understudy.run_logging import LoggingCallback
from understudy.specs.checks.model_clients import Client, client, model_string, options_of
from understudy.specs.checks.registered_objects import (
    APPROVAL,
    CALL_RULE,
    CALLBACK,
    CHECK,
    CRITERION,
    ERROR,
    MEMORY,
    MODEL,
    OUTPUT_TYPE,
    PROMPT,
    Kind,
)
from understudy.specs.checks.registry import Registered
from understudy.specs.checks.settings import settings_of
from understudy.specs.grammar.agent import (
    AgentGrammar,
    BudgetGrammar,
    CompactionGrammar,
    KeywordGrammar,
    MaxIterationsGrammar,
    StructuredOutputGrammar,
    SubAgentGrammar,
    ToolGrammar,
)
from understudy.specs.grammar.grammar import Grammar
from understudy.specs.grammar.memory import DescribedMemory, InMemoryGrammar, PersistentGrammar, WindowedGrammar
from understudy.specs.grammar.named import (
    Guardrail,
    InputGuardrailGrammar,
    LoggingGrammar,
    NamedGrammar,
    OutputGuardrailGrammar,
    PromptFile,
)
from understudy.specs.reading.files import Sources
from understudy.specs.reading.located import LocatedValue
from understudy.vocabulary.answers.forms import JsonSchema
from understudy.vocabulary.context.budget import Budget, Price
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.models import Model, ModelLike, ModelName
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.compaction import Compaction
from understudy.vocabulary.runs.criteria import (
    Criterion,
    KeywordCriteria,
    MaxIterationsCriteria,
    StructuredOutputCriteria,
)
from understudy.vocabulary.runs.guardrails import InputGuardrail, OutputGuardrail
from understudy.vocabulary.runs.memory import InMemoryMemory, MemoryLike, WindowedMemory
from understudy.vocabulary.tools.definition import ToolChanges
from understudy.vocabulary.tools.toolset import ToolSource

AS_THEY_ARE = (
    *("description", "max_iterations", "max_turns", "max_continues", "continue_message", "max_invalid_retries"),
    *("max_output_retries", "max_parallel_calls", "on_tool_error", "on_invalid_call", "output_mode"),
    "model_timeout",
)
"""Keys of an agent that become arguments of `Agent` unchanged."""


def given(described: Grammar, *names: str, **renamed: str) -> dict[str, Any]:
    """Return the arguments that a spec sets; for the others the classes have defaults."""
    pairs = {**{name: name for name in names}, **renamed}
    return {to: getattr(described, name) for to, name in pairs.items() if name in described.model_fields_set}


def value_of(described: object, kind: Kind, registered: Registered) -> Any:
    """Return a value of the spec, or the registered object that it names."""
    return registered.get(kind, described.name) if isinstance(described, NamedGrammar) else described


class AgentBuilder:
    """Makes agents.

    Args:
        sources: has the prompts of prompt files.
        registered: tools, callbacks, criteria and other objects by name.
        memories: the spec's descriptions of shared memories, by name.
    """

    def __init__(
        self,
        sources: Sources,
        registered: Registered,
        memories: Mapping[str, DescribedMemory],
    ) -> None:
        self._sources = sources
        self._registered = registered
        self._memories = {name: self._new_memory(described) for name, described in memories.items()}
        self._clients: dict[Client, Model] = {}

    def agent(
        self, described: AgentGrammar, located: LocatedValue, runners: Mapping[str, Runner[object]]
    ) -> Agent[object]:
        """Make an agent; `runners` has the runners made so far.

        Raises:
            TypeError: `Agent` refuses an argument.
            ValueError: `Agent` refuses an argument.
            KeyError: a runner that the agent needs has not been made.
        """
        options: dict[str, Any] = given(described, *AS_THEY_ARE)
        if described.settings is not None:
            options["settings"] = settings_of(described.settings, knows_tools=not self._registered.toolbox.not_loaded)
        if described.output_schema is not None:
            options["output_type"] = JsonSchema(described.output_schema)
        if described.output_type is not None:
            options["output_type"] = self._registered.get(OUTPUT_TYPE, described.output_type)
        if "on_invalid_call" in options:
            options["on_invalid_call"] = value_of(described.on_invalid_call, CALL_RULE, self._registered)
        if described.budget is not None:
            options["budget"] = _budget(described.budget)
        if described.compaction is not None:
            options["compaction"] = self._compaction(described.compaction)
        made: Agent[object] = Agent(
            described.id,
            model=self._model(described),
            system_prompt=self._prompt(described, located),
            tools=[self._tool(entry) for entry in described.tools or ()],
            sub_agents=[_sub_agent(entry, runners) for entry in described.sub_agents or ()],
            criteria=[self._criterion(entry) for entry in described.criteria or ()],
            callbacks=self.callbacks(described.callbacks),
            memory=self._memory(described),
            restart_on=[self._registered.get(ERROR, name) for name in described.restart_on or ()],
            **options,
        )
        return made

    def _model(self, described: AgentGrammar) -> ModelLike:
        model = self._first_model(described)
        return model if described.fallback is None else FallbackModel([model, *described.fallback])

    def _first_model(self, described: AgentGrammar) -> ModelLike:
        if isinstance(described.model, NamedGrammar):
            return cast(Model, self._registered.get(MODEL, described.model.name))
        text = model_string(described.provider, described.model)
        options = options_of(described)
        if not options:
            return text
        name = ModelName.parse(text)
        key: Client = (name, tuple(options.items()))
        if key not in self._clients:  # agents with equal options share connections, as agents with a model string do
            self._clients[key] = client(name, options)
        return self._clients[key]

    def _compaction(self, described: CompactionGrammar) -> Compaction:
        options = given(described, *described.model_fields_set)
        if "model" in options:
            options["model"] = value_of(described.model, MODEL, self._registered)
        return Compaction(**options)

    def _prompt(self, described: AgentGrammar, located: LocatedValue) -> SystemPrompt:
        if not isinstance(described.system_prompt, PromptFile):
            return cast(SystemPrompt, value_of(described.system_prompt, PROMPT, self._registered))
        found = self._sources.prompt(located.at("system_prompt").at("file"))
        assert isinstance(found, str)  # the check of the spec has read it
        return found

    def _tool(self, entry: str | ToolGrammar) -> ToolSource:
        if isinstance(entry, str):
            return self._registered.toolbox.get(entry, {})
        changes = cast(ToolChanges, given(entry, *(entry.model_fields_set - {"name"})))
        if "approval" in changes:
            changes["approval"] = value_of(entry.approval, APPROVAL, self._registered)
        return self._registered.toolbox.get(entry.name, changes)

    def _criterion(
        self, entry: MaxIterationsGrammar | KeywordGrammar | StructuredOutputGrammar | NamedGrammar
    ) -> Criterion:
        match entry:
            case MaxIterationsGrammar():
                return MaxIterationsCriteria(entry.max)
            case KeywordGrammar():
                return KeywordCriteria(entry.keyword)
            case StructuredOutputGrammar():
                return StructuredOutputCriteria(entry.schema_)
            case NamedGrammar():
                return cast(Criterion, self._registered.get(CRITERION, entry.name))

    def callbacks(self, entries: Iterable[LoggingGrammar | Guardrail | NamedGrammar] | None) -> list[AgentCallback]:
        """Return the callbacks that a runner's spec describes."""
        return [self._callback(entry) for entry in entries or ()]

    def _callback(self, entry: LoggingGrammar | Guardrail | NamedGrammar) -> AgentCallback:
        match entry:
            case LoggingGrammar():
                level = logging.getLevelNamesMapping()[entry.level.upper()]
                return LoggingCallback(contents=entry.contents, level=level, logger=logging.getLogger(entry.logger))
            case InputGuardrailGrammar():
                return InputGuardrail(entry.name or entry.check, self._registered.get(CHECK, entry.check))
            case OutputGuardrailGrammar():
                check = self._registered.get(CHECK, entry.check)
                return OutputGuardrail(entry.name or entry.check, check, retry=entry.retry, hold=entry.hold)
            case NamedGrammar():
                return cast(AgentCallback, self._registered.get(CALLBACK, entry.name))

    def _memory(self, described: AgentGrammar) -> MemoryLike | None:
        match described.memory:
            case None:
                return None
            case str():
                return self._memories[described.memory]
            case _:
                return self._new_memory(described.memory)

    def _new_memory(self, described: DescribedMemory) -> MemoryLike:
        match described:
            case NamedGrammar():
                return cast(MemoryLike, self._registered.get(MEMORY, described.name))
            case WindowedGrammar():
                return WindowedMemory(described.window_size, **given(described, "tokens", "max_conversations"))
            case PersistentGrammar():
                from understudy.actors.memory.persistent import PersistentMemory  # only a spec with one loads it

                return PersistentMemory(**given(described, "tokens", "keep", turns="window_size"))
            case InMemoryGrammar():
                return InMemoryMemory(**given(described, "max_conversations"))


def _budget(described: BudgetGrammar) -> Budget:
    prices = {model: Price(**given(price, *price.model_fields_set)) for model, price in described.prices.items()}
    options = given(described, *described.model_fields_set)
    options["prices"] = prices
    return Budget(**options)


def _sub_agent(entry: str | SubAgentGrammar, runners: Mapping[str, Runner[object]]) -> SubAgent:
    if isinstance(entry, str):
        return SubAgent(runners[entry])
    options = given(entry, "name", "description", "allow", "deny", "timeout")
    return SubAgent(with_parameters(runners[entry.agent or entry.ref or ""], entry.parameters), **options)


def with_parameters(runner: Runner[object], parameters: Mapping[str, JsonValue]) -> Runner[object]:
    """Return a runner with the parameters of a reference to it.

    Raises:
        ValueError: the runner takes no parameters.
    """
    if not parameters:
        return runner
    if not isinstance(runner, Workflow):
        raise ValueError(f"{runner.id!r} takes no parameters; a workflow with type: workflow does")  # noqa: TRY004 (of a spec)
    return runner.with_parameters(parameters)
