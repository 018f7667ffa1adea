"""Makes and checks model clients for agents that set an address or limits of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import cast

from understudy.providers.catalogue import client_of, resolve, with_api
from understudy.specs.grammar.agent import AgentGrammar
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import listed
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.models import Model, ModelName

from .registered_objects import MODEL
from .registry import Registered

OPTIONS = {
    "base_url": "base_url",
    "api_version": "api_version",
    "project": "project",
    "location": "location",
    "betas": "betas",
    "endpoint": "endpoint",
    "attempt_timeout": "timeout",
    "idle_timeout": "idle_timeout",
    "attempts": "attempts",
    "max_in_flight": "max_in_flight",
    "max_reply_bytes": "max_reply_bytes",
}
"""Key of an agent -> argument of the model classes."""

Client = tuple[ModelName, tuple[tuple[str, object], ...]]
"""Identifies a client: agents with equal values share one."""


def options_of(agent: AgentGrammar) -> dict[str, object]:
    """Return the options that an agent sets for its model's client, as arguments of the class."""
    given = {option: getattr(agent, key) for key, option in OPTIONS.items()}
    # A tuple can be compared by its hash, as agents with equal options share a client.
    return {
        option: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for option, value in given.items()
        if value is not None
    }


def model_string(provider: str | None, model: str | None) -> str:
    """Return `PROVIDER:MODEL` from the two keys; either key may name the provider."""
    if provider is None:
        return model or ""
    return provider if model is None else f"{provider}:{model}"


def located_model(agent: LocatedValue, registered: Registered) -> Model | None:
    """Return the model that an agent's keys name, as the builder makes it; None if a registered one is missing.

    Raises:
        TypeError: the provider does not have an option that the agent sets.
        ValueError: the model string or an option is wrong.
    """
    at = agent.at("model")
    if at.is_mapping:
        named = at.at("name").text
        return None if named is None or registered.problem(MODEL, named) else registered.get(MODEL, named)
    name = ModelName.parse(model_string(agent.at("provider").text, at.text))
    options: dict[str, object] = {
        option: agent.at(key).value for key, option in OPTIONS.items() if agent.at(key).value is not None
    }
    return client(name, options) if options else resolve(name)


def models_in_turn(agent: LocatedValue, registered: Registered) -> list[tuple[LocatedValue, Model]]:
    """Return the models that an agent's keys name, the usual one first, each with its place; without those that cannot be made."""
    found: list[tuple[LocatedValue, Model]] = []
    with suppress(TypeError, ValueError):
        model = located_model(agent, registered)
        found += [] if model is None else [(agent.at("model"), model)]
    for each in agent.at("fallback").items():
        with suppress(ValueError):
            found += [] if each.text is None else [(each, resolve(ModelName.parse(each.text)))]
    return found


def client(name: ModelName, options: dict[str, object]) -> Model:
    """Make a client.

    Raises:
        TypeError: the provider does not have this option, or has no options.
        ValueError: an option is out of range.
    """
    address = options.get("base_url")
    make = cast("Callable[..., Model]", client_of(with_api(name, address if isinstance(address, str) else None)))
    return make(name.model, **options)


def option_problem(name: ModelName, key: str, value: JsonValue) -> str:
    """Return why a key of an agent cannot be an option of its model's client; empty if it can, or is no option."""
    if key not in OPTIONS or value is None:
        return ""
    taken = _taken_by(name)
    if OPTIONS[key] not in taken:
        known = listed([key for key, option in OPTIONS.items() if option in taken], "no such options")
        return f"{name.provider} has no {key!r}; it takes {known}"
    if not isinstance(value, str | list):
        return ""
    try:
        client(name if name.model.isprintable() else replace(name, model="a-model"), {OPTIONS[key]: value})
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _taken_by(name: ModelName) -> set[str]:
    made = client_of(name)
    return set() if made is None else set(inspect.signature(made).parameters)
