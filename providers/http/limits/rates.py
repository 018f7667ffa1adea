"""`Rates`: decides when a request may be sent under the limits of one key. It reads no clock and waits for nothing."""

from __future__ import annotations

from itertools import chain
from math import inf

from understudy.vocabulary.backoff import backoff_wait

from .bucket import Bucket, per_minute
from .pace import Pace
from .told import TOKENS, Left, Told

LONGEST_STOP = (
    120.0  # Seconds. After a longer wait that a provider asks for or tells, one request looks whether it still holds.
)
FIRST_STOP = 0.5  # Seconds without requests after a refusal that names no wait; doubled each time.
LONGEST_GUESS = 8.0
RETRIES = 500.0  # Enough to try each of 256 calls again twice. Amazon's clients begin with the same number of tokens.
GIVEN_BACK = 0.2  # Retries per success: where nearly all fail, requests grow by this share at most.
TOKENS_PER_BYTE = 0.25  # Of a request in JSON, until answers have told how many tokens there were.
NEWEST = 0.2  # The share of the newest answer in the average.
MOST_TOKENS = 1e7  # Of one request: as many as the largest models read. An answer that counts more is wrong.


class Sent:
    """A request under the limits.

    Attributes:
        size: its bytes.
        at: when it was let go.
        tokens: how many tokens it was taken for; 0 while no limit was known.
    """

    __slots__ = ("at", "size", "tokens")

    def __init__(self, size: int) -> None:
        self.size = size
        self.at = -inf
        self.tokens = 0.0


