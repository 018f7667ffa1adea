"""Arguments of agents in other libraries, and what to write here: `Agent` says it where it gets one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from understudy.vocabulary.messages import Settings
from understudy.vocabulary.other_names import explained

F = TypeVar("F", bound=Callable[..., None])

_ELSEWHERE = {
    **{field.name: f"use settings=us.Settings({field.name}=…)" for field in fields(Settings)},
    "name": "its first argument is the id, which names it",
    "instructions": "use system_prompt=",
    "prompt": "use system_prompt=",
    "system": "use system_prompt=",
    "system_message": "use system_prompt=",
    "agents": "use sub_agents=",
    "handoffs": "use sub_agents=",
    "output": "use output_type=",
    "response_format": "use output_type=",
    "result_type": "use output_type=",
}
"""Argument of other libraries -> what to do instead."""


def of_agent(init: F) -> F:
    """Make the constructor of an agent name the right argument where it gets an unknown one."""
    return explained(init, "an agent", _ELSEWHERE)
