"""What all futures of the runtime have for users of Pykka, and the futures that are derived from others."""

from __future__ import annotations

import contextlib
import functools
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

import pykka

from understudy.actors.threads.promise import Late, Promise
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.orchestration.group.merge_rule import AllValues, MemberEnds
from understudy.vocabulary.checks import checked_plain, checked_wait
from understudy.vocabulary.context.ancestry import Ancestry
from understudy.vocabulary.context.scope import current_scope
from understudy.vocabulary.runs.handles import Future

from .awaited import Awaited, Merged, Traceable, awaited_by, unseen
from .endings import Ending, Failure, Member, Value
from .graph import callers_here, graph
from .members import as_members, cancel_all, ending_of

if TYPE_CHECKING:
    import asyncio

V_co = TypeVar("V_co", covariant=True)
R = TypeVar("R")
J = TypeVar("J")
M = TypeVar("M")

RULE = AllValues()


class BaseFuture(Future[V_co], pykka.Future[Any], Traceable):
    """A future of the runtime: a `pykka.Future`, but without Pykka's own methods, which make futures by `self.__class__()`."""

    __slots__ = ()
    if not TYPE_CHECKING:  # Pykka declares both
        _get_hook = None  # in place of Pykka's constructor, which is not called: see docs/decisions.md
        __iter__ = None  # Pykka's waits: `list(future)` would block, and return [None]

    def map(self, func: Callable[[V_co], M]) -> Future[M]:
        checked_plain("the function of map", func)
        return DerivedFuture([self], lambda values: func(values[0]))

    def filter(self: Future[Iterable[J]], func: Callable[[J], bool]) -> Future[Iterable[J]]:
        checked_plain("the function of filter", func)
        return DerivedFuture([self], lambda values: list(filter(func, values[0])))

    def reduce(self: Future[Iterable[Any]], func: Callable[[Any, Any], Any], *args: Any) -> Future[Any]:
        checked_plain("the function of reduce", func)
        return DerivedFuture([self], lambda values: functools.reduce(func, values[0], *args))

    def join(self, *futures: Any, timeout: float | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] (takes the same)
        if len(futures) == 1 and isinstance(futures[0], (int, float, NoneType)):
            (timeout,), futures = futures, ()
        if futures and timeout is None:
            return DerivedFuture(as_members("join", (self, *futures)), list)
        if futures:
            raise TypeError("join waits for itself with a timeout, or joins futures without one")
        with suppress(TimeoutError):
            self.exception(timeout)
        return None

    def __await__(self) -> Generator[Any, None, V_co]:
        if not self.done():
            yield from until_done(self, self.awaited)
        return self.result(0)

    def set(self, value: object = None) -> NoReturn:
        raise TypeError(f"{self!r} gets its value from the runtime; it cannot be set")

    def set_exception(self, exc_info: object = None) -> NoReturn:
        raise TypeError(f"{self!r} gets its error from the runtime; it cannot be set")

    def set_get_hook(self, func: object) -> NoReturn:
        raise TypeError(f"{self!r} gets its value from the runtime; it takes no get hook")

    @property
    def origin(self) -> str:
        """Who brings the value: an address, or a run's id."""
        return "a future"

    @property
    def state(self) -> str:
        """How it stands, in a word."""
        if not self.done():
            return "pending"
        if self.cancelled():
            return "cancelled"
        return "done" if self.exception(0) is None else "failed"

    def __repr__(self) -> str:
        return object.__repr__(self)  # Pykka's names the class of Pykka


class PromisedFuture(BaseFuture[V_co]):
    """A future whose end a promise tells."""

    __slots__ = ("_promise",)
    _promise: Promise[V_co]

    @abstractmethod
    def _wait(self, timeout: float | None) -> Promise[V_co]:
        """Return the promise once it is done; raises `Late` after `timeout` seconds."""

    def result(self, timeout: float | None = None) -> V_co:
        promise = self._wait(timeout)
        error = promise.error()
        if error is None:
            return promise.get()
        try:
            raise error
        finally:
            del error, promise, self  # the error refers to this frame by its traceback, and must not by it to itself

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._wait(timeout).error()

    def done(self) -> bool:
        return self._promise.done

    def running(self) -> bool:
        return not self._promise.done

    def cancelled(self) -> bool:
        return isinstance(self._promise.error(), CancelledError)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        checked_plain("a done callback", callback)
        self._promise.when_done(lambda: callback(self))


