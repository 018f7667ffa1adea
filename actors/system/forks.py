"""What a forked child does with the systems of its parent: their threads do not exist here, and their runs stay the parent's."""

from __future__ import annotations

import weakref
from typing import Protocol

from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.runs import memory


class Inherited(Protocol):
    """What a forked child has of its parent and cannot use as it is."""

    def leave_to_parent(self) -> None:
        """Make anew, in a forked child, what holds a lock, a thread or a run."""
        ...


systems: weakref.WeakSet[Inherited] = weakref.WeakSet()
"""All systems of this process."""


def _leave_to_parent() -> None:
    for system in list(systems):
        system.leave_to_parent()


at_fork(Stage.SYSTEMS, memory.begin_anew_in_child)
at_fork(Stage.SYSTEMS, _leave_to_parent)
