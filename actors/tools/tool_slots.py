"""The slots of the tools of one system, and the toolsets behind theirs.

A toolset stands behind one slot: the call that has it may use the object, and no other does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping

from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.threads.slots import Slots
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.origin import Key, Origin

from .tool_call import ToolCallTask, ToolRun, ToolSlots


class ToolsetInstance(Slots[ToolCallTask]):
    """One toolset's slot, and the object behind it."""

    def __init__(self) -> None:
        super().__init__(1)
        self._made: object = None

    def toolset(self, origin: Origin) -> object:
        """Return the object, made at the first call; only for the call that has the slot. What its class raises is raised."""
        if origin.given is not None:  # not kept here: who gave it may let go of it
            return origin.given
        if self._made is None:
            self._made = origin.make()
        return self._made


class ToolsetInstances:
    """Finds the home of a call's toolset. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the tables, so that each object has one home."""
        self._given: weakref.WeakKeyDictionary[Key, ToolsetInstance] = weakref.WeakKeyDictionary()
        self._made: weakref.WeakKeyDictionary[ActorCell, tuple[int, dict[Origin, ToolsetInstance]]] = (
            weakref.WeakKeyDictionary()
        )
        """Agent's actor -> how often it had been restarted, and what was made for it since."""

    def of(self, cell: ActorCell, origin: Origin) -> ToolsetInstance:
        """Return where a toolset is now: for an object that was given the same for all, else one of the agent's actor.

        After a restart of the actor it is a new one; calls that are under way go on in the one before.
        """
        with self._lock:
            key = origin.key
            if key is not None:
                return self._given.setdefault(key, ToolsetInstance())
            restarts = cell.restarts
            made = self._made.get(cell)
            if made is None or made[0] != restarts:
                made = self._made[cell] = (restarts, {})
            return made[1].setdefault(origin, ToolsetInstance())


class SlotsOfTools:
    """The slots of the tools of one system, shared by all its runs. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the table, so that each tool has one set of slots."""
        self._slots: weakref.WeakKeyDictionary[Tool[..., object], ToolSlots] = weakref.WeakKeyDictionary()
        self._homes = ToolsetInstances()

    def of(self, tool: Tool[..., object], record: ToolRun) -> ToolSlots | None:
        """Return the slots of a tool; None for one that does not say `max_parallel` and is of no toolset."""
        if tool.toolset is not None:
            return self._homes.of(record.cell, tool.toolset)
        if tool.max_parallel is None:
            return None
        with self._lock:
            slots = self._slots.get(tool)
            if slots is None:
                slots = self._slots[tool] = Slots(tool.max_parallel)
            return slots


def call_tool(order: ToolCallTask, arguments: Mapping[str, object]) -> object:
    """Call the tool's function, with its toolset if it is of one, and return what that returns."""
    origin = order.tool.toolset
    if origin is None:
        return order.tool(**arguments)
    assert isinstance(order.slots, ToolsetInstance)
    return order.tool(order.slots.toolset(origin), **arguments)
