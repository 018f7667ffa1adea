"""The waits of an orchestrator's run for its children: for each of them, or for the first success."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.scope import Scope

from .graph import graph
from .waits import RaceWait, Wait


class ChildWaits(ABC):
    """The waits of one run. Each child that joins leaves once. Only the run calls the other methods than `leave`."""

    __slots__ = ()

    @abstractmethod
    def join(self, child: Link) -> None:
        """Wait for a child that is about to begin.

        Raises:
            CircularAgentCall: that would close a cycle; it is not waited for then.
            RunError: too many would wait for one another.
        """

    @abstractmethod
    def leave(self, child: Link) -> None:
        """Wait no longer for a child; any thread may call it."""

    def look(self) -> None:  # noqa: B027 (only a race is concerned)
        """Note that the run has something to do."""

    def settle(self) -> Sequence[Link]:
        """Note that the run has done what there was to do.

        Returns:
            A way from the run to itself, if it can never go on: its second link is the child that it waits for. Else nothing.
        """
        return ()


class EachChild(ChildWaits):
    """Waits for every child; a wait that would close a cycle through one of them is refused."""

    __slots__ = ("_scope", "_waiter", "_waits")

    def __init__(self, waiter: Link, scope: Scope) -> None:
        self._waiter = waiter
        self._scope = scope
        self._waits: dict[Link, Wait] = {}

    def join(self, child: Link) -> None:
        self._waits[child] = graph.begin(self._waiter, child, self._scope)

    def leave(self, child: Link) -> None:
        graph.end(self._waits.pop(child))


class FirstChild(ChildWaits):
    """Waits for any one child. At first the run has something to do; it holds up others only after `settle`."""

    __slots__ = ("_wait",)

    def __init__(self, waiter: Link, scope: Scope) -> None:
        self._wait = RaceWait(waiter, scope)

    def join(self, child: Link) -> None:
        graph.join(self._wait, child)

    def leave(self, child: Link) -> None:
        graph.leave(self._wait, child)

    def look(self) -> None:
        self._wait.race.driving.at_work = True

    def settle(self) -> Sequence[Link]:
        return graph.settle(self._wait)
