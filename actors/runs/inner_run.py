"""One run inside of an orchestrator's run."""

from __future__ import annotations

from collections.abc import Callable

from understudy.actors.run_view.log import ChildBegan

from .record import RunRecord


class Inside:
    """One run inside of a run.

    Args:
        record: the run.
        fact: what the log tells of it.
        tell: tells the driver around it which position is over.

    Attributes:
        launched: whether it began. A driver that fails before that leaves it to the next one to begin it anew.
    """

    __slots__ = ("_tell", "fact", "launched", "record")

    def __init__(self, record: RunRecord, fact: ChildBegan, tell: Callable[[int], object]) -> None:
        self.record = record
        self.fact = fact
        self.launched = False
        self._tell = tell

    def ended(self) -> None:
        """Tell the driver around it that it is over; on the thread that ended it."""
        self._tell(self.fact.position)
