"""Cancel hooks, the functions that users give to `Scope.on_cancel`: a lent thread calls them one after another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging import ERROR, WARNING

from understudy.diagnostics import emit
from understudy.vocabulary.context.scope import Scope

from .alarms import Alarm, ring_at
from .pool import Work, submit
from .promise import Promise

PATIENCE = 5.0  # Seconds for one function; it should only set a flag or close something.
AT_HAND = 0.25  # Seconds that the cancelling thread waits for all of them: enough to set flags and close files.


def cancel(scope: Scope, give_up: Callable[[Work], object]) -> None:
    """Cancel a scope; a lent thread calls its hooks.

    Args:
        scope: the scope.
        give_up: counts a hook that does not return.
    """

    for failure in scope.cancel(partial(_call, give_up)):
        _log(failure)


def _call(give_up: Callable[[Work], object], hooks: list[Callable[[], object]]) -> None:
    calls = _Hooks(hooks, give_up)
    if _here.started is not None:
        _here.started.append(calls)
    submit(calls)


class Settling:
    """A block that waits at its end for the hooks of the cancellations in it; at most `seconds` for all of them.

    Of nested blocks only the outermost waits. After an error in the block nobody waits.
    """

    __slots__ = ("_seconds", "_started")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started: list[_Hooks] | None = None
        """The calls begun in the block; None in a nested one."""

    def __enter__(self) -> None:
        if _here.started is None:
            self._started = _here.started = []

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        started = self._started
        if started is None:
            return
        _here.started = None
        if started and kind is None:
            deadline = time.monotonic() + self._seconds
            for calls in started:
                calls.done.wait(max(0.0, deadline - time.monotonic()))


class _Here(threading.local):
    started: list[_Hooks] | None = None
    """The calls that this thread has begun inside of `Settling`, which waits for them; None outside."""


_here = _Here()


class _Called:
    """A hook that was called, and may hang."""

    __slots__ = ("given_up", "returned")

    def __init__(self) -> None:
        self.returned = False
        self.given_up = False


class _Hooks:
    """Hooks for a lent thread to call. When one hangs, another thread goes on with the rest."""

    __slots__ = ("_give_up", "_hooks", "_lock", "done")

    def __init__(self, hooks: list[Callable[[], object]], give_up: Callable[[Work], object]) -> None:
        self._hooks = deque(hooks)
        self._give_up = give_up
        self._lock = threading.Lock()
        """Guards the present call: it returns, or is given up, but not both."""
        self.done: Promise[None] = Promise()

    def run_turns(self) -> None:
        while self._hooks:
            called = _Called()
            alarm = self._alarm_for(called)
            try:
                self._hooks.popleft()()
            except BaseException as failure:  # also SystemExit: a hook must not end this thread
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
        with suppress(RuntimeError):  # no thread for it: then the hook has no time limit
            return ring_at(time.monotonic() + PATIENCE, partial(self._leave, called))
        return None

    def _leave(self, called: _Called) -> None:
        with self._lock:
            if called.returned:
                return
            called.given_up = True
        text = "a function that on_cancel was given has not returned within %g s and holds its thread"
        emit(WARNING, "cancel_hook_overdue", {}, text, PATIENCE)
        self._give_up(called)
        self.run_turns()


def _log(failure: BaseException) -> None:
    emit(ERROR, "cancel_hook_failed", {}, "a function that on_cancel was given failed", exc_info=failure)
