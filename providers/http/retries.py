"""Waiting and trying again, with tenacity, loaded when a first attempt has failed.

Inside a run each retry is one of those that the run has for all that is in it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, TypeVar

from understudy.errors import ProviderError, had_its_retries
from understudy.vocabulary.context.scope import current_scope

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0
JITTER = 0.25  # Share of a wait that chance may take off, so that clients that failed together come back apart.
LONGEST_HINT = 120.0  # Who must wait longer than a call may take had better know at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where a client gets its time and its chance from; tests pass their own."""

    clock: Callable[[], float] = time.monotonic
    """Seconds that only grow; what timeouts are measured on."""
    wall_clock: Callable[[], float] = time.time
    """Seconds since the epoch, to read dates in `retry-after`."""
    sleep: Callable[[float], None] = time.sleep
    """Waits outside of runs; inside one its scope does."""
    random: Callable[[], float] = random.random
    """From 0 up to 1."""


def keep_trying(attempt: Callable[[], T], attempts: int, timing: Timing, until: float = inf) -> T:
    """Return what `attempt` returns, calling it up to `attempts` times while its error is worth it.

    Nothing is tried again from `until` on, a point in time on the clock of `timing`, and no wait reaches beyond it.

    Raises:
        ProviderError: the last error; it says whether its retries are used up.
        RunCancelled, RunTimedOut: while waiting.
    """
    try:
        return attempt()
    except ProviderError as error:
        if attempts <= 1 or not is_worth_it(error):
            raise
        return _again(error, attempt, attempts, timing, until)


def _again(first: ProviderError, attempt: Callable[[], T], attempts: int, timing: Timing, until: float) -> T:
    import tenacity

    failed = [first]

    def replayed() -> T:
        if failed:
            raise failed.pop()  # tenacity counts the attempt that was made before it was loaded
        return attempt()

    def is_last(state: RetryCallState) -> bool:
        error = None if state.outcome is None else state.outcome.exception()
        if state.attempt_number >= attempts:
            assert isinstance(error, ProviderError)  # nothing else is worth a retry
            error.retries_used_up = True
            return True
        if timing.clock() + state.upcoming_sleep >= until:
            return True
        scope = current_scope()
        return scope is not None and not scope.take_retry(error)

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

    What the provider asked for is waited before the first retry. It did not help if another retry is needed, so that a
    later wait is at least as long as without it: many clients that are told to wait 0 seconds are a storm.
    """
    asked = error.retry_after if isinstance(error, ProviderError) else None
    if asked is not None and attempt == 2:
        return asked
    longest: float = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 2))
    return max(asked or 0.0, longest * (1 - JITTER * chance()))


def is_worth_it(error: BaseException) -> bool:
    """Tell whether another attempt may help, and the wait that was asked for fits."""
    if not isinstance(error, ProviderError) or not error.retryable or had_its_retries(error):
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
