"""`ForeignFuture`: a future of Pykka's own as a member of a merge. It has no callback, so a lent thread waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import copy_context
from functools import partial
from typing import Any

import pykka

from understudy.actors.threads.pool import submit
from understudy.actors.threads.promise import Promise

from .awaited import Traceable, Unseen
from .endings import Ending, Failure, Value

SLICE = 0.5  # Seconds of one wait; after each, the thread looks whether anybody wants the value still.
NEARLY = 0.9  # A wait that ends with a `Timeout` before this part of its slice was not too long: that is the future's own error.


class ForeignFuture(Traceable):
    """Waits for a future of Pykka from the first callback on, until it is done or `cancel` is called.

    The future itself cannot be cancelled. What it runs when it is asked for its value runs on the lent thread, in the
    context of the thread that made this object.
    """

    __slots__ = ("_future", "_get", "_lock", "_promise", "_waits")

    def __init__(self, future: pykka.Future[Any]) -> None:
        self._future = future
        self._get: Callable[[], Any] = partial(copy_context().run, future.get, timeout=SLICE)
        self._promise: Promise[Any] = Promise()
        self._lock = threading.Lock()
        """Guards waits."""
        self._waits = False

    # --- on the lent thread

    def run_turns(self) -> None:
        while not self._promise.done:
            match self._looked():
                case Value(value=value):
                    self._promise.set(value)
                case Failure(error=error):
                    self._promise.fail(error)
                case None:
                    pass  # the slice is over

    def refused(self, cause: RuntimeError) -> None:
        self._promise.fail(cause)

    def _looked(self) -> Ending[Any] | None:
        """Wait for one slice; return None if the future is not done."""
        began = time.monotonic()
        try:
            return Value(self._get())
        except pykka.Timeout as error:
            return None if time.monotonic() - began >= SLICE * NEARLY else Failure(error)
        except BaseException as error:
            return Failure(error)

    # --- as a member

    def add_done_callback(self, callback: Callable[[object], object], /) -> None:
        with self._lock:
            begins = not self._waits
            self._waits = True
        self._promise.when_done(partial(callback, self))
        if begins and not self._promise.done:
            submit(self)

    def result(self, timeout: float | None = None) -> Any:
        self._promise.wait(timeout)
        return self._promise.get()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._promise.wait(timeout)
        return self._promise.error()

    def done(self) -> bool:
        return self._promise.done

    def cancel(self) -> bool:
        """Let the future go: its value is not wanted."""
        return self._promise.fail(CancelledError(f"{self._future!r} is not waited for any more"))

    def awaited(self) -> Unseen:
        return Unseen(self._promise)
