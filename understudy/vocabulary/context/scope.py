"""`Scope`: the deadline, the remaining retries and the cancellation of a piece of work.

A scope is kept in a context variable, so all code inside of a run (a model client, a tool, a run started by a tool)
finds it with `current_scope()`. The scope does not wait; it only reads the clock that it was given.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from understudy.errors import RunCancelled, RunTimedOut

from .ancestry import Ancestry, chain_of_code

if TYPE_CHECKING:
    from understudy.vocabulary.messages import ToolCall

    from .account import Account


R = TypeVar("R")


class Origin(NamedTuple):
    """What code is part of, for names in log lines."""

    chain: Ancestry
    call: ToolCall | None
    """The tool call; None outside of tool calls."""


_origin: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("understudy_origin", default=None)


def stated_origin() -> Origin | None:
    """Return the origin that the present function was called with by `named_after`; None if there is none."""
    return _origin.get()


def named_after(origin: Origin, function: Callable[[], R]) -> Callable[[], R]:
    """Return `function` so that log lines in it have the names of `origin`. It does not become part of the run."""
    return partial(_call, origin, function) if origin.chain else function


def _call(origin: Origin, function: Callable[[], R]) -> R:
    token = _origin.set(origin)
    try:
        return function()
    finally:
        _origin.reset(token)


Clock = Callable[[], float]

NO_RETRIES_LEFT = "not tried again: the run has used up its retries"
"""The note on an error after which no retry was left."""


class Scope:
    """Deadline, cancellation and retries of one piece of work; safe to share between threads.

    Args:
        deadline: when the work must end, on `clock`; None for no limit.
        clock: a monotonic clock in seconds.
        parent: a scope whose deadline, cancellation and retries hold here too.
        retries: how often anything inside may be tried again, all of it together; None for no limit of its own. Where
            the parent has such a number, that one holds alone.
    """

    __slots__ = (
        "_callbacks",
        "_cancelled",
        "_clock",
        "_lock",
        "_parent",
        "_retries",
        "account",
        "call",
        "deadline",
        "is_turn",
    )

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
        """Retries left; counted in the outermost scope that has a number."""
        self.account: Account | None = None if parent is None else parent.account
        """The account of the work and of runs that start inside of it: the parent's, until a run sets its own."""
        self.is_turn = False
        """Whether the work is a model call of a run, whose tokens are charged to the account."""
        self.call: ToolCall | None = None
        """The tool call that the work is, for names in log lines; a scope inside of it has none."""
        self._cancelled = False
        self._callbacks: dict[object, Callable[[], object]] | None = None
        """By a key of each one's own, for a run may begin thousands; made for the first, and most scopes never get any."""
        self._lock: threading.Lock = threading.Lock() if parent is None else parent._lock
        """Guards the callbacks, the cancellation and the retries of a scope and of all scopes inside of it."""

    def remaining(self) -> float | None:
        """Return the seconds left, never below 0, or None when there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - self._clock())

    @property
    def parent(self) -> Scope | None:
        """The outer scope."""
        return self._parent

    @property
    def cancelled(self) -> bool:
        """Whether the work is cancelled; a long loop in a tool should check this now and then."""
        scope: Scope | None = self
        while scope is not None:  # no recursion, because chains of scopes can be long
            if scope._cancelled:
                return True
            scope = scope._parent
        return False

    @property
    def is_over(self) -> bool:
        """Whether the work is cancelled or has no time left."""
        return self.cancelled or self.remaining() == 0.0

    def cancel(self, aside: Callable[[list[Callable[[], object]]], object] | None = None) -> list[BaseException]:
        """Cancel the work, and run all `on_cancel` functions. A second call does nothing.

        Args:
            aside: has the functions of users called, in their order, on a thread of its own, and takes what they raise;
                None calls them here.

        Returns:
            The errors of the functions called here: after an error, the other functions are still called.
        """
        with self._lock:
            if self._cancelled:
                return []
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, None
        if not callbacks:
            return []
        failures: list[BaseException] = []
        hooks: list[Callable[[], object]] = []
        if aside is not None:  # removed first: the functions may cancel inner scopes
            hooks = [each.callback for each in callbacks.values() if isinstance(each, _Hook) and each.take()]
        for callback in callbacks.values():
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
            A function that removes the callback.
        """
        return self._listen(_Hook(named_after(present_origin(), callback)))

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
        """Remove a callback by its key, here and in the outer scopes."""
        scope: Scope | None = self
        while scope is not None:
            with scope._lock:
                if scope._callbacks is not None:
                    scope._callbacks.pop(key, None)
            scope = scope._parent

    @property
    def retries_left(self) -> int | None:
        """How many retries are left for the whole run, or None for no limit."""
        return self._counting()._retries

    def take_retry(self, error: BaseException | None = None) -> bool:
        """Take one of the run's shared retries; False means that the caller must not retry.

        Args:
            error: the error to retry after; it gets a note if the retry is refused.
        """
        counting = self._counting()
        with counting._lock:
            taken = counting._retries != 0
            if taken and counting._retries is not None:
                counting._retries -= 1
        if not taken and error is not None and NO_RETRIES_LEFT not in getattr(error, "__notes__", ()):
            with contextlib.suppress(Exception):  # an error class of a user may refuse notes
                error.add_note(NO_RETRIES_LEFT)
        return taken

    def tell_retry(self, attempt: int, wait: float, error: BaseException) -> None:
        """Report a retry of a model call, after `take_retry`: the run publishes a `RetryScheduled` event.

        Does nothing outside of a run's model call.

        Args:
            attempt: which attempt failed, from 1.
            wait: seconds until the next one.
            error: the error of the attempt.
        """

    def _counting(self) -> Scope:
        """Return the scope that counts the retries; one without a number if there is no limit."""
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

    def part(self, seconds: float) -> Scope:
        """Return a scope inside of this one for a part of its work, which may take so many seconds."""
        return _Part(self._clock() + seconds, self._clock, self)

    def check(self) -> None:
        """Raise `RunCancelled` or `RunTimedOut` if the work should stop; return quickly otherwise."""
        if self.cancelled:
            raise RunCancelled("the run was cancelled")
        if self.remaining() == 0.0:
            raise RunTimedOut("the run's deadline has passed")


