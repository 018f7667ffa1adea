"""The executors of one system: the actor of each tool and of each toolset, with its seats.

The calls of a toolset's object run one at a time: the call that has the seat may use the object, and no other does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import partial

from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.seated_cell import Addresses, SeatedCell
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.origin import Key, Origin

from .tool_call import ToolCallTask


class Executor(SeatedCell[ToolCallTask]):
    """The actor of one tool, or of the object of a toolset. A call is its message.

    Args:
        address: its name.
        seats: how many calls may run at once; None for any number.
        events: where its dead letters go.
        before: the executor of the toolset's object before this one, which goes on counting here.
    """

    __slots__ = ("_made",)
    accepts = "calls of tools from runs of agents, and no messages by a reference"

    def __init__(self, address: str, seats: int | None, events: EventStream, before: Executor | None = None) -> None:
        super().__init__(address, seats, events)
        self._made: object = None
        if before is not None:
            self.count_on(before)

    def toolset(self, origin: Origin) -> object:
        """Return the object, made at the first call; only for the call that has the seat. What its class raises is raised."""
        if origin.given is not None:  # not kept here: who gave it may let go of it
            return origin.given
        if self._made is None:
            self._made = origin.make()
        return self._made

    def _content(self, message: ToolCallTask) -> object:
        return message.call


class _ToolRef(weakref.ref[Tool[..., object]]):
    """A weak reference that knows the identity of its tool when that is gone."""

    __slots__ = ("identity",)

    identity: int


class Executors:
    """Finds the executor of a tool. Safe to use from any thread.

    Args:
        system: the name of the system.
        events: where dead letters go.
    """

    def __init__(self, system: str, events: EventStream) -> None:
        self._events = events
        self._lock = threading.Lock()
        """Guards changes to the tables, so that each tool has one executor. The first table is read without it."""
        self._of_tools: dict[int, Executor] = {}
        """By the identity of the tool: a weak dictionary would cost each call more than everything else here."""
        self._alive: dict[int, _ToolRef] = {}
        """The tools of that table; one that is gone takes its entry out before anything else has its identity."""
        self._gone = partial(_forget, self._of_tools, self._alive)
        self._given: weakref.WeakKeyDictionary[Key, Executor] = weakref.WeakKeyDictionary()
        self._made: weakref.WeakKeyDictionary[ActorCell, dict[Origin, tuple[int, Executor]]] = (
            weakref.WeakKeyDictionary()
        )
        """Agent's actor -> toolset -> the generation of the actor that it was made for, and the executor."""
        self._addresses: Addresses[ToolCallTask] = Addresses(f"{system}/tools")

    def of(self, tool: Tool[..., object], cell: ActorCell) -> Executor:
        """Return the executor of a tool, made now if it is the first message.

        A toolset has one for all its methods: for an object that was given, one for all agents; for one that is made, one
        for each agent's actor. Once a restart of that actor is decided it is a new one; calls under way go on in the one before.
        """
        found = self._of_tools.get(id(tool))
        if found is not None:
            return found
        with self._lock:
            origin = tool.toolset
            if origin is None:
                return self._of_tool(tool)
            key = origin.key
            return self._of_made(cell, origin) if key is None else self._of_given(key, origin)

    def of_all(self, tools: Iterable[Tool[..., object]], cell: ActorCell) -> list[Executor]:
        """Return the executors of an agent's tools, each once; those of tools that were never called are made now."""
        return list(dict.fromkeys([self.of(tool, cell) for tool in tools]))

    def _of_tool(self, tool: Tool[..., object]) -> Executor:
        identity = id(tool)
        executor = self._of_tools.get(identity)
        if executor is None:
            executor = self._new(tool.name, tool.max_parallel)
            self._alive[identity] = alive = _ToolRef(tool, self._gone)
            alive.identity = identity
            self._of_tools[identity] = executor
        return executor

    def _of_given(self, key: Key, origin: Origin) -> Executor:
        executor = self._given.get(key)
        if executor is None:
            executor = self._given[key] = self._new(origin.cls.__name__, 1)
        return executor

    def _of_made(self, cell: ActorCell, origin: Origin) -> Executor:
        made = self._made.setdefault(cell, {})
        present = cell.generation
        generation, executor = made.get(origin, (0, None))
        if executor is None or generation != present:
            executor = self._new(origin.cls.__name__, 1, executor)
            made[origin] = (present, executor)
        return executor

    def _new(self, name: str, seats: int | None, before: Executor | None = None) -> Executor:
        address = self._addresses.free(name) if before is None else before.address
        executor = Executor(address, seats, self._events, before)
        self._addresses.add(executor)
        return executor

    def stop(self) -> None:
        """Have no executor accept any more calls; those under way go on."""
        with self._lock:
            executors = self._addresses.close()
        for executor in executors:
            executor.stop()


def _forget(of_tools: dict[int, Executor], alive: dict[int, _ToolRef], gone: _ToolRef) -> None:
    """Take out a tool that is gone. It may go at any moment on any thread, so no lock is taken here."""
    of_tools.pop(gone.identity, None)
    alive.pop(gone.identity, None)


def call_tool(order: ToolCallTask, arguments: Mapping[str, object]) -> object:
    """Call the tool's function, with its toolset if it is of one, and return what that returns."""
    origin = order.tool.toolset
    if origin is None:
        return order.tool(**arguments)
    assert isinstance(order.executor, Executor)
    return order.tool(order.executor.toolset(origin), **arguments)
