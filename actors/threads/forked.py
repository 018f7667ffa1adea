"""What a forked child of this process must make anew: one list of entries, called in a fixed order.

A forked child has one thread. Locks that other threads of the parent held are locked for ever there, and what those threads
were to do is the parent's. So each part of the runtime with such state has an entry here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import IntEnum, auto
from typing import NamedTuple

Call = Callable[[], object]


class Stage(IntEnum):
    """When an entry is called after a fork. Before the fork the order is reversed."""

    THREADS = auto()
    """The pool and the clock thread: all others may use them."""
    WAITS = auto()
    """The graph of waits."""
    TOOLS = auto()
    """Tool calls in this process, and worker processes."""
    STORES = auto()
    """Connections to files."""
    SYSTEMS = auto()
    """Memories and systems, with their actors and runs."""
    DEFAULT_SYSTEM = auto()
    """The choice of the default system."""


class _Entry(NamedTuple):
    stage: Stage
    before: Call | None
    in_parent: Call | None
    in_child: Call


class ForkRegistry:
    """Entries for forks. Each call is made even if others fail; then the first error is raised."""

    def __init__(self) -> None:
        self._entries: tuple[_Entry, ...] = ()

    def add(self, stage: Stage, in_child: Call, *, before: Call | None = None, in_parent: Call | None = None) -> None:
        """Add an entry; those of one stage are called in the order in which they were added.

        Args:
            stage: its place in the order.
            in_child: called in the child. A server that forks in C may call this one alone.
            before, in_parent: called in the parent, before and after the fork.
        """
        entry = _Entry(stage, before, in_parent, in_child)
        self._entries = tuple(sorted((*self._entries, entry), key=lambda each: each.stage))

    def before(self) -> None:
        """Prepare the parent for a fork."""
        _call_each([entry.before for entry in reversed(self._entries)])

    def in_parent(self) -> None:
        """Go on in the parent."""
        _call_each([entry.in_parent for entry in self._entries])

    def in_child(self) -> None:
        """Begin anew in the child."""
        _call_each([entry.in_child for entry in self._entries])


def _call_each(calls: Iterable[Call | None]) -> None:
    failure: BaseException | None = None
    for call in calls:
        try:
            if call is not None:
                call()
        except BaseException as error:  # the others must be called all the same
            failure = failure or error
    if failure is not None:
        raise failure


_registry = ForkRegistry()
at_fork = _registry.add

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_registry.before, after_in_parent=_registry.in_parent, after_in_child=_registry.in_child)
