"""The future that stands for several: each tells it by a callback, so no thread waits for any of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from math import inf
from typing import Generic, Self, TypeVar, cast

from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.promise import Promise
from understudy.vocabulary.checks import checked_plain
from understudy.vocabulary.context.ancestry import Ancestry
from understudy.vocabulary.runs.handles import Future

from .awaited import Merged, Traceable, awaited_by
from .endings import Ending, Endings, Failure, Member, Value
from .graph import callers_here, graph

V = TypeVar("V")
R = TypeVar("R")

log = logging.getLogger("understudy")


class MergedFuture(Future[R], Traceable, Generic[V, R]):
    """The future of the ending that is made of the `endings` of `members`. Once it is certain, members that are not done are cancelled.

    Neither members nor callbacks are called under the lock.

    Args:
        name: names it in its `repr`.
        members: each gets a callback; once this future is done, it refers to none of them.
        endings: belong to this future from now on.
        timeout: seconds from now after which the endings so far decide; None for no limit.
    """

    __slots__ = (
        "_alarm",
        "_any_will_do",
        "_cancelled",
        "_endings",
        "_heard",
        "_link",
        "_lock",
        "_members",
        "_name",
        "_promise",
        "_total",
    )

    def __init__(self, name: str, members: Sequence[Member[V]], endings: Endings[V, R], timeout: float | None) -> None:
        began = time.monotonic()
        self._name = name
        self._total = len(members)
        self._members = members
        self._link: _Link[V, R] = _Link(self)
        self._alarm: Alarm | None = None
        self._lock = threading.Lock()
        """Guards endings, count and cancelled. The thread that takes the endings away decides how this future ends."""
        self._endings: Endings[V, R] | None = endings
        self._any_will_do = endings.rule.any_will_do
        self._heard = 0
        self._cancelled = False
        self._promise: Promise[R] = Promise()
        self._promise.when_done(self._dismiss)  # before any callback of the user
        self._end(lambda endings: endings.verdict())  # there may be no members
        for place, member in enumerate(members):
            if self._promise.done:
                return
            member.add_done_callback(partial(self._link.hear, place))
        if timeout is not None and timeout != inf:
            self._set_alarm(began + timeout, timeout)

    def _set_alarm(self, deadline: float, timeout: float) -> None:
        if time.monotonic() >= deadline:
            return self.lapse(timeout)
        try:
            self._alarm = ring_at(deadline, partial(self._link.lapse, timeout))
        except RuntimeError as error:  # no thread, so the timeout would never come
            failure = Failure(error.with_traceback(None))
            self._end(lambda _: failure)
        if self._alarm is not None and self._promise.done:  # done meanwhile, by a thread that saw no alarm to call off
            self._alarm.call_off()
        return None

    # --- called by members and by the alarm, on any thread

    def hear(self, place: int, member: Member[V]) -> None:
        """Note the ending of the member at `place`, which is done."""
        ending = _ending_of(member)

        def decide(endings: Endings[V, R]) -> Ending[R] | None:
            self._heard += 1
            endings.note(place, ending)
            return endings.verdict()

        if not self._end(decide) and self._any_will_do:
            graph.tightened(self)

    def lapse(self, timeout: float) -> None:
        """End because the time is over."""
        self._end(lambda endings: endings.lapse(TimeoutError(f"{self._progress()} after {timeout:g} s")))

    def _end(self, decide: Callable[[Endings[V, R]], Ending[R] | None], *, cancelled: bool = False) -> bool:
        """End if `decide` returns an ending and nothing else has ended this future; return whether this call did."""
        with self._lock:
            endings = self._endings  # this reference outlives the lock: to free values may run code of the user
            if endings is None:
                return False
            ending = decide(endings)
            if ending is None:
                return False
            self._endings = None
            self._cancelled = cancelled
        match ending:
            case Value(value=value):
                self._promise.set(value)
            case Failure(error=error):
                self._promise.fail(error)
        return True

    def _dismiss(self) -> None:
        """Cancel the members that are not done, and drop all.

        The thread that ends this future does so, and each thread that waited for it before it goes on: from then on no loser
        begins, and it need not wait until the other thread has called all callbacks.
        """
        self._link.target = None
        with cancel_hooks.Settling(0.0):  # nobody waits for a loser, nor for its cancel hooks
            for member in self._members:
                if not member.done():
                    try:
                        member.cancel()
                    except Exception:
                        log.exception("a future could not be cancelled")
        self._members = ()
        if self._alarm is not None:
            self._alarm.call_off()

    # --- called by users of the future

    def result(self, timeout: float | None = None) -> R:
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

    def _wait(self, timeout: float | None) -> Promise[R]:
        callers = callers_here()
        look = self._promise.done or (timeout is not None and timeout <= 0)
        if not (self._promise.wait(timeout) if look or not callers else self._wait_in_line(callers, timeout)):
            raise TimeoutError(f"{self._progress()} after {timeout:g} s; the others go on")
        self._dismiss()
        return self._promise

    def _wait_in_line(self, callers: Ancestry, timeout: float | None) -> bool:
        """Wait inside of a run or an actor; woken also when the wait has come to close a cycle."""
        woken: Promise[None] = Promise()
        wake = partial(woken.set, None)
        with graph.waiting(callers, self.awaited(), woken.fail):
            self._promise.when_done(wake, first=True)  # a loser may be slow to cancel
            try:
                if woken.wait(timeout):
                    woken.get()
            finally:
                self._promise.forget(wake)
        return self._promise.done

    def awaited(self) -> Merged:
        return Merged(self, [awaited_by(member) for member in self._members], any_will_do=self._any_will_do)

    def expects(self, place: int) -> bool:
        endings = self._endings
        return endings is not None and endings.expects(place)

    def done(self) -> bool:
        return self._promise.done

    def running(self) -> bool:
        return not self._promise.done

    def cancelled(self) -> bool:
        return self._cancelled and self._promise.done

    def cancel(self) -> bool:
        return self._end(lambda _: Failure(CancelledError(f"cancelled with {self._progress()}")), cancelled=True)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        checked_plain("a done callback", callback)
        self._promise.when_done(partial(self._tell, callback))

    def _tell(self, callback: Callable[[Self], object]) -> None:
        self._dismiss()  # as for a thread that waited: a late callback may run on another thread
        callback(self)

    def _progress(self) -> str:
        return f"{self._heard} of {self._total} futures done"

    def __repr__(self) -> str:
        return f"<{self._name}: {self._progress()}>"


class _Link(Generic[V, R]):
    """The reference of members and alarm to a merged future, until that is done.

    A standard future keeps its callbacks for ever; it must not keep the merged future through them.
    """

    __slots__ = ("target",)

    def __init__(self, target: MergedFuture[V, R]) -> None:
        self.target: MergedFuture[V, R] | None = target

    def hear(self, place: int, member: object) -> None:
        if (target := self.target) is not None:
            target.hear(place, cast("Member[V]", member))  # it passes itself

    def lapse(self, timeout: float) -> None:
        if (target := self.target) is not None:
            target.lapse(timeout)


def _ending_of(member: Member[V]) -> Ending[V]:
    """Return how a future that is done has ended."""
    try:
        error = member.exception(0)
        if error is None:
            return Value(member.result(0))
    except Exception as raised:  # a cancelled standard future raises it
        error = raised.with_traceback(None)  # its frames refer to the member
    return Failure(error)
