"""Checks the settings of agents by their models: each wrong one is a problem at its own place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from understudy.providers import FallbackModel
from understudy.specs.grammar.agent import SettingsGrammar
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem
from understudy.vocabulary.messages import JsonValue, Settings
from understudy.vocabulary.models import Model, check_settings
from understudy.vocabulary.settings import beside_cache

from .model_clients import models_in_turn
from .registry import Registered


def settings_of(described: SettingsGrammar, *, knows_tools: bool = True) -> Settings:
    """Make the settings that a spec describes.

    Args:
        knows_tools: whether all tools of the agent are loaded; if not, the choice of a tool is left out, for it may be one of
            a toolset whose file was not run.

    Raises:
        TypeError, ValueError: a value is wrong, or two contradict each other.
    """
    options = {name: getattr(described, name) for name in described.model_fields_set}
    if not knows_tools:
        options.pop("tool_choice", None)
    if options.get("reasoning") is False:  # YAML 1.1 reads `off` so
        options["reasoning"] = "off"
    options["stop"] = tuple(described.stop)
    return Settings(**options)


def check_agent_settings(agent: LocatedValue, registered: Registered) -> Iterator[Problem]:
    """Yield a problem for each setting that is wrong, or that the agent's model lacks.

    A check tells the first fault that it finds, so the setting at fault is taken away and the rest is checked again.
    """
    at = agent.at("settings")
    given = _of_right_shape(at)
    model = _model(agent, registered) if given else None
    while given:
        fault = _fault(given, model)
        if not fault:
            break
        key = _at_fault(given, model, fault)
        if not key:
            yield at.problem(fault)
            return
        yield at.at(key).problem(fault)
        del given[key]
    prompt, tools = agent.at("system_prompt"), [*agent.at("tools").items(), *agent.at("sub_agents").items()]
    if fault := beside_cache(given.get("cache"), prompt=prompt.value not in (None, ""), tools=bool(tools)):
        yield at.at("cache").problem(fault)


def _of_right_shape(settings: LocatedValue) -> dict[str, JsonValue]:
    """Return the settings that the grammar takes; it tells of the others itself."""
    return {key: at.value for key, at in settings.entries() if _described({key: at.value}) is not None}


def _described(given: Mapping[str, JsonValue]) -> SettingsGrammar | None:
    try:
        return SettingsGrammar.model_validate(given)
    except ValidationError:
        return None


def _model(agent: LocatedValue, registered: Registered) -> Model | None:
    """Return the model that is asked, with its fallbacks; None if the spec names none that can be made."""
    by_id = {id(model): model for _, model in models_in_turn(agent, registered)}  # a user's may have no hash
    models = list(by_id.values())
    return FallbackModel(models) if len(models) > 1 else next(iter(models), None)


def _fault(given: Mapping[str, JsonValue], model: Model | None) -> str:
    """Return the first fault of these settings; empty if there is none."""
    described = _described(given)
    assert described is not None  # each of them fits the grammar, which has no rule about several
    try:
        settings = settings_of(described)
    except (TypeError, ValueError) as error:
        return str(error)
    try:
        check_settings(model, settings)
    except ValueError as error:
        return str(error)
    except TypeError:  # the model's own check cannot be called, which is told when the agent is made
        return ""
    return ""


def _at_fault(given: Mapping[str, JsonValue], model: Model | None, fault: str) -> str:
    """Return the setting without which there is no such fault; of several, the one that the fault names first."""
    keys = [key for key in given if _fault({name: given[name] for name in given if name != key}, model) != fault]
    named = sorted([key for key in keys if key in fault], key=fault.index)
    return next(iter([*named, *keys]), "")
