"""Checks of the arguments of agents, groups and workflows: each returns the argument, ready for use, or raises.

All take the id first, for the error: `TypeError` for a value of the wrong kind, `ValueError` for a wrong one. What groups and
workflows have too takes what the id is of as `kind`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import get_args

from understudy.errors import RunError
from understudy.vocabulary.answers.output_type import OutputMode, OutputType
from understudy.vocabulary.answers.strict_schemas import strict_arguments
from understudy.vocabulary.checks import Unset, checked_seconds, checked_text, checked_whole
from understudy.vocabulary.context.account import no_price
from understudy.vocabulary.context.budget import Budget, Price
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import Settings
from understudy.vocabulary.models import Model, ModelLike, ModelName, check_settings, names_of
from understudy.vocabulary.runs.compacted_memory import CompactedMemory
from understudy.vocabulary.runs.compaction import Compaction
from understudy.vocabulary.runs.memory import MemoryLike
from understudy.vocabulary.settings import beside_cache, two_tools
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.toolset import ToolSource, is_toolset, tools_in

from .method_checks import fault_of_memory
from .port import client_of

SystemPrompt = str | Callable[[RunContext], str]
OUTPUT_MODES: tuple[str, ...] = get_args(OutputMode)
_USUAL = Settings()  # Made once, because most agents have no others.
ID = re.compile(r"\S(.{0,126}\S)?")  # Ids stand in logs, addresses and specs: no edges of white space, one line.


def checked_id(id: str, kind: str = "agent") -> str:
    """Return an id that names something in logs, addresses and specs."""
    if not isinstance(id, str):
        raise TypeError(f"{_a(kind)}'s id must be a string, got {id!r}")
    if not ID.fullmatch(id):
        raise ValueError(f"{_a(kind)}'s id must be 1 to 128 characters on one line, without edges of space; got {id!r}")
    return id


def _a(kind: str) -> str:
    return f"an {kind}" if kind.startswith("a") else f"a {kind}"


def checked_model(id: str, model: ModelLike) -> ModelName | Model:
    """Return a model object, or the parts of a model string; the key is not looked for."""
    if isinstance(model, str):
        try:
            return ModelName.parse(model)
        except ValueError as error:
            raise ValueError(f"agent {id!r}: {error}") from None
    # The class first: it is looked up once, while `isinstance` of a protocol goes through its attributes at each call.
    if not (issubclass(type(model), Model) or isinstance(model, Model)) or isinstance(model, type):
        hint = (
            "; a function becomes a model by FunctionModel of understudy.testing"
            if isinstance(model, FunctionType)
            else ""
        )
        raise TypeError(
            f"agent {id!r}: model must be 'PROVIDER:MODEL' or have a complete() method, got {model!r}{hint}"
        )
    return model


def checked_prompt(id: str, prompt: SystemPrompt) -> SystemPrompt:
    """Return a text, or a function of the context."""
    if not isinstance(prompt, str) and not callable(prompt):
        raise TypeError(f"agent {id!r}: system_prompt must be a string or a function of the context, got {prompt!r}")
    return prompt


def checked_description(id: str, description: str, kind: str = "agent") -> str:
    """Return a text."""
    return checked_text(f"{kind} {id!r}: description", description)


def checked_settings(id: str, settings: Settings | None) -> Settings:
    """Return the settings, or the usual ones."""
    if settings is None:
        return _USUAL
    if not isinstance(settings, Settings):
        raise TypeError(f"agent {id!r}: settings must be Settings(…), got {type(settings).__name__}")
    return settings


def check_fit(id: str, settings: Settings, model: ModelName | Model) -> None:
    """Raise unless the model, by its API and its family, takes these settings."""
    if settings is _USUAL or settings == _USUAL:  # which every model takes; nothing is loaded to find that out
        return
    try:
        check_settings(client_of(model) if isinstance(model, ModelName) else model, settings)
    except ValueError as error:
        raise ValueError(f"agent {id!r}: {error}") from None
    except TypeError as error:
        raise TypeError(f"agent {id!r}: {error}") from None


def check_beside_cache(id: str, settings: Settings, *, prompt: bool, tools: bool) -> None:
    """Raise if the settings name a cache, and the agent has a system prompt or tools, which would be refused at each call."""
    if fault := beside_cache(settings.cache, prompt=prompt, tools=tools):
        raise ValueError(f"agent {id!r}: {fault}")


def checked_tools(
    id: str, tools: Iterable[ToolSource], settings: Settings, sub_agents: Sequence[Tool[..., object]] = ()
) -> tuple[Tool[..., object], ...]:
    """Return tools, sub-agents last, of different names that the settings fit."""
    if isinstance(tools, (str, Tool)) or not isinstance(tools, Iterable):
        raise TypeError(f"agent {id!r}: tools must be a list of functions, tools or toolsets, got {tools!r}")
    tools = tuple(tools)
    for each in tools:
        if not callable(each) and not is_toolset(each):
            raise TypeError(f"agent {id!r}: tools must hold functions, tools or toolsets, got {each!r} in it")
    made = (*[tool for given in tools for tool in tools_in(given)], *sub_agents)
    names = [tool.name for tool in made]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        ways = "tool(name=…), SubAgent(…, name=…)" if sub_agents else "tool(name=…)"
        raise ValueError(
            f"agent {id!r}: two tools are named {twice[0]!r}; give one another name: {ways}, or the prefix of a toolset"
        )
    if fault := two_tools(names, settings.extra):
        raise ValueError(f"agent {id!r}: {fault}")
    if settings.tool_choice not in ("auto", "none", "required", *names):
        raise ValueError(f"agent {id!r}: tool_choice {settings.tool_choice!r} is no tool of it")
    if settings.tool_choice == "required" and not names:
        raise ValueError(f"agent {id!r}: tool_choice 'required', but it has no tools")
    if settings.strict_tools:
        _check_strict(id, made)
    return made


def _check_strict(id: str, tools: Iterable[Tool[..., object]]) -> None:
    """Raise unless each tool can be strict; this builds the tools' schemas."""
    for tool in tools:
        try:
            strict_arguments(tool.name, tool.spec.schema)
        except ValueError as error:
            raise ValueError(f"agent {id!r}: {error}") from None


