"""`Pace`: after a refusal, the rate at which requests go on; learned from how many the provider took before it refused."""

from __future__ import annotations

from math import inf

from .bucket import Bucket

SPARED = 0.9  # The first rate is this share of the one at which the provider answered.
GROWTH = 8.0  # After as many answers as there were before the refusal, the rate has grown by one part of so many.
FEWEST = 10.0  # Answers; for fewer the rate would grow faster than a refusal could tell that it is too high.
SLOWEST = 0.75  # Requests in the longest wait that was named: some providers refuse by chance, and each refusal would slow it down.
FORGOTTEN = 16.0  # A rate that grew to so many times the first one is none any more: the limit has gone.
PAUSE = 5.0  # Seconds without a request, after which a new count begins: the rate of an idle hour says nothing.
LONGEST_COUNT = 60.0  # Seconds: providers limit requests by the minute, or by less.


class Pace:
    """The learned rate of one key: none until a request was refused. Times are seconds on the caller's clock."""

    def __init__(self) -> None:
        self._bucket: Bucket | None = None
        self._first = 0.0
        """The rate when the last refusal came."""
        self._longest = 0.0
        """The longest wait that was named since there is a rate."""
        self._growth = GROWTH * FEWEST
        self._began = -inf
        """When the count of answers began."""
        self._answers = 0.0
        self._last = -inf
        """When the last request was sent."""
        self._changed = -inf
        """When a refusal last changed the rate."""

    @property
    def rate(self) -> float | None:
        """Requests a second, or None for no limit."""
        return None if self._bucket is None else self._bucket.rate

    def wait(self, now: float) -> float:
        """Return the seconds until the next request."""
        return 0.0 if self._bucket is None else self._bucket.wait(now, 1.0)

    def send(self, now: float) -> None:
        """Note a request."""
        if self._bucket is not None:
            self._bucket.take(now, 1.0)
        elif now - self._last > PAUSE:
            self._began, self._answers = now, 0.0
        if now - self._began > LONGEST_COUNT:  # the older half of the count goes
            self._began, self._answers = now - LONGEST_COUNT / 2, self._answers / 2
        self._last = now

    def succeeded(self) -> None:
        """Note an answer."""
        self._answers += 1.0
        if self._bucket is not None:
            self._bucket.rate *= 1.0 + 1.0 / self._growth
            if self._bucket.rate > FORGOTTEN * self._first:
                self._bucket = None

    def is_news(self, sent: float) -> bool:
        """Whether a refusal of a request that was sent then says more than the refusals before it."""
        return sent >= self._changed

    def refused(self, sent: float, now: float, until: float) -> None:
        """Note that a request sent at `sent` was refused, and that none is sent before `until`.

        Requests that were under way at the last refusal met the same limit, and do not make the rate lower again.
        """
        if self.is_news(sent):
            rate = SPARED * max(self._answers, 1.0) / max(until - self._began, 0.001)
            self._longest = max(until - now, 0.0 if self._bucket is None else self._longest)
            if self._bucket is not None and self._longest > 0.0:
                rate = max(rate, min(self._bucket.rate, SLOWEST / self._longest))
            self._first = rate
            self._growth = GROWTH * max(FEWEST, self._answers)
            self._changed = now
            self._bucket = Bucket(capacity=1.0, rate=self._first, level=1.0, at=until)
            self._began, self._answers = until, 0.0
        elif self._bucket is not None:
            self._bucket.at = max(self._bucket.at, until)
