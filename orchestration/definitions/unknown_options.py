"""Arguments of agents in other libraries, and what to write here: `Agent` says it where it gets one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from understudy.vocabulary.messages import Settings
from understudy.vocabulary.other_names import OF_AGENTS, explained

F = TypeVar("F", bound=Callable[..., None])

_ELSEWHERE = {
    **{field.name: f"use settings=us.Settings({field.name}=…)" for field in fields(Settings)},
    **{name: f"use {ours}=" for name, ours in OF_AGENTS.items()},
    "name": "its first argument is the id, which names it",
}
"""Argument of other libraries -> what to do instead."""


def of_agent(init: F) -> F:
    """Make the constructor of an agent name the right argument where it gets an unknown one."""
    return explained(init, "an agent", _ELSEWHERE)