class Rates:
    """The limits of one key; not safe to share between threads. Times are seconds on any one monotonic clock.

    Attributes:
        stopped_until: when requests may be sent again after a refusal.
        retries: how many failed requests may still be sent again.
    """

    def __init__(self) -> None:
        self.stopped_until = -inf
        self.retries = RETRIES
        self._own: dict[str, Bucket] = {}
        """Limits that the user set."""
        self._left: Left | None = None
        """What the newest answer says is left, until a request needs to know when there will be more."""
        self._left_requests = inf
        self._left_tokens = inf
        """What is left of these, without all that was sent since."""
        self._told: dict[str, Bucket] = {}
        """Limits that the newest answer tells, from then on."""
        self._looked = -inf
        """When an answer last told limits, or a request was last sent to look whether they still hold."""
        self._pace = Pace()
        self._is_limited = False
        """Whether a limit is known."""
        self._refusals = 0
        """Refusals without a wait, since the last success."""
        self._open = 0
        """Requests without an answer."""
        self._open_bytes = 0
        self._per_byte = TOKENS_PER_BYTE
        self._most_tokens = MOST_TOKENS
        """Of one request: what the user's limit gives in `LONGEST_STOP`, so that a wrong count stops nobody for longer."""

    def set_limits(self, requests: int | None, tokens: int | None, now: float) -> None:
        """Set the user's limits, in requests and tokens a minute; None for no limit. What was used before stays used."""
        before, self._own = self._own, {}
        for what, most in (("requests", requests), ("tokens", tokens)):
            if most is not None:
                self._own[what] = bucket = per_minute(most, now)
                if what in before:
                    bucket.keep_level(before[what], now, least=-bucket.rate * LONGEST_STOP)
        self._most_tokens = self._own["tokens"].rate * LONGEST_STOP if tokens is not None else MOST_TOKENS
        self._look(now)

    @property
    def pace(self) -> float | None:
        """The rate learned from refusals, in requests a second; None if there is none."""
        return self._pace.rate

    @property
    def is_open(self) -> bool:
        """Whether a request has no answer yet."""
        return self._open > 0

    # --- before a request

    def wait(self, now: float, size: int) -> float:
        """Return the seconds until a request of so many bytes may be sent, as far as is known now; 0 for at once."""
        wait = self.wait_for_provider(now, size)
        for what, bucket in self._own.items():
            wait = max(wait, bucket.wait(now, self._wanted(what, size)))
        return wait

    def wait_for_provider(self, now: float, size: int) -> float:
        """Return the same of what the provider said alone: refusals, and limits that answers tell."""
        if self._left is not None:
            self._read_if_short(self._left, now, size)
        wait = max(0.0, self.stopped_until - now, self._pace.wait(now, is_alone=self._open == 0))
        longest = self._looked + LONGEST_STOP - now  # a server may tell a clock's value where a length belongs
        for what, bucket in self._told.items():
            wait = max(wait, min(bucket.wait(now, self._wanted(what, size)), longest))
        return wait

    def admits(self, sent: Sent, now: float) -> bool:
        """Whether a request may be sent now; it counts as sent then."""
        if self._left is not None:
            self._read_if_short(self._left, now, sent.size)
        if self._is_limited and self.wait(now, sent.size) > 0.0:
            return False
        self.send(sent, now)
        return True

    def send(self, sent: Sent, now: float) -> None:
        """Note that a request is sent."""
        sent.at = now
        self._open += 1
        self._open_bytes += sent.size
        self._pace.send(now)
        if self._left is not None:
            self._left_requests -= 1.0
            self._left_tokens -= self._tokens(sent.size)
        if self._is_limited:
            sent.tokens = self._tokens(sent.size)
            if self._told and self._looked + LONGEST_STOP - now <= 0.0:
                self._looked = now
            for what, bucket in chain(self._own.items(), self._told.items()):
                bucket.take(now, self._wanted(what, sent.size))

    def _wanted(self, what: str, size: int) -> float:
        return self._tokens(size) if what in TOKENS else 1.0

    def _tokens(self, size: int) -> float:
        return min(size * self._per_byte, self._most_tokens)

    # --- after a request; each one is ended by one of these

    def succeeded(self, sent: Sent, now: float, used: float | None, left: Left | None = None) -> None:
        """Note an answer.

        Args:
            used: its tokens, those of the request included; None if the answer does not say.
            left: what it says of limits; None if nothing.
        """
        self._open -= 1  # as in `_close`; each answer comes here
        self._open_bytes -= sent.size
        self._refusals = 0
        if self.retries < RETRIES:
            self.retries = min(RETRIES, self.retries + GIVEN_BACK)
        if used is not None:
            if used > self._most_tokens:  # noqa: PLR1730 (min is a call of C for every answer, and costs a twentieth of all)
                used = self._most_tokens
            if sent.size:
                self._per_byte += NEWEST * (used / sent.size - self._per_byte)
        if self._is_limited:  # else there is neither a pace nor a limit of the user's
            self._pace.succeeded(sent.at)
            if used is not None and "tokens" in self._own:
                self._own["tokens"].take(now, used - sent.tokens)
        if left is not None or self._left is not None or self._is_limited:
            self._hear(left, now)

    def refused(self, sent: Sent, now: float, wait: float | None, left: Left | None = None) -> None:
        """Note that the provider asked to slow down. `wait` is how many seconds it named, None if it named none."""
        self._close(sent)
        is_news = self._pace.is_news(sent.at)
        if not is_news:  # nobody knew of the limit when it was sent, so its retry costs nothing
            self.retries = min(RETRIES, self.retries + 1.0)
        is_named = wait is not None
        if wait is None:
            wait = backoff_wait(FIRST_STOP, LONGEST_GUESS, self._refusals)
            self._refusals += is_news
        self.stopped_until = max(self.stopped_until, now + min(wait, LONGEST_STOP))
        self._pace.refused(sent.at, now, self.stopped_until, is_named=is_named)
        self._is_limited = True
        if left is not None:
            self._hear(left, now)

    def gave_up(self, sent: Sent) -> None:
        """Note that a request failed otherwise, or that nobody waits for its answer."""
        self._close(sent)
        self._pace.gave_up(sent.at)

    def take_retry(self) -> bool:
        """Take one retry of those that are left; False means that the request must not be sent again."""
        if self.retries < 1.0:
            return False
        self.retries -= 1.0
        return True

    def _close(self, sent: Sent) -> None:
        self._open -= 1
        self._open_bytes -= sent.size

    def _look(self, now: float) -> None:
        """Look whether any limit is known, for most keys have none that is near."""
        self._is_limited = bool(self._own or self._told or self._pace.rate is not None or self.stopped_until > now)

    def _hear(self, left: Left | None, now: float) -> None:
        """Take over how much an answer says is left. Requests under way count as not seen by the provider yet."""
        self._left = left
        if left is not None:
            self._looked = now
            self._left_requests = left.requests - self._open
            self._left_tokens = left.tokens - min(self._open_bytes * self._per_byte, self._open * self._most_tokens)
        if self._is_limited:
            self._told = {}
            self._look(now)

    def _read_if_short(self, left: Left, now: float, size: int) -> None:
        """Read when there will be more, if a request of so many bytes takes more than is left."""
        if self._left_requests >= 1.0 and self._left_tokens >= self._tokens(size):
            return
        self._left = None
        for what, said in left.limits().items():
            used = left.tokens - self._left_tokens if what in TOKENS else left.requests - self._left_requests
            bucket = _bucket_of(said, used, self._looked, now)
            if bucket is not None:
                self._told[what] = bucket
        self._look(now)


def _bucket_of(said: Told, used: float, told_at: float, now: float) -> Bucket | None:
    """Return a limit that was told then, and of which so much was used since; None if it does not say when there will be more.

    When it was used is not known. It counts as used now: a limit gives nothing back while it is full.
    """
    if not said.reset:
        return None
    limit = max(said.remaining + 1.0, said.limit or 0.0)
    rate = (limit - said.remaining) / said.reset
    level = min(limit, said.remaining + rate * (now - told_at)) - used
    return Bucket(capacity=limit, rate=rate, level=level, at=now)
