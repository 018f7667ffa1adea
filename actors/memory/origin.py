"""The object of a memory's actor: given by the user, or made by a class or function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, cast

from understudy.orchestration.definitions.method_checks import fault_of_memory
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.runs.memory import (
    InMemoryMemory,
    Memory,
    MemoryLike,
    WindowedMemory,
    makes_memory,
    never_blocks,
)

from .persistent import PersistentMemory, in_system, persistent_in

if TYPE_CHECKING:
    from understudy.actors.stores.store import Store


def key_of(memory: MemoryLike) -> object:
    """Return the key of a memory among actors: its identity, because a user's memory need not be hashable.

    A bound method is a new object at each look-up, so its key is the method itself, which compares by value.
    """
    return memory if isinstance(memory, MethodType) else id(memory)


class MemoryOrigin:
    """Makes the object of a memory's actor, if it was not given.

    Args:
        memory: what the agent was given.
        store: the system's, for a memory without one of its own.

    Attributes:
        given: the object that a restart keeps; None for one that is made.
        is_quick: whether it is a memory of this package, which never blocks; it is there from the start.
        persistent: the memory in a store, if it is one or a window of one. Its store is opened at the first message.
        name: what the address ends with.
    """

    __slots__ = ("_make", "given", "is_quick", "key", "name", "persistent")

    def __init__(self, memory: MemoryLike, store: Store) -> None:
        self.key = memory
        """Kept, so that nothing else gets its identity."""
        self._make: Callable[[], object] | None = None
        self.given: Memory | None = None
        kind: type[object] = memory if isinstance(memory, type) else type(memory)
        is_class = isinstance(memory, type)
        self.is_quick = kind in (InMemoryMemory, WindowedMemory) if is_class else never_blocks(memory)
        self.persistent: PersistentMemory | None = PersistentMemory() if memory is PersistentMemory else None
        if not is_class:
            self.persistent = persistent_in(memory)
        if self.persistent is not None:
            kept = self.persistent if is_class else cast(Memory, memory)
            self._make = partial(in_system, kept, store)
        elif not makes_memory(memory):
            self.given = cast(Memory, memory)
        elif self.is_quick:
            self.given = memory()
        else:
            self._make = memory
        made_by_user = self._make is not None and self.persistent is None
        name = kind.__name__ if not made_by_user else str(getattr(memory, "__name__", kind.__name__))
        self.name = name if name.isidentifier() else "memory"

    @property
    def takes_many(self) -> bool:
        """Whether any number of threads may use the object at once."""
        return self.is_quick or self.persistent is not None

    def make(self) -> Memory:
        """Return a new object. What its class or function raises is raised.

        Raises:
            WrongReturn: it is no memory.
        """
        assert self._make is not None
        made = self._make()
        if isinstance(made, type) or not isinstance(made, Memory):
            raise WrongReturn(
                f"{self.name}, given as memory, must make an object with load(), append() and clear(), "
                f"got {found_instead(made)}"
            )
        if persistent_in(made) is not None:
            raise WrongReturn(
                f"{self.name}, given as memory, made a {type(made).__name__}: give the object itself, which opens its store "
                "at the first use, so that runs can be granted their conversations there"
            )
        if fault := fault_of_memory(made):
            raise WrongReturn(f"{self.name}, given as memory, made a {type(made).__name__}, which {fault}")
        return made
