"""Warnings about an agent's memory: a run takes no part in a conversation, or the conversations are kept nowhere."""

from __future__ import annotations

import sys
import warnings
import weakref
from typing import TYPE_CHECKING

from understudy.actors.memory.conversations import remembers
from understudy.actors.memory.persistent import PersistentMemory, persistent_in
from understudy.actors.run_view.errors import named
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import below
from understudy.vocabulary.runs.memory import MemoryNotUsed

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner

    from .run_manager import RunManager

MOST = 100  # Ids that are told of; a service that makes agents with ids of their own must not fill its log.

_looked_at: weakref.WeakSet[Runner[object]] = weakref.WeakSet()
"""Runners that had a run without a conversation. A race tells of one twice at the worst."""
_told: set[str] = set()
"""Ids that were told of: an agent that is made anew for each request is the same to people."""


_looked_at_without_store: weakref.WeakSet[Runner[object]] = weakref.WeakSet()
"""Runners that had a run with a conversation in a system without a store."""
_told_of_store: set[str] = set()
"""Ids that were told of it."""


def warn_of_lost_conversations(runner: Runner[object], runs: RunManager) -> None:
    """Warn once for each agent whose `PersistentMemory` has no store, of a run with a conversation."""
    if runs.memories.has_store or runner in _looked_at_without_store:
        return
    _looked_at_without_store.add(runner)
    agents = [each for each in (runner, *below([runner])) if isinstance(each, Agent)]
    lost = next((each.id for each in agents if _needs_store(each.memory)), None)
    if lost is None or lost in _told_of_store or len(_told_of_store) == MOST:
        return
    _told_of_store.add(lost)
    warnings.warn(
        f"agent {lost!r} has a PersistentMemory, and system {runs.app!r} has no store: its conversations end with the system. "
        "Give one of them a store, as by ActorSystem(store='sqlite:///shop.db') or us.configure(store='sqlite:///shop.db')",
        MemoryNotUsed,
        stacklevel=_depth_of_caller(),
    )


def _needs_store(memory: object) -> bool:
    found = persistent_in(memory)
    return memory is PersistentMemory or (found is not None and not found.has_own_store)


def warn_of_unused_memory(runner: Runner[object], options: RunOptions) -> None:
    """Warn once for each agent that its memory has no part in a run that its caller begins without a conversation."""
    if options.conversation_id is not None or options.history is not None or runner in _looked_at:
        return
    _looked_at.add(runner)
    if not remembers(runner, has_history=False) or runner.id in _told or len(_told) == MOST:
        return
    _told.add(runner.id)
    alone = isinstance(runner, Agent)
    has = "has a memory" if alone else "runs agents with a memory"
    instead = ", or history=[] to say that the run stands alone" if alone else ""
    warnings.warn(
        f"{named(runner)} {has}, and a run without conversation_id neither reads nor writes it; "
        f"pass conversation_id=…{instead}",
        MemoryNotUsed,
        stacklevel=_depth_of_caller(),
    )


def _depth_of_caller() -> int:
    """Return how far up the first frame is that is not the package's, counted from who asks: it is whose line is shown."""
    depth, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage] (documented all the same)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "understudy":
        depth, frame = depth + 1, frame.f_back
    return depth
