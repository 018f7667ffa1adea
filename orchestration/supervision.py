"""Decisions about failures: how many restarts are too many. Clocks are arguments."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

DEFAULT_MAX_RESTARTS = 3
DEFAULT_WITHIN = 5.0
LONGEST_BACKOFF = 30.0  # Seconds. What does not work after half a minute needs a person more than another second.


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimit:
    """How many restarts in how many seconds are borne; one more, and the actor is given up."""

    max_restarts: int = DEFAULT_MAX_RESTARTS
    within: float = DEFAULT_WITHIN

    def __post_init__(self) -> None:
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts must not be negative, got {self.max_restarts}")
        if not self.within > 0:
            raise ValueError(f"within must be above 0 seconds, got {self.within!r}")


class RestartBudget:
    """What is left of a `RestartLimit`, over a window that slides."""

    __slots__ = ("_limit", "_spent")

    def __init__(self, limit: RestartLimit) -> None:
        self._limit = limit
        self._spent: deque[float] = deque()

    def spend(self, now: float) -> bool:
        """Take one restart at `now`; False if the limit is reached. Erlang/OTP supervisor: intensity and period."""
        while self._spent and now - self._spent[0] > self._limit.within:
            self._spent.popleft()
        if len(self._spent) >= self._limit.max_restarts:
            return False
        self._spent.append(now)
        return True

    def renew(self) -> None:
        """Forget what was spent, after the actor has shown that it works."""
        self._spent.clear()