class DerivedFuture(PromisedFuture[R]):
    """The future of what `make` makes of the values of `sources`, once all are there; or of their first error.

    `make` is called once, on a lent thread, in the context of the thread that derives. Callbacks are called on that thread.
    """

    __slots__ = ("_decided", "_ends", "_lock", "_make", "_origin", "_sources")

    def __init__(self, sources: Sequence[Member[Any]], make: Callable[[list[Any]], R]) -> None:
        self._sources = sources
        context = copy_context()
        self._make: Callable[[list[Any]], R] = lambda values: context.run(make, values)
        self._lock = threading.Lock()
        """Guards ends and decided."""
        self._ends = MemberEnds(len(sources))
        self._decided = False
        self._promise: Promise[R] = Promise()
        self._origin: str = (
            getattr(sources[0], "origin", "a future") if len(sources) == 1 else f"{len(sources)} futures"
        )
        for place, source in enumerate(sources):
            source.add_done_callback(partial(self._hear, place))

    def _hear(self, place: int, source: object) -> None:
        """Note that a source is done, on the thread that completed it."""
        ending = ending_of(cast("Member[Any]", source))  # it passes itself
        with self._lock:
            ended = self._ends.failed if isinstance(ending, Failure) else self._ends.succeeded
            ended.append(place)
            decides = not self._decided and RULE.verdict(self._ends) is not None
            self._decided = self._decided or decides
        if decides:
            run_elsewhere(partial(self._finish, ending))

    def _finish(self, last: Ending[Any]) -> None:
        """End; `last` is the first error, or the last value."""
        sources, self._sources = self._sources, ()
        if self._promise.done:  # cancelled
            return
        ending = last if isinstance(last, Failure) else _made(self._make, sources)
        if isinstance(ending, Failure):
            self._promise.fail(ending.error)
        else:
            self._promise.set(ending.value)

    def _wait(self, timeout: float | None) -> Promise[R]:
        checked_wait("result", timeout)
        if not waited(self._promise, self.awaited, timeout):
            assert timeout is not None  # else the wait has no end before the promise is done
            raise self._late(timeout)
        return self._promise

    def _late(self, timeout: float) -> Late:
        return Late(f"a derived future is not done after {timeout:g} s; the work that it waits for goes on")

    def awaited(self) -> Merged:
        return Merged(self, [awaited_by(source) for source in self._sources], any_will_do=False)

    def expects(self, place: int) -> bool:
        return not self._decided

    def cancel(self) -> bool:
        sources = self._sources
        cancelled = self._promise.fail(CancelledError("a derived future was cancelled"))
        if cancelled:
            cancel_all(sources)
        return cancelled

    def __repr__(self) -> str:
        return f"<derived from {self._origin}: {self.state}>"

    @property
    def origin(self) -> str:
        return self._origin


def _made(make: Callable[[list[Any]], R], sources: Sequence[Member[Any]]) -> Ending[R]:
    try:
        return Value(make([source.result(0) for source in sources]))
    except BaseException as error:
        return Failure(error)


def until_done(future: BaseFuture[Any], awaits: Callable[[], Awaited]) -> Generator[Any, None, None]:
    """Suspend the present coroutine until `future` is done; a cancelled task does not cancel it.

    Raises:
        CircularAgentCall: this is inside of a run or an actor, and the wait closes a cycle, now or later.
        RuntimeError: no asyncio event loop runs in this thread.
    """
    import asyncio  # here, because most programs have no event loop

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("`await` needs an event loop of asyncio; elsewhere, result() waits") from None
    waiter: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda _: _wake(loop, waiter))
    callers = callers_here()
    if not callers:
        return (yield from waiter)
    with graph.waiting(callers, awaits(), partial(_wake, loop, waiter)):
        return (yield from waiter)


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], error: BaseException | None = None) -> None:
    """Have the coroutine go on, from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
        loop.call_soon_threadsafe(_settle, waiter, error)


def _settle(waiter: asyncio.Future[None], error: BaseException | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)


UNSEEN = "a future of Pykka is not done, and whether it waits for this one cannot be seen"


def waited(promise: Promise[Any], awaits: Callable[[], Awaited], timeout: float | None) -> bool:
    """Wait up to `timeout` seconds for `promise`, which depends on what `awaits()` returns; return whether it is done.

    Raises:
        CircularAgentCall: this is inside of a run or an actor, and the wait closes a cycle, now or later.
        Late: the deadline of the run around this wait is over, and a cycle through a future of Pykka cannot be excluded.
    """
    if promise.done or (timeout is not None and timeout <= 0):  # to look is not to wait
        return promise.wait(timeout)
    callers, left = callers_here(), _until_deadline()
    if left is None or (timeout is not None and timeout <= left) or not unseen(awaits()):
        return _wait(promise, callers, awaits, timeout)
    if _wait(promise, callers, awaits, left):
        return True
    if unseen(awaits()):
        raise Late(f"the deadline of the run is over: {UNSEEN}")
    return _wait(promise, callers, awaits, None if timeout is None else timeout - left)


def _until_deadline() -> float | None:
    scope = current_scope()
    return None if scope is None else scope.remaining()


def _wait(promise: Promise[Any], callers: Ancestry, awaits: Callable[[], Awaited], timeout: float | None) -> bool:
    """Wait; inside of a run or an actor, woken also when the wait has come to close a cycle."""
    if not callers:  # outside, or after the end of the run
        return promise.wait(timeout)
    woken: Promise[None] = Promise()
    wake = partial(woken.set, None)
    with graph.waiting(callers, awaits(), woken.fail):
        promise.when_done(wake, first=True)  # a loser may be slow to cancel
        try:
            if woken.wait(timeout):
                woken.get()
        finally:
            promise.forget(wake)
    return promise.done