class _Part(Scope):
    """A part of a model call, with less time: it tells what the call tells."""

    __slots__ = ()

    def __init__(self, deadline: float, clock: Clock, whole: Scope) -> None:
        super().__init__(deadline, clock, whole)
        self.is_turn = whole.is_turn

    def tell_retry(self, attempt: int, wait: float, error: BaseException) -> None:
        if self._parent is not None:
            self._parent.tell_retry(attempt, wait, error)


class _TakeBack:
    """Removes a callback when called; a small object, because each inner run holds one."""

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
        self._first = threading.Lock()  # never released: only the caller that acquires it calls the function

    def take(self) -> bool:
        """Whether the caller is the first, who must call the function."""
        return self._first.acquire(blocking=False)

    def __call__(self) -> None:
        if self.take():
            self.callback()


def _once(callback: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls `callback` the first time only: a scope and its parent may both be cancelled."""
    first = threading.Lock()  # never released: only the caller that acquires it calls the function

    def call() -> None:
        if first.acquire(blocking=False):
            callback()

    return call


Unmade: TypeAlias = tuple[float, Clock, Scope | None]
"""Deadline, clock and parent of a scope that nobody can cancel: it is made for who asks for it, and few messages' code does."""

_current: contextvars.ContextVar[Scope | Unmade | None] = contextvars.ContextVar("understudy_scope", default=None)


def current_scope() -> Scope | None:
    """Return the scope of the present run, or None outside of runs."""
    found = _current.get()
    if isinstance(found, tuple):
        found = Scope(*found)
        _current.set(found)
    return found


def present_origin() -> Origin:
    """Return what the present code is part of, for names in log lines."""
    found = _current.get()
    return stated_origin() or Origin(chain_of_code(), found.call if isinstance(found, Scope) else None)


def account_of_turn() -> Account | None:
    """Return the account of the present model call, or None outside of one."""
    scope = current_scope()
    return scope.account if scope is not None and scope.is_turn else None


def scope_in(context: contextvars.Context) -> Scope | None:
    """Return the scope of a context; another thread may be using the context."""
    found = context.get(_current)
    return Scope(*found) if isinstance(found, tuple) else found


# No functions around these methods, because every message, model call and tool call uses them.
def has_scope() -> bool:
    """Whether this code is inside of a scope; makes none, unlike `current_scope`."""
    return _current.get() is not None


enter_scope = _current.set
"""Make a scope the current one of this context; undo with `leave_scope`."""
leave_scope = _current.reset
"""Undo `enter_scope`, given the token that it returned, in the context it was called in."""
