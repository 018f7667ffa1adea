"""How many events a run has told, for the number of the next one."""

from __future__ import annotations

from .fact_events import ENDINGS, is_late, is_told
from .log import RunLog


def next_seq(log: RunLog, *, is_inner: bool) -> int:
    """Return the number of the event that comes after those that a run has told.

    Args:
        log: of the run, so far.
        is_inner: whether it is part of another run, which tells how this one ends or pauses.
    """
    return EventCount(log, is_inner=is_inner).next_seq()


class EventCount:
    """Counts the events of a run while its log grows; each call counts only what is new. For one thread at a time.

    Args:
        log: of the run.
        is_inner: whether it is part of another run, which tells how this one ends or pauses.
    """

    __slots__ = ("_is_inner", "_log", "_position", "_seq", "_under_way")

    def __init__(self, log: RunLog, *, is_inner: bool) -> None:
        self._log = log
        self._is_inner = is_inner
        self._position = 0
        self._seq = log.first_seq
        self._under_way: set[str] = set()

    def next_seq(self) -> int:
        """Return the number of the event that comes after those that the run has told."""
        facts = self._log.facts
        while self._position < len(facts):
            fact = facts[self._position]
            self._position += 1
            if is_late(fact, self._under_way) or (self._is_inner and isinstance(fact, ENDINGS)):
                continue
            self._seq += is_told(fact) and self._position - 1 not in self._log.told_before
        return self._seq
