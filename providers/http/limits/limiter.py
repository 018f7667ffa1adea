"""`Limiter`: makes the calls with one key wait for each other, as `Rates` decides."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Self

from understudy.errors import ProviderError, ProviderTimeout, RateLimited
from understudy.providers.http.elsewhere import is_asked_elsewhere
from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.in_flight import InFlight
from understudy.vocabulary.context.scope import Scope, current_scope
from understudy.vocabulary.messages import Usage

from .rates import Rates, Sent
from .settings import NO_SETTINGS, Settings
from .told import left_by


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFigures:
    """The limits of one key at one provider, at one moment. The key itself is not known here."""

    name: str
    """Provider, family of models and address."""
    taken: int
    """Calls in flight, without those of clients that have a `max_in_flight` of their own."""
    in_flight: int
    """How many may be."""
    waiting: int
    """Calls that wait for a place, or for their time."""
    stopped_for: float
    """Seconds in which no request is sent, because the provider asked for it; 0 if any may be."""
    pace: float | None
    """Requests a second since the provider refused some; None if it refused none lately."""
    retries: int
    """How many failed requests may still be sent again; successes add to it."""


BUSY = (503, 529)  # Statuses that name a wait when the provider is overloaded, as 429 does for one key.
WORTH_ANOTHER = 1.0  # Seconds. A longer wait for told or learned limits is worth the price of another model.
_NO_HEADERS: Mapping[str, str] = {}

Sleep = Callable[[float], None]


class Limiter:
    """The limits of one key for models of one family; safe to share between threads.

    Args:
        name: names it in errors and figures, without the key.
        settings: what the user set.
        clock: a monotonic clock in seconds.
        wall_clock: seconds since the epoch, to read the dates in answers.
        sleep: waits in place of the limiter outside of runs, for clients on a clock of their own.

    Attributes:
        in_flight: the calls in flight, of clients without such a limit of their own.
        server: the calls in flight of all models at its address, in place of `in_flight`, if the user limited those.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: Settings = NO_SETTINGS,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Sleep | None = None,
    ) -> None:
        self.name = name
        self.in_flight = InFlight(settings.in_flight)
        self.server: InFlight | None = None
        self.clock = clock
        self.wall_clock = wall_clock
        self._sleep = sleep
        self._settings = settings
        self.start_afresh()
        renew_after_fork(self)

    @property
    def lock(self) -> threading.RLock:
        """Guards the rates and the queue: the lock of the shared slots, so that a call takes it once."""
        return self.in_flight.slots.lock

    def start_afresh(self) -> None:
        self.rates = Rates()
        self.rates.set_limits(self._settings.requests, self._settings.tokens, self.clock())
        self.queue: deque[_Waiter] = deque()

    def apply(self, settings: Settings) -> None:
        """Keep what a user set. Calls that wait are looked at again."""
        with self.lock:
            before, self._settings = self._settings, settings
            if settings.in_flight != before.in_flight:
                self.in_flight.resize(settings.in_flight)
            if (settings.requests, settings.tokens) != (before.requests, before.tokens):
                self.rates.set_limits(settings.requests, settings.tokens, self.clock())
                self._wake_first()

    def call(self, size: int, *, until: float = inf, own: InFlight | None = None) -> Call:
        """Return a context manager for one request: it waits when it is entered, and its place is free at its end.

        Args:
            size: bytes of the request's body.
            until: when the call must end, on the clock.
            own: a limit of calls in flight in place of the shared one.
        """
        return Call(self, size, until, own or self.server or self.in_flight)

    def take_retry(self, error: ProviderError) -> bool:
        """Take a retry of those that calls with this key share; a refusal marks the error, so that nobody above tries again."""
        with self.lock:
            taken = self.rates.take_retry()
        if not taken:
            error.retries_used_up = True
            error.add_note(f"not tried again: too many calls of {self.name} failed")
        return taken

    def figures(self) -> LimitFigures:
        """Return what is known of the limits at this moment."""
        gate = self.server or self.in_flight
        with self.lock:
            return LimitFigures(
                name=self.name,
                taken=gate.taken,
                in_flight=gate.most,
                waiting=gate.waiting + len(self.queue),
                stopped_for=max(0.0, self.rates.stopped_until - self.clock()),
                pace=self.rates.pace,
                retries=int(self.rates.retries),
            )

    def admit(self, call: Call, until: float) -> bool:
        """Wait until a request may be sent, within the current scope; return whether it had to wait."""
        with self.lock:
            if not self.queue and self.rates.admits(call, self.clock()):
                return False
            waiter = _Waiter(call, len(self.queue))
            self.queue.append(waiter)
        scope = current_scope()
        remove = None if scope is None else scope.on_cancel_at_once(waiter.woken.set)
        try:
            self._wait(waiter, until, scope)
        finally:
            if remove is not None:
                remove()
            self._leave(waiter)
        return True

    def _wait(self, waiter: _Waiter, until: float, scope: Scope | None) -> None:
        waited = -inf
        while True:
            with self.lock:
                waiter.woken.clear()
                now = max(self.clock(), waited)
                is_first = self.queue[0] is waiter
                if is_first and self.rates.admits(waiter.call, now):
                    return
                refused = self.rates.stopped_until - now
                held_back = self._held_back(waiter, now, is_first)
                wait = self.rates.wait(now, waiter.call.size) if is_first else inf
                needed = wait if is_first else refused
            self._leave_it_to_another(refused, held_back)
            wait = min(wait, self._left(scope, until - now, needed))
            if self._sleep is not None and scope is None and is_first:
                self._sleep(wait)
                waited = now + wait
            elif not waiter.woken.wait(min(wait, threading.TIMEOUT_MAX)):
                waited = now + wait  # a clock of a test may stand still

    def _held_back(self, waiter: _Waiter, now: float, is_first: bool) -> float:
        """Return the seconds for which a call waits because of the provider's limits, those told and those learned."""
        wait = self.rates.wait_for_provider(now, waiter.call.size)
        pace = self.rates.pace
        return wait if is_first or pace is None else wait + waiter.ahead / pace

    def _leave_it_to_another(self, refused: float, wait: float) -> None:
        """Raise at once if the provider refuses requests, or a call would wait long, and another model is asked in its place."""
        if refused > 0.0:
            why = f"the provider refused a request, and takes none for {refused:.3g} s"
        elif wait > WORTH_ANOTHER:
            why = f"by the limits of this key the call would wait for some {wait:.3g} s"
        else:
            return
        error = RateLimited(f"{self.name}: {why}", retry_after=refused if refused > 0.0 else wait, retryable=True)
        if is_asked_elsewhere(error):
            raise error

    def _left(self, scope: Scope | None, left: float, needed: float) -> float:
        """Return the seconds a call may still wait; raises at once if it needs more of them than it has."""
        if scope is not None:
            scope.check()
            remaining = scope.remaining()
            left = left if remaining is None else min(left, remaining)
        if left <= 0.0:
            raise ProviderTimeout(f"{self.name}: the call had no time left while it waited for the limits of its key")
        if needed > left:
            raise RateLimited(
                f"{self.name}: the limits of this key allow the next request in {needed:.3g} s, "
                f"and the call has {left:.3g} s left",
                retry_after=needed,
                retryable=True,
            )
        return left

    def _leave(self, waiter: _Waiter) -> None:
        with self.lock:
            if waiter in self.queue:
                self.queue.remove(waiter)
            self._wake_first()

    def _wake_first(self) -> None:
        if self.queue:
            self.queue[0].woken.set()

    def ended(self, call: Call, error: BaseException | None) -> None:
        """Tell the rates how a request ended; the first one in the queue looks at them again. The caller holds the lock."""
        if error is None:
            used = None if call.usage is None else _tokens_of(call.usage)
            self.rates.succeeded(call, self.clock(), used, left_by(call.headers, self.wall_clock))
        elif isinstance(error, ProviderError) and _asks_to_slow_down(error):
            left = left_by(call.headers, self.wall_clock)
            self.rates.refused(call, self.clock(), error.retry_after, left)
        else:
            self.rates.gave_up(call)
        if self.queue:
            self._wake_first()

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way or waits, and no refusal holds."""
        with self.lock:
            waits = self.queue or (self.server or self.in_flight).taken or self.rates.is_open
            return not waits and self.rates.stopped_until <= self.clock()

    def __repr__(self) -> str:
        return f"<limits of {self.name}>"


class _Waiter:
    """A call in the queue."""

    __slots__ = ("ahead", "call", "woken")

    def __init__(self, call: Call, ahead: int) -> None:
        self.call = call
        self.ahead = ahead
        """How many calls were in the queue before it when it came."""
        self.woken = threading.Event()
        """Set when it may be its turn, or the scope was cancelled."""


class Call(Sent):
    """One request under the limits of a key, for a single `with` block.

    An error that leaves the block tells the limits how the request ended.

    Attributes:
        waited: whether it had to wait.
        rates: the machine that let it go; a forked child has another one.
        headers: of the answer, by lower-case name; the caller sets them.
        usage: of the answer; the caller sets it.
    """

    __slots__ = ("_gate", "_limiter", "_slots", "_until", "headers", "rates", "usage", "waited")

    def __init__(self, limiter: Limiter, size: int, until: float, gate: InFlight) -> None:
        self.size = size
        self._limiter = limiter
        self._until = until
        self._gate = gate
        self.tokens = 0.0
        self.headers = _NO_HEADERS
        self.usage: Usage | None = None
        self.waited = False

    def __enter__(self) -> Self:
        """Wait for a place and for the limits.

        Raises:
            RunCancelled: the current scope was cancelled while waiting; raised at once.
            RunTimedOut: its deadline passed while waiting.
            RateLimited: the limits let it go later than the call may take; raised at once.
            ProviderTimeout: outside of a run, the time of the call passed while waiting.
        """
        limiter = self._limiter
        slots = self._slots = self._gate.slots
        self.rates = limiter.rates
        if self._gate is limiter.in_flight:  # one lock guards both
            with slots.lock:
                if slots.free > 0 and not limiter.queue and self.rates.admits(self, limiter.clock()):
                    slots.free -= 1
                    return self
        waited = slots.take(self._until, limiter.clock)
        try:
            self.waited = limiter.admit(self, self._until) or waited
        except BaseException:
            slots.give_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        limiter, slots = self._limiter, self._slots
        if self.rates is not limiter.rates:  # of a forked child; the call is its parent's
            return
        if self._gate is limiter.in_flight:
            with slots.lock:
                try:
                    limiter.ended(self, error)
                finally:
                    slots.put_back()
        else:
            try:
                with limiter.lock:
                    limiter.ended(self, error)
            finally:
                slots.give_back()


def _tokens_of(usage: Usage) -> int | None:
    """Return the tokens of a whole exchange; None if the answer says only a part of them."""
    read, written = usage.input_tokens, usage.output_tokens
    return None if read is None or written is None else read + written


def _asks_to_slow_down(error: ProviderError) -> bool:
    if not error.retryable:  # an exhausted quota, which no wait brings back
        return False
    return isinstance(error, RateLimited) or (error.status in BUSY and error.retry_after is not None)
