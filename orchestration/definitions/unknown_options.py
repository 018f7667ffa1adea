"""Arguments of agents and runs in other libraries: the error of a wrong one says what to write here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TypeVar

from understudy.vocabulary.messages import Settings
from understudy.vocabulary.other_names import OF_AGENTS, OF_RUNS, OF_SYSTEMS, explained

F = TypeVar("F", bound=Callable[..., object])

_ELSEWHERE = {
    **{field.name: f"use settings=us.Settings({field.name}=…)" for field in fields(Settings)},
    **{name: f"use {ours}=" for name, ours in OF_AGENTS.items()},
    **dict.fromkeys(OF_SYSTEMS, "use us.ActorSystem(store=…)"),
    "deps_type": "deps need no type here; give the object itself to run(deps=…)",
    "name": "its first argument is the id, which names it",
}
"""Argument of other libraries -> what to do instead."""


def of_agent(init: F) -> F:
    """Make the constructor of an agent name the right argument where it gets an unknown one."""
    return explained(init, "an agent", _ELSEWHERE)


def of_run(runner: object) -> Mapping[str, str]:
    """Return what to do instead of arguments that a run of a runner, or of a reference to one, does not take.

    A workflow knows the names in its prompts.
    """
    names = getattr(getattr(runner, "agent", runner), "parameters", ())
    return {**OF_RUNS, **{name: f"use parameters={{{name!r}: …}}" for name in names}}
