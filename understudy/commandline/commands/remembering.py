"""Finds out whether the runs of a command remember their conversation, and for how long."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from understudy.actors.memory.persistent import persistent_in
from understudy.actors.stores.open_store import MEMORY
from understudy.orchestration import Agent
from understudy.vocabulary.runs.memory import InMemoryMemory

from .loading import agents_in
from .printing import warn

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner


def remembering(runner: Runner[object]) -> Runner[object]:
    """Return the runner with a memory of the conversation, if it can have one."""
    if any(agent.memory is not None for agent in agents_in([runner])):
        return runner
    if isinstance(runner, Agent):
        warn(f"{runner.id} has no memory in the spec; here it remembers until the chat ends")
        return runner.replace(memory=InMemoryMemory())
    warn(f"no agent of {runner.id} has a memory: each line is a run that knows nothing of the lines before it")
    return runner


def outlives_process(runner: Runner[object], arguments: argparse.Namespace) -> bool:
    """Return whether an agent keeps its conversations in a store that the next command can open."""
    found = [persistent_in(agent.memory) for agent in agents_in([runner])]
    return any(memory is not None and (memory.has_own_store or arguments.store != MEMORY) for memory in found)


def warn_if_forgotten(runner: Runner[object], arguments: argparse.Namespace) -> None:
    """Warn of a persistent memory without a store, and of a named conversation without a memory."""
    if outlives_process(runner, arguments):
        return
    if any(persistent_in(agent.memory) for agent in agents_in([runner])):
        warn(f"{runner.id} has a persistent memory; without --store it forgets everything when the command ends")
    elif arguments.conversation is not None and all(agent.memory is None for agent in agents_in([runner])):
        warn(f"no agent of {runner.id} has a memory: the conversation is neither known nor kept")
