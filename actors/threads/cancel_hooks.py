"""Functions that users gave to `Scope.on_cancel`, called on a lent thread one after another: a cancellation does not wait long."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial

from understudy.vocabulary.context.scope import Scope

from .alarms import Alarm, ring_at
from .pool import submit
from .promise import Promise
from .work import Work

PATIENCE = 5.0  # Seconds for one function; it should only set a flag or close something.
AT_HAND = 0.25  # Seconds that the thread which cancels waits for all of them: enough to set flags and close files.

log = logging.getLogger("understudy")


def cancel(scope: Scope, give_up: Callable[[Work], object]) -> None:
    """Cancel a scope; what users want done then is done on a lent thread.

    Args:
        scope: what is cancelled.
        give_up: counts a function that does not come back.
    """

    def call(hooks: list[Callable[[], object]]) -> None:
        errand = _Hooks(hooks, give_up)
        if _here.started is not None:
            _here.started.append(errand)
        submit(errand)

    for failure in scope.cancel(call):
        _log(failure)


@contextmanager
def settling(seconds: float) -> Generator[None]:
    """Wait, after the block, for the functions called by the cancellations in it; at most `seconds` for all of them.

    A block inside of another one does not wait: the outer one does.
    """
    if _here.started is not None:
        yield
        return
    started = _here.started = list[_Hooks]()
    try:
        yield
    finally:
        _here.started = None
    deadline = time.monotonic() + seconds
    for errand in started:
        errand.done.wait(max(0.0, deadline - time.monotonic()))


class _Here(threading.local):
    started: list[_Hooks] | None = None
    """The calls that this thread has begun, for `settling` to wait for; None outside of it."""


_here = _Here()


class _Called:
    """One function that was called, and may hang."""

    __slots__ = ("given_up", "returned")

    def __init__(self) -> None:
        self.returned = False
        self.given_up = False


class _Hooks:
    """Functions for a lent thread to call. One that hangs is left to its thread, and another goes on with the others."""

    __slots__ = ("_give_up", "_hooks", "_lock", "done")

    def __init__(self, hooks: list[Callable[[], object]], give_up: Callable[[Work], object]) -> None:
        self._hooks = deque(hooks)
        self._give_up = give_up
        self._lock = threading.Lock()
        """Guards what becomes of the function at hand: it returns, or is given up."""
        self.done: Promise[None] = Promise()

    def run_turns(self) -> None:
        while self._hooks:
            called = _Called()
            alarm = self._alarm_for(called)
            try:
                self._hooks.popleft()()
            except BaseException as failure:  # also SystemExit: the thread is not the function's to end
                _log(failure)
            with self._lock:
                called.returned = True
            if alarm is not None:
                alarm.call_off()
            if called.given_up:  # another thread goes on
                return
        self.done.set(None)

    def refused(self, cause: RuntimeError) -> None:
        self.run_turns()

    def _alarm_for(self, called: _Called) -> Alarm | None:
        with suppress(RuntimeError):  # no thread for it: then nobody looks after the function
            return ring_at(time.monotonic() + PATIENCE, partial(self._leave, called))
        return None

    def _leave(self, called: _Called) -> None:
        with self._lock:
            if called.returned:
                return
            called.given_up = True
        log.warning("a function that on_cancel was given has not returned within %g s and holds its thread", PATIENCE)
        self._give_up(called)
        self.run_turns()


def _log(failure: BaseException) -> None:
    log.error("a function that on_cancel was given failed", exc_info=failure)
