"""Which owners of runs have been silent for their lease: the rule of the lease, for a thread that looks again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

DOUBT = 0.6  # Part of a lease after which the silence of an owner is doubted.
PROVEN = 0.3  # Part of a lease for which the owner must be silent after this process could write.
LEAST_GAP = 0.5  # Seconds between two looks that count in full, however short the lease is.
GAP = 0.2  # The same as a part of the lease.


class Beating(NamedTuple):
    """An owner, at a look."""

    owner: str
    beats: int
    lease: float
    """Seconds without a beat after which its runs may be taken from it."""


@dataclass(slots=True)
class _Silence:
    beats: int
    seconds: float = 0.0
    """For how long the owner has been silent."""
    since_proof: float | None = None
    """For how long it has been silent since this process could write; None if this process has not tried."""


class SilenceWatch:
    """Measures for how long each owner has not beaten. For one thread.

    Only time in which this process looked counts: after a pause of its own, such as the sleep of the machine, others may have
    had a pause too. And an owner cannot beat while nobody can write into the store. So before the end of a lease
    this process must have written there, and the owner must be silent still.
    """

    def __init__(self) -> None:
        self._silences: dict[str, _Silence] = {}
        self._looked_at: float | None = None

    def look(self, found: Iterable[Beating], now: float) -> list[str]:
        """Return the owners whose leases are over.

        Args:
            found: all owners that have runs.
            now: the time on this process's monotonic clock.
        """
        gap = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        before, self._silences, over = self._silences, {}, list[str]()
        for each in found:
            silence = before.get(each.owner)
            if silence is None or silence.beats != each.beats:
                self._silences[each.owner] = _Silence(each.beats)
                continue
            self._silences[each.owner] = silence
            passed = min(gap, max(LEAST_GAP, GAP * each.lease))
            silence.seconds += passed
            if silence.since_proof is not None:
                silence.since_proof += passed
                if silence.seconds >= each.lease and silence.since_proof >= PROVEN * each.lease:
                    over.append(each.owner)
        return over

    def doubted(self, found: Iterable[Beating]) -> list[str]:
        """Return the owners for which this process must prove that it can write."""
        return [each.owner for each in found if self._is_doubted(self._silences.get(each.owner), each.lease)]

    def _is_doubted(self, silence: _Silence | None, lease: float) -> bool:
        return silence is not None and silence.since_proof is None and silence.seconds >= DOUBT * lease

    def proved(self, owner: str) -> None:
        """Note that this process has just written into the store, while the owner was silent."""
        self._silences[owner].since_proof = 0.0

    def begin_anew(self) -> None:
        """Forget what was seen, because the store failed: the owners could not beat either."""
        self._silences.clear()