def checked_count(id: str, name: str, value: int, least: int, kind: str = "agent") -> int:
    """Return a whole number of at least `least`."""
    return checked_whole(f"{kind} {id!r}: {name}", value, least)


def checked_model_timeout(id: str, timeout: float | Unset | None) -> float | Unset | None:
    """Return a time span above 0, None for no limit, or UNSET."""
    return timeout if isinstance(timeout, Unset) else checked_seconds(f"agent {id!r}: model_timeout", timeout)


def checked_memory(id: str, memory: MemoryLike | None, *, has_rule: bool) -> MemoryLike | None:
    """Return a memory, what makes one, or None; `has_rule` says whether the agent has a rule for long conversations."""
    if memory is None or type(memory).__module__ == "understudy.vocabulary.runs.memory":  # ours need no check
        return memory
    if fault := fault_of_memory(memory):
        raise TypeError(f"agent {id!r}: memory must have load(), append() and clear(); {memory!r} {fault}")
    made: object = memory  # of its own: else the checks below would narrow the type of `memory`
    if not has_rule and isinstance(made, type) and issubclass(made, CompactedMemory):
        raise TypeError(
            f"agent {id!r}: the rule of a {made.__name__} is not known before it is made: give the rule to the agent too, "
            "Agent(compaction=…), or give the memory itself"
        )
    return memory


def checked_errors(where: str, errors: Iterable[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return classes of errors."""
    if isinstance(errors, (type, str)) or not isinstance(errors, Iterable):
        raise TypeError(f"{where} must be a list of exception classes, got {errors!r}")
    given = tuple(errors)
    for error in given:
        if not isinstance(error, type) or not issubclass(error, Exception):
            raise TypeError(f"{where} must hold exception classes, got {error!r} in it")
    return given


def checked_restarts(id: str, errors: Iterable[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return the classes of errors after which an agent is restarted."""
    given = checked_errors(f"agent {id!r}: restart_on", errors)
    endings = [error.__name__ for error in given if issubclass(error, RunError)]
    if endings:
        raise ValueError(f"agent {id!r}: restart_on cannot hold {endings[0]}, which says how a run ended")
    return given


def checked_budget(id: str, budget: Budget | None, model: ModelName | Model) -> Budget | None:
    """Return a budget that can be kept with this model."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise TypeError(f"agent {id!r}: budget must be Budget(…) or None, got {budget!r}")
    for name in names_of(model):
        if budget.cost_usd is not None and name not in budget.prices and Price.of(name) is None:
            raise no_price(id, name)
    return budget


def checked_rule(id: str, given: Compaction, budget: Budget | None) -> Compaction:
    """Return a rule for long conversations whose model has a price, if the budget limits dollars."""
    if not isinstance(given, Compaction):
        raise TypeError(f"agent {id!r}: compaction must be Compaction(…) or None, got {given!r}")
    if given.other_model is not None and budget is not None and budget.cost_usd is not None:
        for name in names_of(given.other_model):
            if name not in budget.prices and Price.of(name) is None:
                raise no_price(id, name)
    return given


def checked_output_mode(id: str, mode: OutputMode) -> OutputMode:
    """Return a known mode."""
    if mode not in OUTPUT_MODES:
        known = ", ".join(repr(known) for known in OUTPUT_MODES)
        raise ValueError(f"agent {id!r}: output_mode must be one of {known}; got {mode!r}")
    return mode


def checked_output_type(id: str, form: object) -> OutputType | None:
    """Return a type that answers must fit; None for any text."""
    return None if form is None or form is str else OutputType(form, f"agent {id!r}")
