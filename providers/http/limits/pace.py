"""`Pace`: after a refusal, the rate at which requests go on; learned from how many the provider took before it refused.

One refusal may be a stray one: the rate after it grows fast, and does not hold for a request while no other is under way, so that callers
that ask one thing after another are not slowed down. A refused request that kept to the rate confirms that there is a limit: from
then on the rate grows slowly. Where such refusals are few and name waits that do not fit the rate, they may come by chance, and
do not lower the rate without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from .bucket import Bucket

SPARED = 0.9  # The rate that follows is this share of the one at which the provider took requests.


@dataclass(slots=True)
class Measure:
    """What a refusal says of the provider's limit; the requests that were under way then say the rest.

    Attributes:
        taken: requests sent in this time and not refused. Answers take longer than refusals, so those without an answer count.
        began: when the time began.
        until: when the refusal lets the next request go. No request goes before, so the wait belongs to the time.
        lowest: the least rate that may follow.
        fewest: requests; fewer than these say too little for the rate to grow by their number.
    """

    taken: float
    began: float
    until: float
    lowest: float
    fewest: float

    @property
    def rate(self) -> float:
        """Requests a second that may be sent from now on."""
        return max(SPARED * max(self.taken, 1.0) / max(self.until - self.began, 0.001), self.lowest)


GROWTH = 8.0  # After as many answers as the provider took requests before the refusal, the rate has grown by one part of so many.
FEWEST_AT_FIRST = 2.0  # Requests, of which the growth counts at least so many after a first refusal,
FEWEST = 10.0  # and so many after a limit was confirmed: else the rate would grow faster than a refusal could tell that it is too high.
AHEAD = 2.0  # Seconds: a confirmed rate grows no faster than if the provider had taken the requests of so many seconds.
FORGOTTEN = 16.0  # A rate that grew to so many times the first one is none any more: the limit has gone.
PAUSE = 5.0  # Seconds without a request, after which a new count begins: the rate of an idle hour says nothing.
LONGEST_COUNT = 60.0  # Seconds: providers limit requests by the minute, or by less.

SLOWEST = 0.75  # Requests in the longest wait: the refusal that confirms a limit, or names no wait, slows requests down no further.
HELD = 4.0  # Requests in the longest wait: later refusals that name one slow requests down no further, if they may come by chance.
NEAR = 0.5  # Of the time between two requests: a shorter wait says that the rate is a little too high, and no chance does that.
MANY = 0.25  # More refused ones among the newest requests come from a rate that is too high.
NEWEST = 1 / 20  # The share of the newest request in that share.


class Pace:
    """The learned rate of one key: none until a request was refused. Times are seconds on the caller's clock."""

    def __init__(self) -> None:
        self._bucket: Bucket | None = None
        self._measure = Measure(0.0, -inf, -inf, 0.0, FEWEST)
        """What the newest refusal said, while there is a rate."""
        self._first = 0.0
        """The rate by this measure, before it grew."""
        self._growth = GROWTH * FEWEST
        self._longest = 0.0
        """The longest wait that was named since there is a rate."""
        self._is_confirmed = False
        self._refused = 0.0
        """The share of refused ones among the newest requests that were sent since there is a rate."""
        self._since = -inf
        """When the refusal came since which there is a rate."""
        self._began = -inf
        """When the count of requests began."""
        self._sent = 0.0
        self._last = -inf
        """When the last request was sent."""
        self._changed = -inf
        """When a refusal last changed the rate."""

    @property
    def rate(self) -> float | None:
        """Requests a second, or None for no limit."""
        return None if self._bucket is None else self._bucket.rate

    def wait(self, now: float, *, is_alone: bool) -> float:
        """Return the seconds until the next request; `is_alone` says that no other is under way."""
        if self._bucket is None or (is_alone and not self._is_confirmed):
            return 0.0
        return self._bucket.wait(now, 1.0)

    def send(self, now: float) -> None:
        """Note a request."""
        if self._bucket is not None:
            if self._bucket.wait(now, 1.0) <= 0.0:  # else it was alone
                self._bucket.take(now, 1.0)
        elif now - self._last > PAUSE:
            self._began, self._sent = now, 0.0
        if now - self._began > LONGEST_COUNT:  # the older half of the count goes
            self._began, self._sent = now - LONGEST_COUNT / 2, self._sent / 2
        self._sent += 1.0
        self._last = now

    def succeeded(self, sent: float) -> None:
        """Note an answer to a request sent at `sent`. Only those that kept to the rate say that it may grow."""
        if self._bucket is None:
            return
        self._count(sent, refused=0.0)
        if not self.is_news(sent):
            return
        self._bucket.rate *= 1.0 + 1.0 / self._growth
        if self._bucket.rate > FORGOTTEN * self._first:
            self._bucket = None

    def gave_up(self, sent: float) -> None:
        """Note that a request sent at `sent` failed otherwise: it was not refused, though it says nothing of the rate."""
        self._count(sent, refused=0.0)

    def _count(self, sent: float, *, refused: float) -> None:
        if sent > self._since:
            self._refused += NEWEST * (refused - self._refused)

    def is_news(self, sent: float) -> bool:
        """Whether a request sent then was sent after the last change of the rate, so that its refusal says something new."""
        return sent > self._changed

    def refused(self, sent: float, now: float, until: float, *, is_named: bool) -> None:
        """Note that a request sent at `sent` was refused, and that none is sent before `until`, which the provider named or not."""
        self._count(sent, refused=1.0)
        if self.is_news(sent):
            self._change(now, until, is_named)
        elif self._bucket is not None:
            self._correct(self._bucket, sent, until)

    def _change(self, now: float, until: float, is_named: bool) -> None:
        """Take a new rate from a refusal."""
        is_paced = self._bucket is not None
        if not is_paced:
            self._since, self._refused, self._longest = now, 0.0, 0.0
        self._longest = max(self._longest, until - now)
        lowest = self._lowest(until - now, is_named)
        self._is_confirmed = is_paced
        fewest = FEWEST if is_paced else FEWEST_AT_FIRST
        self._measure = Measure(self._sent - 1.0, self._began, until, lowest, fewest)
        self._first = self._measure.rate
        self._bucket = Bucket(capacity=1.0, rate=self._first, level=1.0, at=until)
        self._began, self._sent, self._changed = until, 0.0, now
        self._set_growth()

    def _correct(self, bucket: Bucket, sent: float, until: float) -> None:
        """Take a refusal of a request that was under way when the rate changed: the provider took one less than was counted."""
        measure = self._measure
        bucket.at = max(bucket.at, until)
        if sent >= measure.began:
            measure.taken -= 1.0
        if self._last <= self._changed:  # none was sent since then
            self._began = measure.until = max(measure.until, until)
        before, self._first = self._first, measure.rate
        bucket.rate *= self._first / before
        self._set_growth()

    def _set_growth(self) -> None:
        ahead = AHEAD * self._first if self._is_confirmed else 0.0
        self._growth = GROWTH * max(self._measure.fewest, self._measure.taken, ahead)

    def _lowest(self, wait: float, is_named: bool) -> float:
        """Return the rate that a refusal leaves at least: refusals by chance would slow requests down without end."""
        rate = self.rate
        if rate is None:
            return 0.0
        if self._is_confirmed and self._refused > MANY:
            self._refused = 0.0
            return 0.0
        if self._longest <= 0.0 or (self._is_confirmed and is_named and wait * rate < NEAR):
            return 0.0
        held = HELD if self._is_confirmed and is_named else SLOWEST
        return min(rate, held / self._longest)
