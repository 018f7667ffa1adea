"""`Promise`: one answer, given once, that any number of threads can wait for."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from .pool import start_next_thread

T = TypeVar("T")

SLICE = 0.5  # Seconds after which the main thread looks up from its wait.

log = logging.getLogger("understudy")
log.addHandler(logging.NullHandler())  # silent until the host configures logging


class Promise(Generic[T]):
    """A value or an error that comes once; the first writer wins."""

    __slots__ = ("_callbacks", "_done", "_error", "_gate", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards everything below."""
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._gate: threading.Lock | None = None
        """Held until the answer is there; made by the first who waits, for most answers are there before anyone does.

        A raw lock: a condition variable costs three times as much.
        """
        self._callbacks: list[Callable[[], object]] | None = None

    def set(self, value: T) -> bool:
        """Give the answer; False if there was one already."""
        return self.finish(value, None)

    def fail(self, error: BaseException) -> bool:
        """Give an error; False if there was an answer already."""
        return self.finish(None, error)

    def finish(self, value: T | None, error: BaseException | None) -> bool:
        """Give the answer, or an error if there is one; False if there was one or the other already."""
        with self._lock:
            if self._done:
                return False
            self._value, self._error = value, error
            self._done = True
            gate, callbacks, self._callbacks = self._gate, self._callbacks, None
        if gate is not None:
            gate.release()
        if callbacks is not None:
            _call(start_next_thread)  # what was handed over to this thread must not wait for them
            for callback in callbacks:
                _call(callback)
        return True

    @property
    def done(self) -> bool:
        return self._done

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; whether the answer is there."""
        if self._done:
            return True
        gate = self._held_gate()
        if gate is None:
            return True
        longest = threading.TIMEOUT_MAX if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))
        acquire = _acquire_looking_up if threading.current_thread() is threading.main_thread() else _acquire
        if not acquire(gate, longest):
            return False
        gate.release()  # for the next who waits
        return True

    def _held_gate(self) -> threading.Lock | None:
        """Return the gate to wait at; None if the answer has come."""
        with self._lock:
            if self._done:
                return None
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            return self._gate

    def error(self) -> BaseException | None:
        """Return the error, or None if there is a value or nothing yet."""
        return self._error

    def get(self) -> T:
        """Return the value or raise the error; call it when done."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set to a T before done

    def when_done(self, callback: Callable[[], object], *, first: bool = False) -> None:
        """Call `callback()` once the answer is there, on the thread that gives it; at once if it is there.

        With `first` it is called before those that were there, for somebody who must not wait for these.
        """
        with self._lock:
            if not self._done:
                self._callbacks = self._callbacks or []
                self._callbacks.insert(0 if first else len(self._callbacks), callback)
                return
        _call(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        """Take a callback back that may not have been called yet."""
        with self._lock:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)


def taken(news: queue.SimpleQueue[T]) -> T:
    """Wait for an entry of a queue and take it; the main thread in slices, as it waits for a reply, for the same reason."""
    longest = SLICE if threading.current_thread() is threading.main_thread() else None
    while True:
        try:
            return news.get(timeout=longest)
        except queue.Empty:
            pass


def _acquire(gate: threading.Lock, longest: float) -> bool:
    return gate.acquire(timeout=longest)


def _acquire_looking_up(gate: threading.Lock, longest: float) -> bool:
    """Wait in slices: a Ctrl-C that comes right before a wait, after the interpreter looked, is seen only after it."""
    deadline = time.monotonic() + longest
    while not gate.acquire(timeout=min(SLICE, longest)):
        longest = deadline - time.monotonic()
        if longest <= 0:
            return False
    return True


def _call(callback: Callable[[], object]) -> None:
    """Call what somebody else wants done; its failure is not that of the thread that happens to be here."""
    try:
        callback()
    except BaseException:  # also its sys.exit(): the thread is not the callback's to end
        log.exception("a callback failed")
