"""`Promise`: a value or an error that is set once, and that any number of threads can wait for."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from logging import ERROR
from typing import TYPE_CHECKING, TypeVar, overload

import pykka

from understudy.diagnostics import emit

from .pool import start_next_thread

if TYPE_CHECKING:
    from types import TracebackType

    OptExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

T = TypeVar("T")

SLICE = 0.5  # Seconds after which the main thread interrupts its wait, to see a Ctrl-C.


class Late(TimeoutError, pykka.Timeout):
    """A wait has taken longer than it may: the standard library's error and Pykka's."""


Late.__name__ = "TimeoutError"  # error texts name the class that users catch


class Promise(pykka.Future[T]):
    """A value or an error that is set once; the first writer wins.

    It is a future of Pykka's, whose constructor is not called: see docs/decisions.md. One that is set twice raises nothing.
    """

    __slots__ = ("_callbacks", "_done", "_error", "_gate", "_lock", "_value")

    if not TYPE_CHECKING:  # Pykka declares it
        _get_hook = None  # in place of Pykka's constructor

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards everything below."""
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._gate: threading.Lock | None = None
        """Held until the promise is done; made by the first thread that waits, for most promises are done before.

        A raw lock: a condition variable costs three times as much.
        """
        self._callbacks: list[Callable[[], object]] | None = None

    def set(self, value: T) -> bool:  # type: ignore[override]  # Pykka's has a default, and raises where it is set already
        """Set the value; False if the promise was done already."""
        return self.finish(value, None)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Set an error as Pykka's code does; without one, the error that is being handled."""
        kind, error, _ = sys.exc_info() if exc_info is None else exc_info
        if error is None:
            error = RuntimeError("no exception is being handled") if kind is None else kind()
        self.fail(error)

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Have `get` ask a function for the value. Pykka's bare references do so with futures that they derive from others."""
        self._get_hook = func

    def fail(self, error: BaseException) -> bool:
        """Set an error; False if the promise was done already."""
        return self.finish(None, error)

    def finish(self, value: T | None, error: BaseException | None) -> bool:
        """Set the error, or the value if there is none; False if the promise was done already."""
        with self._lock:
            if self._done:
                return False
            self._value, self._error = value, error
            self._done = True
            gate, callbacks, self._callbacks = self._gate, self._callbacks, None
        if gate is not None:
            gate.release()
        if callbacks is not None:
            _call(start_next_thread)  # the next work of this thread must not wait for them
            for callback in callbacks:
                _call(callback)
        return True

    @property
    def done(self) -> bool:
        return self._done

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; return whether the promise is done."""
        if self._done:
            return True
        gate = self._held_gate()
        if gate is None:
            return True
        longest = threading.TIMEOUT_MAX if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))
        acquire = _acquire_looking_up if threading.current_thread() is threading.main_thread() else _acquire
        if not acquire(gate, longest):
            return False
        gate.release()  # for the next thread that waits
        return True

    def _held_gate(self) -> threading.Lock | None:
        """Return the gate to wait at; None if the promise is done."""
        with self._lock:
            if self._done:
                return None
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            return self._gate

    def error(self) -> BaseException | None:
        """Return the error; None if there is a value, or the promise is not done."""
        return self._error

    def get(self, *, timeout: float | None = None) -> T:
        """Return the value or raise the error; wait up to `timeout` seconds if the promise is not done."""
        if not self._done:
            if self._get_hook is not None:
                self.finish(self._get_hook(timeout), None)
            elif not self.wait(timeout):
                raise Late(f"there was no reply within {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set to a T before done

    def when_done(self, callback: Callable[[], object], *, first: bool = False) -> None:
        """Call `callback()` when the promise is done, on the thread that sets it; at once if it is done.

        With `first` it is called before the callbacks that were added earlier, and does not wait for them.
        """
        with self._lock:
            if not self._done:
                self._callbacks = self._callbacks or []
                self._callbacks.insert(0 if first else len(self._callbacks), callback)
                return
        _call(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        """Remove a callback, if it was not called yet."""
        with self._lock:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)


@overload
def taken(news: queue.SimpleQueue[T], timeout: None = None) -> T: ...
@overload
def taken(news: queue.SimpleQueue[T], timeout: float | None) -> T | None: ...
def taken(news: queue.SimpleQueue[T], timeout: float | None = None) -> T | None:
    """Wait for an entry of a queue and take it; the main thread waits in slices, as for a promise.

    Returns:
        The entry; None if there was none for `timeout` seconds.
    """
    slice_of_main = SLICE if threading.current_thread() is threading.main_thread() else None
    deadline = None if timeout is None or timeout > threading.TIMEOUT_MAX else time.monotonic() + timeout
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        longest = slice_of_main if left is None else left if slice_of_main is None else min(left, slice_of_main)
        try:
            return news.get(timeout=longest)
        except queue.Empty:  # the slice is over, or the time: the interpreter has looked for a Ctrl-C
            if deadline is not None and time.monotonic() >= deadline:
                return None


def _acquire(gate: threading.Lock, longest: float) -> bool:
    return gate.acquire(timeout=longest)


def _acquire_looking_up(gate: threading.Lock, longest: float) -> bool:
    """Wait in slices: the interpreter sees a Ctrl-C that comes right before a wait only after that wait."""
    deadline = time.monotonic() + longest
    while not gate.acquire(timeout=min(SLICE, longest)):
        longest = deadline - time.monotonic()
        if longest <= 0:
            return False
    return True


def _call(callback: Callable[[], object]) -> None:
    """Call a function; its failure is logged, for it does not concern the thread that calls it."""
    try:
        callback()
    except BaseException:  # also its sys.exit(): a callback must not end this thread
        emit(ERROR, "callback_failed", {}, "a callback failed", exc_info=True)
