"""Retries of model calls with tenacity, which is loaded after a first attempt has failed.

Inside a run each retry is taken from the retries of the run, which everything in the run shares.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, TypeVar

from understudy.errors import ProviderError, had_its_retries
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.context.scope import current_scope

from .elsewhere import is_asked_elsewhere

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
JITTER = 0.25  # A random share of a wait is left out, so that clients that failed together do not retry together.
LONGEST_HINT = 120.0  # A longer wait exceeds the time of a call: the caller should get the error at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The clocks, sleep and randomness of a client; tests pass their own."""

    clock: Callable[[], float] = time.monotonic
    """A monotonic clock in seconds, for timeouts."""
    wall_clock: Callable[[], float] = time.time
    """Seconds since the epoch, to read dates in `retry-after`."""
    sleep: Callable[[float], None] = time.sleep
    """Waits outside of runs; inside a run its scope waits."""
    random: Callable[[], float] = random.random
    """A number from 0 up to, but not including, 1."""


def keep_trying(
    attempt: Callable[[], T],
    attempts: int,
    timing: Timing,
    until: float = inf,
    take: Callable[[ProviderError], bool] | None = None,
) -> T:
    """Return the result of `attempt`, calling it up to `attempts` times while its error is worth a retry.

    `until` is a deadline on the clock of `timing`: no retry starts after it, and no wait lasts beyond it. `take` is asked
    for each retry, with the error before it.

    Raises:
        ProviderError: the last error; its message tells if the run's retries are used up.
        RunCancelled, RunTimedOut: while waiting.
    """
    try:
        return attempt()
    except ProviderError as error:
        if attempts <= 1 or not is_worth_it(error):
            raise
        return _again(error, attempt, attempts, timing, until, take)


def _again(
    first: ProviderError,
    attempt: Callable[[], T],
    attempts: int,
    timing: Timing,
    until: float,
    take: Callable[[ProviderError], bool] | None,
) -> T:
    import tenacity

    failed = [first]

    def replayed() -> T:
        if failed:
            raise failed.pop()  # the first attempt was made before tenacity was loaded; replaying it keeps the count right
        return attempt()

    def is_last(state: RetryCallState) -> bool:
        error = None if state.outcome is None else state.outcome.exception()
        if state.attempt_number >= attempts:
            assert isinstance(error, ProviderError)  # only these are worth a retry
            error.retries_used_up = True
            return True
        if timing.clock() + state.upcoming_sleep >= until:
            return True
        scope = current_scope()
        if scope is not None and not scope.take_retry(error):
            return True
        return take is not None and isinstance(error, ProviderError) and not take(error)

    def pause(state: RetryCallState) -> float:
        error = None if state.outcome is None else state.outcome.exception()
        return wait_before(state.attempt_number + 1, error, timing.random)

    def tell(state: RetryCallState) -> None:
        scope = current_scope()
        error = None if state.outcome is None else state.outcome.exception()
        left = None if scope is None else scope.remaining()
        if scope is not None and error is not None and (left is None or state.upcoming_sleep <= left):
            scope.tell_retry(state.attempt_number, state.upcoming_sleep, error)

    retrying = tenacity.Retrying(
        stop=is_last,
        wait=pause,
        retry=tenacity.retry_if_exception(is_worth_it),
        before_sleep=tell,
        sleep=lambda seconds: _sleep(seconds, timing),
        reraise=True,
    )
    return retrying(replayed)


def wait_before(attempt: int, error: BaseException | None, chance: Callable[[], float]) -> float:
    """Return the seconds to wait before this attempt (the first retry is attempt 2).

    The first retry waits as long as the provider asked. If that did not help, a later wait is at least the normal backoff:
    many clients told to wait 0 seconds would make a storm of requests.
    """
    asked = error.retry_after if isinstance(error, ProviderError) else None
    if asked is not None and attempt == 2:
        return asked
    longest = backoff_wait(FIRST_WAIT, LONGEST_WAIT, attempt - 2)
    return max(asked or 0.0, longest * (1 - JITTER * chance()))


def is_worth_it(error: BaseException) -> bool:
    """Whether another attempt may help, and the provider's wait is not too long."""
    if not isinstance(error, ProviderError) or not error.retryable or had_its_retries(error):
        return False
    if is_asked_elsewhere(error):
        return False
    hint = error.retry_after or 0.0
    scope = current_scope()
    left = None if scope is None else scope.remaining()
    return hint <= LONGEST_HINT and (left is None or hint <= left)


def _sleep(seconds: float, timing: Timing) -> None:
    scope = current_scope()
    if scope is not None:
        scope.sleep(seconds)
    else:
        timing.sleep(seconds)
