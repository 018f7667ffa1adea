"""The children of a group's run that are under way, and alarms for those that are tried again later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from understudy.actors.run_view.failsafe import safely
from understudy.actors.run_view.log import ChildBegan
from understudy.actors.threads.alarms import Alarm, ring_at

from .record import RunRecord


class Inside:
    """One run inside of a run.

    Args:
        record: the run.
        fact: the log entry of its start.
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


class RetryAlarms:
    """The alarms of children that are tried again, by position. An alarm rings on a thread of the pool.

    Attributes:
        due: positions whose alarm has rung.
    """

    __slots__ = ("_alarms", "due")

    def __init__(self) -> None:
        self._alarms: dict[int, Alarm] = {}
        self.due: set[int] = set()

    def set(self, moment: float, position: int, wake: Callable[[], object]) -> None:
        """Call `wake` at a moment on the monotonic clock, unless the position has an alarm already."""
        if position not in self._alarms:
            self._alarms[position] = ring_at(moment, partial(self._ring, position, wake))

    def _ring(self, position: int, wake: Callable[[], object]) -> None:
        self.due.add(position)
        wake()

    def forget(self, position: int) -> None:
        """Forget the alarm of a child that begins or is over."""
        self.due.discard(position)
        self._alarms.pop(position, None)

    def call_off(self, record: RunRecord) -> None:
        """Let no alarm ring any more: the run around the children is over."""
        alarms, self._alarms = self._alarms, {}
        for alarm in alarms.values():
            safely(record, alarm.call_off)
