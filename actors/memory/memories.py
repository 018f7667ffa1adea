"""The memories of one system: an actor for each object, class or function that agents were given, however many have it."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.seated_cell import Addresses
from understudy.vocabulary.runs.conversations import Erased
from understudy.vocabulary.runs.memory import ConversationKey, InMemoryMemory, Memory

from .memory_actor import AnyMessage, Clear, MemoryActor, MemoryOrigin, key_of

if TYPE_CHECKING:
    from understudy.actors.stores.store import Store
    from understudy.orchestration import Agent


class Memories:
    """Finds the actor of a memory. Safe to use from any thread.

    Args:
        system: the name of the system.
        events: where dead letters go.
        store: the system's, for memories without one of their own.
    """

    def __init__(self, system: str, events: EventStream, store: Store) -> None:
        self._store = store
        self._app = system
        self._events = events
        self._lock = threading.Lock()
        """Guards the tables, so that each memory has one actor. Nobody's code runs under it."""
        self._of_agents: weakref.WeakKeyDictionary[Agent[object], MemoryActor] = weakref.WeakKeyDictionary()
        """An actor lives as long as an agent that has its memory."""
        self._by_memory: weakref.WeakValueDictionary[object, MemoryActor] = weakref.WeakValueDictionary()
        """By `key_of` the memory, which its actor keeps alive."""
        self._addresses: Addresses[AnyMessage] = Addresses(f"{system}/memories")

    @property
    def has_store(self) -> bool:
        """Whether memories in the system's store outlive the system."""
        return self._store.database is not None

    def of(self, agent: Agent[object]) -> MemoryActor | None:
        """Return the actor of an agent's memory, made now if it is the first message; None if the agent has no memory."""
        memory = agent.memory
        if memory is None:
            return None
        with self._lock:
            actor = self._of_agents.get(agent)
        return self._add(agent, MemoryOrigin(memory, self._store)) if actor is None else actor

    def _add(self, agent: Agent[object], origin: MemoryOrigin) -> MemoryActor:
        key = key_of(origin.key)
        with self._lock:
            actor = self._by_memory.get(key)
            if actor is None:
                address = self._addresses.free(origin.name)
                actor = self._by_memory[key] = MemoryActor(address, origin, f"memory of {agent.id}", self._events)
                self._addresses.add(actor)
            return self._of_agents.setdefault(agent, actor)

    def erase(self, user: str) -> Erased:
        """Erase a user from the memories of this system, and from stores that they have of their own.

        Memories that users wrote are left alone: their authors erase them.

        Raises:
            StoreError: a store failed.
            AgentDown: the system has stopped.
        """
        with self._lock:
            actors = set(self._of_agents.values())
        erased = Erased()
        stores = {repr(self._store): self._store}
        for actor in actors:
            if actor.persistent is not None:
                store = actor.persistent.store_in(self._store)
                stores[repr(store)] = store
            elif actor.is_quick:
                erased += actor.call_quickly(
                    Clear(ConversationKey(self._app, user, ""), partial(_erase, self._app, user))
                )
        return sum([store.erase(user, self._app) for store in stores.values()], erased)

    def stop(self) -> None:
        """Refuse messages to all memories from now on; those in hand go on."""
        with self._lock:
            actors = self._addresses.close()
        for actor in actors:
            actor.stop()


def _erase(app: str, user: str, memory: Memory) -> Erased:
    return memory.erase(app, user) if isinstance(memory, InMemoryMemory) else Erased()
