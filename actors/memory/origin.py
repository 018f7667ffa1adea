"""What an actor of a memory keeps: an object that was given, or one that a class or function makes."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import cast

from understudy.orchestration.definitions.method_checks import fault_of_memory
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.runs.memory import InMemoryMemory, Memory, MemoryLike, WindowedMemory, makes_memory


def key_of(memory: MemoryLike) -> object:
    """Return what one actor is known by: the identity, for a memory of a user's need not be hashable.

    A bound method is another object each time it is looked up, so it counts by what it is.
    """
    return memory if isinstance(memory, MethodType) else id(memory)


class MemoryOrigin:
    """Makes the object of a memory's actor, if it was not given.

    Args:
        memory: what the agent was given.

    Attributes:
        given: the object that a restart keeps; None for one that is made.
        is_quick: whether it is a memory of this package, which never blocks; it is there from the start.
        name: what the address ends with.
    """

    __slots__ = ("_make", "given", "is_quick", "key", "name")

    def __init__(self, memory: MemoryLike) -> None:
        self.key = memory
        """Kept, so that nothing else gets its identity."""
        self._make: Callable[[], object] | None = None
        self.given: Memory | None = None
        kind: type[object] = memory if isinstance(memory, type) else type(memory)
        self.is_quick = kind in (InMemoryMemory, WindowedMemory)  # and no class of a user's made from them
        if not makes_memory(memory):
            self.given = cast(Memory, memory)
        elif self.is_quick:
            self.given = memory()
        else:
            self._make = memory
        name = kind.__name__ if self._make is None else str(getattr(memory, "__name__", kind.__name__))
        self.name = name if name.isidentifier() else "memory"

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
        if fault := fault_of_memory(made):
            raise WrongReturn(f"{self.name}, given as memory, made a {type(made).__name__}, which {fault}")
        return made
