"""`ChildQueue`: the children that run, and those that wait for a place."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable


class ChildQueue:
    """The children that may run, by position. A step costs what it changes, however many children there are.

    Args:
        places: how many run at once; None for all.
        running: positions of the children that run.
        waiting: positions of the children that wait; the lowest runs first.
    """

    __slots__ = ("_places", "_waiting", "running")

    def __init__(self, places: int | None, running: Iterable[int], waiting: Iterable[int]) -> None:
        self._places = places
        self.running = set(running)
        self._waiting = sorted(waiting)

    def due(self) -> list[int]:
        """Return the positions that run now, and those for which a place is free, in order."""
        # A child that goes on after a pause waits behind the running ones, whatever its position.
        return sorted([*sorted(self.running), *self._waiting][: self._places])

    def admit(self) -> list[int]:
        """Move waiting children to the free places, and return their positions."""
        room = len(self._waiting) if self._places is None else max(0, self._places - len(self.running))
        admitted = self._waiting[:room]
        if admitted:
            del self._waiting[:room]
            self.running.update(admitted)
        return admitted

    def join(self, position: int) -> None:
        """Put a child into the queue."""
        insort(self._waiting, position)

    def leave(self, position: int) -> None:
        """Remove a child that runs or waits; no error if it does neither."""
        self.running.discard(position)
        at = bisect_left(self._waiting, position)
        if self._waiting[at : at + 1] == [position]:
            del self._waiting[at]
