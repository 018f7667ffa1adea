"""Each key of the grammar reaches what is made; a key without a row here fails the last test."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from tests.support.spec_objects import ShopError, Verdict, find
from understudy import (
    Agent,
    AgentCallback,
    Budget,
    Child,
    Compaction,
    Directive,
    InMemoryMemory,
    InvalidCall,
    JsonSchema,
    KeywordCriteria,
    LoadedSpec,
    LoggingCallback,
    MaxIterationsCriteria,
    OneForAll,
    Outcome,
    Price,
    RateLimited,
    Rehearsal,
    RunContext,
    SpecLoader,
    StructuredOutputCriteria,
    ToolCall,
    Toolset,
    tool,
)
from understudy.orchestration import Task, Workflow
from understudy.providers import FallbackModel
from understudy.providers.http.model_client import HttpModel
from understudy.specs.grammar.grammar import Grammar, alternatives, is_grammar, keys_of
from understudy.specs.grammar.spec import SpecGrammar
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.tools.definition import Tool


class Shelf(Toolset):
    @tool
    def count(self) -> int:
        return 1


class Audit(AgentCallback):
    def on_finish(self, ctx: RunContext, outcome: Outcome[object]) -> None:
        pass


def polite(context: RunContext, text: str) -> bool:
    return "please" in text


AUDIT = Audit()
SCHEMA: dict[str, JsonValue] = {"type": "object", "required": ["label"]}


def greet(context: RunContext) -> str:
    return "Hello."


def is_large(call: ToolCall, context: RunContext) -> bool:
    return True


def repair(context: RunContext, invalid: InvalidCall) -> None:
    return None


def why_not(context: RunContext, text: str) -> str | None:
    return None


def is_spam(given: object) -> bool:
    return True


def decide(error: BaseException) -> Directive:
    return "stop"


OWN_MODEL, OWN_MEMORY = Rehearsal(), InMemoryMemory()
OBJECTS: dict[str, object] = {
    **{each.__name__: each for each in (greet, is_large, repair, why_not, is_spam, decide, ShopError, Verdict)},
    "own_model": OWN_MODEL,
    "own_memory": OWN_MEMORY,
}


def loaded(**top: JsonValue) -> LoadedSpec:
    """Load a spec of these keys; JSON is YAML."""
    top = {"agents": [{"id": "a", "model": "rehearsal"}, {"id": "b", "model": "rehearsal"}], **top}
    loader = SpecLoader(
        tools={"find": find, "shelf": Shelf}, callbacks={"audit": AUDIT}, criteria={"polite": polite}, objects=OBJECTS
    )
    return loader.load_text(json.dumps(top))


def agent_with(key: str, value: JsonValue, **more: JsonValue) -> Any:
    """Return what the agent has that a spec makes with this key."""
    spec = loaded(
        agents=[{"id": "z", "model": "openai:gpt-4o"} | more | {key: value}, {"id": "b", "model": "rehearsal"}]
    )
    made = spec.agent("z")
    return getattr(made, {"output_schema": "output_type"}.get(key, key))


def model_with(key: str, value: JsonValue, provider: str = "openai") -> dict[str, Any]:
    """Return the attributes of the client that a spec makes with this key."""
    model = loaded(agents=[{"id": "z", "provider": provider, "model": "m", key: value}]).agent("z").model
    return vars(model)


def tool_with(key: str, value: JsonValue, **more: JsonValue) -> Tool[..., object]:
    spec = loaded(agents=[{"id": "z", "model": "rehearsal", "tools": [{"name": "find", **more, key: value}]}])
    return spec.agent("z").tools[0]


def sub_agent_with(**keys: JsonValue) -> Any:
    return agent_with("sub_agents", [keys])[0]


def compaction_with(key: str, value: JsonValue) -> Any:
    return getattr(agent_with("compaction", {key: value}), key)


def budget_with(key: str, value: JsonValue) -> Any:
    return getattr(agent_with("budget", {key: value}), key)


def price_with(**keys: JsonValue) -> Any:
    return budget_with("prices", {"m": {"input": 1, "output": 2, **keys}})


def memory_with(**keys: JsonValue) -> dict[str, Any]:
    memory: object = agent_with("memory", keys)
    return vars(memory)


def criterion_with(**keys: JsonValue) -> Any:
    return agent_with("criteria", [keys])[0]


def guardrail_with(**keys: JsonValue) -> tuple[str, str, object, object, object]:
    """Return the class, the name, the function, `retry` and `hold` of a guardrail."""
    made: object = agent_with("callbacks", [keys])[0]
    found = vars(made)
    return type(made).__name__, found["name"], found["_check"], found.get("_retry"), found.get("hold")


def logging_with(**keys: JsonValue) -> dict[str, Any]:
    callback: object = agent_with("callbacks", [{"type": "logging", **keys}])[0]
    return vars(callback)


def group_with(kind: str, **keys: JsonValue) -> Any:
    return loaded(workflows=[{"id": "w", "type": kind, "steps": [{"ref": "a"}], **keys}]).runner("w")


def watchers_of(kind: str) -> list[str]:
    """Return the classes of a group's or workflow's callbacks: one of a type, and one that is registered."""
    parts: dict[str, JsonValue] = (
        {"tasks": [{"id": "t", "agent": "a"}]} if kind == "workflow" else {"steps": [{"ref": "a"}]}
    )
    flow: JsonValue = {"id": "w", "type": kind, **parts, "callbacks": [{"type": "logging"}, {"name": "audit"}]}
    found: Any = loaded(workflows=[flow]).runner("w")
    return [type(each).__name__ for each in found.callbacks]


def task_with(**keys: JsonValue) -> Task:
    tasks: list[JsonValue] = [
        {"id": "u", "agent": "a"},
        {"id": "t", **({} if "ref" in keys else {"agent": "b"}), **keys},
    ]
    return loaded(workflows=[{"id": "w", "type": "workflow", "tasks": tasks}]).workflow("w").tasks[1]


def given_in(id: str) -> object:
    """Return the parameters that a workflow has inside of this runner."""
    inner: dict[str, JsonValue] = {"ref": "asks", "parameters": {"x": 7}}
    asks: JsonValue = {"id": "asks", "type": "workflow", "tasks": [{"id": "t", "agent": "a", "prompt": "${x}"}]}
    steps: JsonValue = {"id": "s", "type": "sequential", "steps": [inner]}
    tasks: JsonValue = {"id": "w", "type": "workflow", "tasks": [{"id": "u", **inner}]}
    agents: list[JsonValue] = [
        {"id": "a", "model": "rehearsal"},
        {"id": "lead", "model": "rehearsal", "sub_agents": [inner]},
    ]
    (found,) = loaded(agents=agents, workflows=[asks, steps, tasks]).runner(id).inner_runners
    assert isinstance(found, Workflow)
    return dict(found.given)


def supervisor_with(**keys: JsonValue) -> Any:
    return loaded(supervisors=[{"id": "s", "children": ["a"], **keys}]).supervisor("s")


def strategy_with(key: str, value: JsonValue) -> Any:
    return getattr(supervisor_with(**{key: value}).strategy, key)


def setting_with(key: str, value: JsonValue) -> Any:
    return getattr(agent_with("settings", {key: value}, tools=["find"], model="openai:a-deployment"), key)


def tool_option(key: str, value: JsonValue) -> Any:
    return getattr(tool_with(key, value), key)


def group_option(kind: str, key: str, value: JsonValue) -> Any:
    return getattr(group_with(kind, **{key: value}), key)


def graph_option(key: str, value: JsonValue) -> Any:
    tasks: list[JsonValue] = [{"id": "t", "agent": "a"}]
    flow: dict[str, JsonValue] = {"id": "w", "type": "workflow", "tasks": tasks, key: value}
    return getattr(loaded(workflows=[flow]).workflow("w"), key)


def shared_memories() -> object:
    """Return the one memory of two agents; None if it is not one."""
    agents: list[JsonValue] = [{"id": name, "model": "rehearsal", "memory": "m"} for name in "xy"]
    spec = loaded(memories={"m": {"type": "in_memory"}}, agents=agents)
    return spec.agent("x").memory if spec.agent("x").memory is spec.agent("y").memory else None


SETTINGS: dict[str, JsonValue] = {
    "temperature": 0.5,
    "max_tokens": 7,
    "top_p": 0.25,
    "seed": 7,
    "tool_choice": "find",
    "parallel_tool_calls": False,
    "thinking_tokens": 0,
    "reasoning": "off",
    "verbosity": "low",
    "service_tier": "flex",
    "cache": True,
    "strict_tools": True,
    "extra": {"user": "u"},
}
Row = tuple[Callable[[], object], object]
ROWS: dict[str, Row] = {
    # the top
    "SpecGrammar.version": (lambda: list(loaded(version=1).runners), ["a", "b"]),
    "SpecGrammar.agents": (lambda: list(loaded().agents), ["a", "b"]),
    "SpecGrammar.workflows": (
        lambda: loaded(workflows=[{"id": "w", "type": "sequential", "steps": [{"ref": "a"}]}]).sequential("w").id,
        "w",
    ),
    "SpecGrammar.supervisors": (lambda: supervisor_with().id, "s"),
    "SpecGrammar.memories": (lambda: shared_memories() is not None, True),
    # an agent
    "AgentGrammar.id": (lambda: agent_with("id", "z"), "z"),
    "AgentGrammar.provider": (
        lambda: str(loaded(agents=[{"id": "z", "provider": "google", "model": "m"}]).agent("z").model),
        "gemini:m",
    ),
    "AgentGrammar.model": (
        lambda: str(agent_with("model", "anthropic:claude-haiku-4-5")),
        "anthropic:claude-haiku-4-5",
    ),
    "AgentGrammar.fallback": (
        lambda: [
            each.model
            for each in cast(
                FallbackModel,
                loaded(agents=[{"id": "z", "model": "openai:m", "fallback": ["openai:a", "gemini:b"]}])
                .agent("z")
                .model,
            ).models
            if isinstance(each, HttpModel)
        ],
        ["m", "a", "b"],
    ),
    "AgentGrammar.base_url": (
        lambda: model_with("base_url", "http://127.0.0.1:1/v1")["base_url"],
        "http://127.0.0.1:1/v1",
    ),
    "AgentGrammar.api_version": (lambda: model_with("api_version", "v7", "gemini")["_added_version"], "v7"),
    "AgentGrammar.betas": (lambda: model_with("betas", ["a-2025"], "anthropic")["_betas"], ("a-2025",)),
    "AgentGrammar.endpoint": (
        lambda: model_with("endpoint", "https://me.test", "azure")["base_url"],
        "https://me.test",
    ),
    "AgentGrammar.project": (lambda: model_with("project", "p", "vertex")["_given_project"], "p"),
    "AgentGrammar.location": (lambda: model_with("location", "l", "vertex")["_given_location"], "l"),
    "AgentGrammar.model_timeout": (lambda: agent_with("model_timeout", 17.5), 17.5),
    "AgentGrammar.attempt_timeout": (lambda: model_with("attempt_timeout", 17.5)["_timeout"], 17.5),
    "AgentGrammar.attempts": (lambda: model_with("attempts", 41)["_attempts"], 41),
    "AgentGrammar.max_in_flight": (lambda: model_with("max_in_flight", 43)["_own_in_flight"].most, 43),
    "AgentGrammar.idle_timeout": (lambda: model_with("idle_timeout", 53.0)["idle_timeout"], 53.0),
    "AgentGrammar.max_reply_bytes": (lambda: model_with("max_reply_bytes", 47)["_max_bytes"], 47),
    "AgentGrammar.restart_on": (
        lambda: agent_with("restart_on", ["ShopError", "ConnectionError", "RateLimited"]),
        (ShopError, ConnectionError, RateLimited),
    ),
    "AgentGrammar.output_type": (lambda: agent_with("output_type", "Verdict"), Verdict),
    "AgentGrammar.system_prompt": (lambda: agent_with("system_prompt", "Be brief."), "Be brief."),
    "AgentGrammar.description": (lambda: agent_with("description", "d"), "d"),
    "AgentGrammar.tools": (
        lambda: [
            t.name
            for t in loaded(agents=[{"id": "z", "model": "rehearsal", "tools": ["shelf", "find"]}]).agent("z").tools
        ],
        ["count", "find"],
    ),
    "AgentGrammar.sub_agents": (lambda: [s.name for s in agent_with("sub_agents", ["b"])], ["b"]),
    "AgentGrammar.settings": (lambda: agent_with("settings", {"seed": 7}).seed, 7),
    "AgentGrammar.max_iterations": (lambda: agent_with("max_iterations", 7), 7),
    "AgentGrammar.max_turns": (lambda: agent_with("max_turns", 7), 7),
    "AgentGrammar.on_tool_error": (lambda: agent_with("on_tool_error", "raise"), "raise"),
    "AgentGrammar.max_parallel_calls": (lambda: agent_with("max_parallel_calls", 7), 7),
    "AgentGrammar.on_invalid_call": (lambda: agent_with("on_invalid_call", "retry"), "retry"),
    "AgentGrammar.max_invalid_retries": (lambda: agent_with("max_invalid_retries", 7), 7),
    "AgentGrammar.criteria": (lambda: len(agent_with("criteria", [{"name": "polite"}] * 2)), 2),
    "AgentGrammar.max_continues": (lambda: agent_with("max_continues", 7), 7),
    "AgentGrammar.continue_message": (lambda: agent_with("continue_message", "Go on."), "Go on."),
    "AgentGrammar.output_schema": (lambda: agent_with("output_schema", SCHEMA), JsonSchema(SCHEMA)),
    "AgentGrammar.output_mode": (lambda: agent_with("output_mode", "tool"), "tool"),
    "AgentGrammar.max_output_retries": (lambda: agent_with("max_output_retries", 7), 7),
    "AgentGrammar.callbacks": (lambda: agent_with("callbacks", [{"name": "audit"}]), (AUDIT,)),
    "AgentGrammar.memory": (
        lambda: type(agent_with("memory", {"type": "windowed", "window_size": 2})).__name__,
        "WindowedMemory",
    ),
    "AgentGrammar.compaction": (lambda: agent_with("compaction", {"threshold": 0.5}), Compaction(threshold=0.5)),
    "AgentGrammar.budget": (lambda: agent_with("budget", {"turns": 7}), Budget(turns=7)),
    **{f"SettingsGrammar.{key}": (partial(setting_with, key, value), value) for key, value in SETTINGS.items()},
    "SettingsGrammar.stop": (lambda: agent_with("settings", {"stop": ["END"]}).stop, ("END",)),
    # tools and sub-agents
    "ToolGrammar.name": (lambda: tool_with("name", "find") is find, True),
    "ToolGrammar.description": (lambda: tool_with("description", "d").spec.description, "d"),
    **{
        f"ToolGrammar.{key}": (partial(tool_option, key, value), value)
        for key, value in {
            "timeout": None,
            "retries": 7,
            "idempotent": True,
            "approval": True,
            "isolation": "caller",
            "max_parallel": 7,
            "on_error": "raise",
            "max_result": 7,
        }.items()
    },
    "ToolGrammar.memory_limit": (lambda: tool_with("memory_limit", 10**9, isolation="process").memory_limit, 10**9),
    "SubAgentGrammar.agent": (lambda: sub_agent_with(agent="b").name, "b"),
    "SubAgentGrammar.ref": (lambda: sub_agent_with(ref="b").name, "b"),
    "SubAgentGrammar.parameters": (lambda: given_in("lead"), {"x": 7}),
    "SubAgentGrammar.name": (lambda: sub_agent_with(ref="b", name="n").name, "n"),
    "SubAgentGrammar.description": (lambda: sub_agent_with(ref="b", description="d")._description, "d"),
    "SubAgentGrammar.allow": (lambda: sub_agent_with(ref="b", allow=["x"]).allow, ("x",)),
    "SubAgentGrammar.deny": (lambda: sub_agent_with(ref="b", deny=["x"]).deny, ("x",)),
    "SubAgentGrammar.timeout": (lambda: sub_agent_with(ref="b", timeout=7).timeout, 7),
    # memories, criteria, callbacks, budgets
    "InMemoryGrammar.type": (lambda: type(agent_with("memory", {"type": "in_memory"})).__name__, "InMemoryMemory"),
    "InMemoryGrammar.max_conversations": (lambda: memory_with(type="in_memory", max_conversations=7)["_most"], 7),
    "WindowedGrammar.type": (
        lambda: type(agent_with("memory", {"type": "windowed", "window_size": 2})).__name__,
        "WindowedMemory",
    ),
    "WindowedGrammar.window_size": (lambda: memory_with(type="windowed", window_size=7)["window"].turns, 7),
    "WindowedGrammar.tokens": (
        lambda: memory_with(type="windowed", window_size=7, tokens=9)["window"].tokens,
        9,
    ),
    "PersistentGrammar.type": (lambda: type(agent_with("memory", {"type": "persistent"})).__name__, "PersistentMemory"),
    "PersistentGrammar.window_size": (lambda: memory_with(type="persistent", window_size=7)["_window"], (7, None)),
    "PersistentGrammar.tokens": (lambda: memory_with(type="persistent", tokens=9)["_window"], (None, 9)),
    "PersistentGrammar.keep": (lambda: memory_with(type="persistent", keep=60)["_keep"], 60),
    "WindowedGrammar.max_conversations": (
        lambda: memory_with(type="windowed", window_size=1, max_conversations=7)["_most"],
        7,
    ),
    "MaxIterationsGrammar.type": (
        lambda: isinstance(criterion_with(type="max_iterations", max=7), MaxIterationsCriteria),
        True,
    ),
    "MaxIterationsGrammar.max": (lambda: criterion_with(type="max_iterations", max=7).limit, 7),
    "KeywordGrammar.type": (lambda: isinstance(criterion_with(type="keyword", keyword="DONE"), KeywordCriteria), True),
    "KeywordGrammar.keyword": (lambda: criterion_with(type="keyword", keyword="DONE").keyword, "DONE"),
    "StructuredOutputGrammar.type": (
        lambda: isinstance(criterion_with(type="structured_output"), StructuredOutputCriteria),
        True,
    ),
    "StructuredOutputGrammar.schema": (lambda: criterion_with(type="structured_output", schema=SCHEMA).schema, SCHEMA),
    "NamedGrammar.name": (
        lambda: (criterion_with(name="polite"), agent_with("callbacks", [{"name": "audit"}])),
        (polite, (AUDIT,)),
    ),
    "LoggingGrammar.type": (
        lambda: isinstance(agent_with("callbacks", [{"type": "logging"}])[0], LoggingCallback),
        True,
    ),
    "LoggingGrammar.contents": (lambda: logging_with(contents=True)["_contents"], True),
    "LoggingGrammar.logger": (lambda: logging_with(logger="shop.runs")["_log"], logging.getLogger("shop.runs")),
    **{
        f"{grammar}.{key}": (
            partial(guardrail_with, type=kind, check="why_not", **keys),
            (made, name, why_not, retry, None),
        )
        for grammar, kind, made, no in (
            ("InputGuardrailGrammar", "input_guardrail", "InputGuardrail", None),
            ("OutputGuardrailGrammar", "output_guardrail", "OutputGuardrail", False),
        )
        for key, keys, name, retry in (
            ("type", {}, "why_not", no),
            ("check", {}, "why_not", no),
            ("name", {"name": "polite"}, "polite", no),
        )
    },
    "OutputGuardrailGrammar.retry": (
        lambda: guardrail_with(type="output_guardrail", check="why_not", retry=True)[3],
        True,
    ),
    "OutputGuardrailGrammar.hold": (
        lambda: guardrail_with(type="output_guardrail", check="why_not", hold="turn")[4],
        "turn",
    ),
    "LoggingGrammar.level": (lambda: logging_with(level="debug")["_level"], logging.DEBUG),
    **{
        f"BudgetGrammar.{key}": (partial(budget_with, key, 7), 7)
        for key in ("total_tokens", "input_tokens", "output_tokens", "turns", "tool_calls", "seconds")
    },
    "CompactionGrammar.context_window": (partial(compaction_with, "context_window", 700), 700),
    "CompactionGrammar.threshold": (partial(compaction_with, "threshold", 0.5), 0.5),
    "CompactionGrammar.keep": (partial(compaction_with, "keep", 0.1), 0.1),
    "CompactionGrammar.model": (
        lambda: str(compaction_with("model", "openai:gpt-4o-mini")),
        "openai:gpt-4o-mini",
    ),
    "CompactionGrammar.prompt": (partial(compaction_with, "prompt", "Sum up."), "Sum up."),
    "CompactionGrammar.summary_tokens": (partial(compaction_with, "summary_tokens", 70), 70),
    "CompactionGrammar.prune": (partial(compaction_with, "prune", False), False),
    "BudgetGrammar.cost_usd": (lambda: budget_with("cost_usd", 0.5), 0.5),
    "BudgetGrammar.prices": (lambda: price_with(), {"m": Price(1, 2)}),
    "PriceGrammar.input": (lambda: price_with(input=7), {"m": Price(7, 2)}),
    "PriceGrammar.output": (lambda: price_with(output=7), {"m": Price(1, 7)}),
    "PriceGrammar.cached_input": (lambda: price_with(cached_input=7), {"m": Price(1, 2, 7)}),
    "PriceGrammar.cache_write": (lambda: price_with(cache_write=7), {"m": Price(1, 2, None, 7)}),
    "PriceGrammar.cache_write_1h": (lambda: price_with(cache_write_1h=7), {"m": Price(1, 2, None, None, 7)}),
    # workflows
    "RefGrammar.parameters": (lambda: given_in("s"), {"x": 7}),
    "RefGrammar.ref": (
        lambda: [
            r.id
            for r in loaded(workflows=[{"id": "w", "type": "parallel", "steps": [{"ref": "b"}]}]).parallel("w").children
        ],
        ["b"],
    ),
    **{
        f"{grammar}.{key}": (partial(group_option, kind, key, value), value)
        for grammar, kind in (("SequentialGrammar", "sequential"), ("ParallelGrammar", "parallel"))
        for key, value in (("id", "w"), ("description", "d"))
    },
    "SequentialGrammar.callbacks": (partial(watchers_of, "sequential"), ["LoggingCallback", "Audit"]),
    "ParallelGrammar.callbacks": (partial(watchers_of, "parallel"), ["LoggingCallback", "Audit"]),
    "GraphGrammar.callbacks": (partial(watchers_of, "workflow"), ["LoggingCallback", "Audit"]),
    "SequentialGrammar.type": (lambda: type(group_with("sequential")).__name__, "SequentialAgent"),
    "SequentialGrammar.steps": (lambda: len(group_with("sequential", steps=[{"ref": "a"}] * 2).steps), 2),
    "SequentialGrammar.pass_output": (lambda: group_with("sequential", pass_output=True).pass_output, True),
    "ParallelGrammar.type": (lambda: type(group_with("parallel")).__name__, "ParallelAgent"),
    "ParallelGrammar.steps": (lambda: len(group_with("parallel", steps=[{"ref": "a"}] * 2).children), 2),
    "ParallelGrammar.merge_strategy": (lambda: group_with("parallel", merge_strategy="first").merge, "first"),
    "ParallelGrammar.max_parallel": (lambda: group_with("parallel", max_parallel=7).max_parallel, 7),
    "ParallelGrammar.on_error": (lambda: group_with("parallel", on_error="collect").on_error, "collect"),
    **{
        f"GraphGrammar.{key}": (partial(graph_option, key, value), value)
        for key, value in (("id", "w"), ("description", "d"), ("max_parallel", 7))
    },
    "GraphGrammar.type": (lambda: task_with().name, "t"),
    "GraphGrammar.tasks": (lambda: task_with().name, "t"),
    "TaskGrammar.id": (lambda: task_with().name, "t"),
    "TaskGrammar.agent": (lambda: task_with().runner.id, "b"),
    "TaskGrammar.ref": (lambda: task_with(ref="b").runner.id, "b"),
    "TaskGrammar.parameters": (lambda: given_in("w"), {"x": 7}),
    "TaskGrammar.prompt": (lambda: task_with(prompt="Say ${x}").prompt, "Say ${x}"),
    "TaskGrammar.dependencies": (lambda: task_with(dependencies=["u"]).dependencies, ("u",)),
    "TaskGrammar.retries": (lambda: task_with(retries=7).retries, 7),
    "TaskGrammar.backoff": (lambda: task_with(backoff=[0, 7]).backoff, (0, 7)),
    "TaskGrammar.retry_on": (lambda: task_with(retry_on=["ConnectionError"]).retry_on, (ConnectionError,)),
    "TaskGrammar.when": (lambda: task_with(when="${u}", dependencies=["u"]).when, "${u}"),
    "TaskGrammar.for_each": (lambda: task_with(for_each="${list}").for_each, "${list}"),
    "TaskGrammar.until": (lambda: task_with(until="${t} == ok").until, "${t} == ok"),
    "TaskGrammar.max_repeats": (lambda: task_with(max_repeats=7).max_repeats, 7),
    # supervisors
    "SupervisorGrammar.id": (lambda: supervisor_with().id, "s"),
    "SupervisorGrammar.children": (lambda: [c.name for c in supervisor_with(children=["b", "a"]).children], ["b", "a"]),
    "SupervisorGrammar.strategy": (lambda: supervisor_with(strategy="one_for_all").strategy, OneForAll()),
    "SupervisorGrammar.max_restarts": (lambda: strategy_with("max_restarts", 7), 7),
    "SupervisorGrammar.within": (lambda: strategy_with("within", 7), 7),
    "SupervisorGrammar.backoff": (lambda: strategy_with("backoff", [1, 7]), (1, 7)),
    "SupervisorGrammar.decider": (lambda: strategy_with("decider", "decide"), decide),
    "ChildGrammar.ref": (lambda: [c.name for c in supervisor_with(children=[{"ref": "b"}]).children], ["b"]),
    "ChildGrammar.restart": (
        lambda: [
            isinstance(c, Child) and c.restart
            for c in supervisor_with(children=[{"ref": "b", "restart": "permanent"}]).children
        ],
        ["permanent"],
    ),
}
BY_FILE = {"SpecGrammar.include", "PromptFile.file"}
"""Keys that name files; `test_files` has them."""


OTHERS: dict[str, Row] = {
    "model": (lambda: loaded(agents=[{"id": "z", "model": {"name": "own_model"}}]).agent("z").model, OWN_MODEL),
    "system_prompt": (lambda: agent_with("system_prompt", {"name": "greet"}), greet),
    "memory": (lambda: agent_with("memory", {"name": "own_memory"}), OWN_MEMORY),
    "memories": (
        lambda: (
            loaded(memories={"m": {"name": "own_memory"}}, agents=[{"id": "z", "model": "rehearsal", "memory": "m"}])
            .agent("z")
            .memory
        ),
        OWN_MEMORY,
    ),
    "on_invalid_call": (lambda: agent_with("on_invalid_call", {"name": "repair"}), repair),
    "approval": (lambda: tool_option("approval", {"name": "is_large"}), is_large),
    "no approval": (lambda: tool_option("approval", False), False),
    "when": (lambda: task_with(when={"name": "is_spam"}).when, is_spam),
    "until": (lambda: task_with(until={"name": "is_spam"}).until, is_spam),
    "criterion": (lambda: agent_with("criteria", [{"name": "why_not"}]), (why_not,)),
}
"""Objects of the program that stand where something else may stand too."""


@pytest.mark.parametrize("place", OTHERS)
def test_a_registered_object_may_stand_in_a_place(place: str) -> None:
    probe, expected = OTHERS[place]

    assert probe() == expected


@pytest.mark.parametrize("key", ROWS)
def test_a_key_reaches_what_is_made(key: str) -> None:
    probe, expected = ROWS[key]

    assert probe() == expected


def every_grammar(top: type[Grammar], seen: set[type[Grammar]]) -> Iterator[type[Grammar]]:
    if top in seen:
        return
    seen.add(top)
    yield top
    for _, field in keys_of(top):
        yield from inside(field.annotation, seen)


def inside(annotation: object, seen: set[type[Grammar]]) -> Iterator[type[Grammar]]:
    for kind in alternatives(annotation):
        if is_grammar(kind):
            yield from every_grammar(kind, seen)
        for each in getattr(kind, "__args__", ()):
            yield from inside(each, seen)


def test_every_key_has_a_row() -> None:
    keys = {f"{grammar.__name__}.{key}" for grammar in every_grammar(SpecGrammar, set()) for key, _ in keys_of(grammar)}

    assert keys == ROWS.keys() | BY_FILE


def test_every_key_is_described() -> None:
    bare = [
        f"{grammar.__name__}.{key}"
        for grammar in every_grammar(SpecGrammar, set())
        for key, field in keys_of(grammar)
        if not field.description
    ]

    assert bare == []


def test_what_is_left_out_is_what_python_leaves_out() -> None:
    text = json.dumps({"agents": [{"id": "a", "model": "rehearsal"}]})
    made, same = SpecLoader().load_text(text).agent("a"), Agent("a", model="rehearsal")

    names = set(Agent.__slots__) - {"_output", "_overrides", "_run_spec", "tools_by_name", "__weakref__"}
    assert {name: getattr(made, name) for name in names} == {name: getattr(same, name) for name in names}
