"""`ChildQueue`: which children run, and which stand in line to."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable


class ChildQueue:
    """The children that may run, by position; each step costs what it changes, however many there are.

    Args:
        places: how many run at once; None for all.
        running: who runs.
        waiting: who is next, the lowest position first.
    """

    __slots__ = ("_places", "_waiting", "running")

    def __init__(self, places: int | None, running: Iterable[int], waiting: Iterable[int]) -> None:
        self._places = places
        self.running = set(running)
        self._waiting = sorted(waiting)

    def due(self) -> list[int]:
        """Return who runs, and whom there is room for besides, in order."""
        # One that goes on after a pause stands behind those that run, wherever it stands in the group.
        return sorted([*sorted(self.running), *self._waiting][: self._places])

    def admit(self) -> list[int]:
        """Let those run whom there is room for, and return them."""
        room = len(self._waiting) if self._places is None else max(0, self._places - len(self.running))
        admitted = self._waiting[:room]
        if admitted:
            del self._waiting[:room]
            self.running.update(admitted)
        return admitted

    def join(self, position: int) -> None:
        """Have one stand in line."""
        insort(self._waiting, position)

    def leave(self, position: int) -> None:
        """Forget one, wherever it stands; one that stands nowhere is no error."""
        self.running.discard(position)
        at = bisect_left(self._waiting, position)
        if self._waiting[at : at + 1] == [position]:
            del self._waiting[at]
