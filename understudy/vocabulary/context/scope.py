"""`Scope`: how long work may still take, how often it may try again, and whether anyone still wants it.

A scope travels in a context variable, so whatever runs inside a run (a model client, a tool, a run started by a tool)
finds it with `current_scope()`. Clocks and waiting are the driver's: the scope only reads the clock it was given.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from understudy.errors import RunCancelled, RunTimedOut

if TYPE_CHECKING:
    from .account import Account

Clock = Callable[[], float]

NO_RETRIES_LEFT = "not tried again: the run has used up its retries"
"""The note on an error that would have been tried again."""


class Scope:
    """Deadline, cancellation and retries of one piece of work; safe to share between threads.

    Args:
        deadline: when the work must end, on `clock`; None for no limit.
        clock: a monotonic clock in seconds.
        parent: a scope whose deadline, cancellation and retries hold here too.
        retries: how often anything inside may be tried again, all of it together; None for no limit of its own. Where
            the parent has such a number, that one holds alone.
    """

    __slots__ = ("_callbacks", "_cancelled", "_clock", "_lock", "_parent", "_retries", "account", "deadline", "is_turn")

    def __init__(
        self, deadline: float | None, clock: Clock, parent: Scope | None = None, retries: int | None = None
    ) -> None:
        inherited = None if parent is None else parent.deadline
        if deadline is None or (inherited is not None and inherited < deadline):
            deadline = inherited
        self.deadline: float | None = deadline
        self._clock = clock
        self._parent = parent
        self._retries = retries
        """How many are left; looked at and taken in the outermost scope that has a number."""
        self.account: Account | None = None if parent is None else parent.account
        """What the work, and runs that begin inside of it, draw from: the parent's, until a run has its own."""
        self.is_turn = False
        """Whether the work is a model call of a run's own, whose tokens its account is charged with."""
        self._cancelled = False
        self._callbacks: dict[object, Callable[[], object]] | None = None
        """By a key of each one's own, for a run may begin thousands; made for the first, and most scopes never get any."""
        self._lock: threading.Lock = threading.Lock() if parent is None else parent._lock
        """Guards the callbacks, the change to cancelled and taking a retry, of a scope and of all inside of it."""

    def remaining(self) -> float | None:
        """Return the seconds left, never below 0, or None when there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - self._clock())

    @property
    def parent(self) -> Scope | None:
        """The scope that this one is inside of."""
        return self._parent

    @property
    def cancelled(self) -> bool:
        """Whether the work is no longer wanted; a long loop in a tool should look now and then."""
        scope: Scope | None = self
        while scope is not None:  # no recursion: runs that begin runs make long chains
            if scope._cancelled:
                return True
            scope = scope._parent
        return False

    def cancel(self, aside: Callable[[list[Callable[[], object]]], object] | None = None) -> list[BaseException]:
        """Say that the work is no longer wanted, and run all `on_cancel` functions. A second call does nothing.

        Args:
            aside: has the functions of users called, in their order, on a thread of its own, and takes what they raise;
                None calls them here.

        Returns:
            What the functions raised here: one that fails keeps nobody else from hearing of the cancellation.
        """
        with self._lock:
            if self._cancelled:
                return []
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, None
        failures: list[BaseException] = []
        called = [] if callbacks is None else list(callbacks.values())
        hooks = list[Callable[[], object]]()
        if aside is not None:  # taken first: those that are called here may cancel scopes inside
            hooks += [callback.callback for callback in called if isinstance(callback, _Hook) and callback.take()]
        for callback in called:
            try:
                callback()
            except (Exception, SystemExit) as error:  # noqa: BLE001 (it is handed to the caller)
                failures.append(error)
        if aside is not None and hooks:
            aside(hooks)
        return failures

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when the work is cancelled; at once, on this thread, if it already is.

        It runs on a thread lent for it, after the functions that were given before. `cancel()` and `system.stop()` wait
        for them for a quarter of a second in all, `stop` also until its own time is over; what else ends the work does
        not wait. What it raises then, `SystemExit` included, is logged and goes no further. After 5 seconds its thread is
        counted as hung, and the functions after it are called on another one.

        Returns:
            A function that takes the callback back.
        """
        return self._listen(_Hook(callback))

    def on_cancel_at_once(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` as by `on_cancel`, but on the thread that cancels: for the runtime's own, which never block."""
        return self._listen(callback if self._parent is None else _once(callback))

    def _listen(self, callback: Callable[[], object]) -> Callable[[], None]:
        key = object()
        scope: Scope | None = self
        while scope is not None:
            with scope._lock:
                late = scope._cancelled
                if not late:
                    if scope._callbacks is None:
                        scope._callbacks = {}
                    scope._callbacks[key] = callback
            if late:
                callback()
                break
            scope = scope._parent
        return _TakeBack(self, key)

    def forget(self, key: object) -> None:
        """Take a callback back by its key, here and in the scopes outside."""
        scope: Scope | None = self
        while scope is not None:
            with scope._lock:
                if scope._callbacks is not None:
                    scope._callbacks.pop(key, None)
            scope = scope._parent

    @property
    def retries_left(self) -> int | None:
        """How often anything in the run may still be tried again, or None when that has no limit."""
        return self._counting()._retries

    def take_retry(self, error: BaseException | None = None) -> bool:
        """Take one of the retries that all of the run shares; whoever is refused must not try again.

        Args:
            error: what would be tried again after; gets a note if it is not.
        """
        counting = self._counting()
        with counting._lock:
            taken = counting._retries != 0
            if taken and counting._retries is not None:
                counting._retries -= 1
        if not taken and error is not None and NO_RETRIES_LEFT not in getattr(error, "__notes__", ()):
            with contextlib.suppress(Exception):  # an error of a user's may take no notes
                error.add_note(NO_RETRIES_LEFT)
        return taken

    def tell_retry(self, attempt: int, wait: float, error: BaseException) -> None:
        """Say that a model call is tried again, after `take_retry`: the run's events have a `RetryScheduled` for it.

        Outside of a model call of a run's own it does nothing.

        Args:
            attempt: which attempt failed, from 1.
            wait: seconds until the next one.
            error: what the attempt failed of.
        """

    def _counting(self) -> Scope:
        """Return the scope whose number holds here; one that has none when nobody counts."""
        found, scope = self, self._parent
        while scope is not None:
            if scope._retries is not None:
                found = scope
            scope = scope._parent
        return found

    def sleep(self, seconds: float) -> None:
        """Wait, but no longer than the work may take.

        Raises:
            RunCancelled: the work was cancelled before or while waiting.
            RunTimedOut: the deadline comes first; raised at once, not after the wait.
        """
        woken = threading.Event()
        remove = self.on_cancel_at_once(woken.set)
        try:
            self.check()
            left = self.remaining()
            if left is not None and left < seconds:
                raise RunTimedOut(f"a wait of {seconds:.3g} s does not fit into the {left:.3g} s left")
            woken.wait(seconds)
            self.check()
        finally:
            remove()

    def check(self) -> None:
        """Raise `RunCancelled` or `RunTimedOut` if the work should stop; return quickly otherwise."""
        if self.cancelled:
            raise RunCancelled("the run was cancelled")
        if self.remaining() == 0.0:
            raise RunTimedOut("the run's deadline has passed")


class _TakeBack:
    """Takes a callback back; one object, for every run inside of another has it for as long as it runs."""

    __slots__ = ("_key", "_scope")

    def __init__(self, scope: Scope, key: object) -> None:
        self._scope = scope
        self._key = key

    def __call__(self) -> None:
        self._scope.forget(self._key)


class _Hook:
    """A function of a user's that is called the first time only: a scope and its parent may both be cancelled."""

    __slots__ = ("_first", "callback")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self._first = threading.Lock()  # never released: the caller that gets it calls the function

    def take(self) -> bool:
        """Whether the caller is the one who calls the function."""
        return self._first.acquire(blocking=False)

    def __call__(self) -> None:
        if self.take():
            self.callback()


def _once(callback: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `callback` the first time only: a scope and its parent may both be cancelled."""
    first = threading.Lock()  # never released: the caller that gets it calls the function

    def call() -> None:
        if first.acquire(blocking=False):
            callback()

    return call


Unmade: TypeAlias = tuple[float, Clock, Scope | None]
"""Deadline, clock and parent of a scope that nobody can cancel: it is made for who asks for it, and few messages' code does."""

_current: contextvars.ContextVar[Scope | Unmade | None] = contextvars.ContextVar("understudy_scope", default=None)


def current_scope() -> Scope | None:
    """Return the scope of the run that this code is part of, or None outside of runs."""
    found = _current.get()
    if isinstance(found, tuple):
        found = Scope(*found)
        _current.set(found)
    return found


def account_of_turn() -> Account | None:
    """Return the account that pays for the model call which this code is part of; None where it is part of none."""
    scope = current_scope()
    return scope.account if scope is not None and scope.is_turn else None


def scope_in(context: contextvars.Context) -> Scope | None:
    """Return the scope of a context, which another thread may be in."""
    found = context.get(_current)
    return Scope(*found) if isinstance(found, tuple) else found


# Not functions around them: every message, model call and tool call comes here.
enter_scope = _current.set
"""Make a scope the current one of this context; undo with `leave_scope`."""
leave_scope = _current.reset
"""Undo `enter_scope`, given the token that it returned, in the context it was called in."""
