"""The counters of an actor: how its messages ended. Each accepted message is counted once."""

from __future__ import annotations

import threading

from .envelope import Fate


class Counted:
    """What every actor counts. A class that derives from it makes both attributes in its constructor."""

    __slots__ = ()

    _counting: threading.Lock
    """Guards the counts that several threads may raise at once."""
    _counts: list[int]
    """By fate."""

    def _count(self, fate: Fate) -> None:
        with self._counting:  # an addition reads and writes: of two at once, one would be lost
            self._counts[fate] += 1

    def count_failure(self) -> None:
        """Count a failure in a part of this actor that runs elsewhere, such as the driver of a run."""
        self._count(Fate.FAILED)

    @property
    def counts(self) -> dict[Fate, int]:
        """How many messages ended in which way."""
        return {fate: self._counts[fate] for fate in Fate}
