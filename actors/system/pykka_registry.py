"""The actors and agents of a system in `pykka.ActorRegistry`, where a Pykka application finds and stops them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import pykka

from understudy.actors.actor.actor import Actor
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.actor.ref import ActorRef
from understudy.actors.cells.mailbox import new_envelope
from understudy.errors import MailboxFull
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT
from understudy.vocabulary.messages import Part

from .agent_ref import AgentRef

T = TypeVar("T")

pykka.Actor.register(Actor)  # so that `get_by_class(pykka.Actor)` finds them


class ActorEntry(ActorRef[object]):
    """A user's actor in Pykka's registry. A broadcast tells all entries a message, and must reach those behind a full mailbox."""

    __slots__ = ()

    def tell(self, message: object, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> None:
        """Send and go on, without an error: where there is no room, the message is a dead letter."""
        with contextlib.suppress(MailboxFull):
            super().tell(message, timeout=timeout)


class AgentEntry(AgentRef[T], Generic[T]):
    """An agent in Pykka's registry. A broadcast tells all entries a message, and must not begin a run for it."""

    __slots__ = ()

    def tell(self, message: str | Sequence[Part], *, timeout: float = DEFAULT_ASK_TIMEOUT) -> None:
        """Begin no run: the message is a dead letter. `ask` and `submit` begin one."""
        self._cell.events.dead_letter(self.address, "broadcast", new_envelope(message), message)


class RegistryEntries:
    """The entries of one system. An entry is removed when its actor stops, and does not go to a forked child.

    Args:
        system: where the runs of agents are to take place.
    """

    def __init__(self, system: object) -> None:
        self._system = system
        self._entries: dict[ActorCell, ActorRef[Any]] = {}
        """Each operation is one step of the interpreter, so several threads need no lock."""

    def add(self, cell: ActorCell, agent: Runner[object] | None) -> None:
        """Enter an actor, or an agent."""
        ref: ActorRef[Any] = ActorEntry(cell) if agent is None else AgentEntry(self._system, agent, cell)
        self._entries[cell] = ref
        pykka.ActorRegistry.register(ref)
        cell.stopped.when_done(partial(self._remove, cell))

    def _remove(self, cell: ActorCell) -> None:
        ref = self._entries.pop(cell, None)
        if ref is not None:
            _unregister([ref])

    def clear(self) -> None:
        """Remove all entries."""
        entries, self._entries = self._entries, {}
        _unregister(entries.values())

    def leave_to_parent(self) -> None:
        """Remove all entries in a forked child, where another thread of the parent may have held Pykka's lock."""
        pykka.ActorRegistry._actor_refs_lock = threading.RLock()  # pyright: ignore[reportPrivateUsage]
        self.clear()


def _unregister(entries: Iterable[ActorRef[Any]]) -> None:
    """Remove entries by identity: Pykka's own `unregister` calls `==` of each entry before, ten times slower among thousands."""
    gone = {id(entry) for entry in entries}
    registry = pykka.ActorRegistry
    with registry._actor_refs_lock:  # pyright: ignore[reportPrivateUsage]
        left = [each for each in registry._actor_refs if id(each) not in gone]  # pyright: ignore[reportPrivateUsage]
        registry._actor_refs[:] = left  # pyright: ignore[reportPrivateUsage]
