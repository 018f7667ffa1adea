"""The children of a group's run: those that are under way, how they end, and alarms for those that are tried again later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from understudy.actors.run_view.log import ChildBegan
from understudy.orchestration.runs.events import RunEvent
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.runs.outcomes import Outcome

from .record import RunRecord


class Inside:
    """One run inside of a run.

    Args:
        record: the run.
        fact: the log entry of its start.
        tell: tells the run around it which position is over.

    Attributes:
        launched: whether it began. A stay that crashes before that leaves it to the next one to begin it anew.
    """

    __slots__ = ("_tell", "fact", "launched", "record")

    def __init__(self, record: RunRecord, fact: ChildBegan, tell: Callable[[int], object]) -> None:
        self.record = record
        self.fact = fact
        self.launched = False
        self._tell = tell

    def ended(self) -> None:
        """Tell the run around it that it is over; on the thread that ended it."""
        self._tell(self.fact.position)


@dataclass(slots=True)
class ChildEnd:
    """How a run inside of a run ended or paused, as the run around it is told.

    Attributes:
        position: the child's.
        ending: its outcome or error, as callers are told; None if it was not to run.
        events: what the machine is told.
        error: the error itself, of which the events have the words.
        changes: what it changed of the session, for the run around it.
        retried: the error after which it is run again; None if it is not.
    """

    position: int
    ending: Outcome[object] | BaseException | None
    events: tuple[RunEvent, ...]
    error: Exception | None = None
    changes: SessionOverlay | None = None
    retried: BaseException | None = None


class RetryTimes:
    """When children are tried again, of a run that has one alarm for all of them.

    Attributes:
        due: positions whose time has come.
    """

    __slots__ = ("_heap", "_moments", "due")

    def __init__(self) -> None:
        self._moments: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self.due: set[int] = set()

    def set(self, moment: float, position: int) -> None:
        """Note a moment on the monotonic clock, unless the position has one already."""
        if self._moments.setdefault(position, moment) is moment:
            heappush(self._heap, (moment, position))

    def look(self, now: float) -> float:
        """Note the positions whose time has come; returns the next moment, which is infinite without one."""
        while self._heap and self._heap[0][0] <= now:
            moment, position = heappop(self._heap)
            if self._moments.get(position) == moment:  # else it was forgotten
                self.due.add(position)
        return self._heap[0][0] if self._heap else inf

    def forget(self, position: int) -> None:
        """Forget a child that begins or is over."""
        self.due.discard(position)
        self._moments.pop(position, None)

    def call_off(self, record: RunRecord) -> None:
        """Forget all: the run around the children is over."""
        self._moments.clear()
