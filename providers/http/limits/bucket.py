"""A bucket of permits that fills with time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

SHORTEST = 1e-6  # Seconds. A clock may not be able to add less to its time, and a wait for it would have no end.


@dataclass(slots=True)
class Bucket:
    """Permits for requests, or for tokens of a model; takes the time from its caller.

    Attributes:
        capacity: the most it holds.
        rate: permits that are added in a second.
        level: how many it has; below 0 if more was used than was known when it was taken.
        at: when it had `level`, in seconds on the caller's clock. Before that it gives nothing.
    """

    capacity: float
    rate: float
    level: float
    at: float

    def wait(self, now: float, wanted: float) -> float:
        """Return the seconds until it can give `wanted` permits, or all it can hold if that is less."""
        missing = min(wanted, self.capacity) - self._level(now)
        early = max(0.0, self.at - now)
        if missing <= 1e-9:  # the sum of many small additions is not exact
            return early
        return inf if self.rate <= 0 else early + max(SHORTEST, missing / self.rate)

    def take(self, now: float, permits: float) -> None:
        """Take permits, more than there are if need be; a negative number gives some back."""
        self.level, self.at = min(self.capacity, self._level(now) - permits), max(self.at, now)

    def keep_level(self, before: Bucket, now: float, *, least: float) -> None:
        """Have as many as the bucket in whose place it stands, and no fewer than `least`."""
        self.level, self.at = max(least, min(self.capacity, before._level(now))), max(before.at, now)

    def _level(self, now: float) -> float:
        return min(self.capacity, self.level + max(0.0, now - self.at) * self.rate)


def per_minute(permits: int, now: float) -> Bucket:
    """Return a bucket that gives no more than `permits` in any minute: a tenth of them may go at once."""
    burst = max(1.0, permits // 10)
    return Bucket(capacity=burst, rate=(permits - burst + 1) / 60, level=burst, at=now)
