"""The future that stands for several: each tells it by a callback, so no thread waits for any of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from math import inf
from typing import Generic, Self, TypeVar, cast

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.promise import Late, Promise
from understudy.vocabulary.checks import checked_plain, checked_wait

from .awaited import Merged, awaited_by, unseen
from .base_future import UNSEEN, PromisedFuture, waited
from .endings import Ending, Endings, Failure, Member, Value
from .graph import graph
from .members import cancel_all, ending_of

V = TypeVar("V")
R = TypeVar("R")


class MergedFuture(PromisedFuture[R], Generic[V, R]):
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
        ending = ending_of(member)

        def decide(endings: Endings[V, R]) -> Ending[R] | None:
            self._heard += 1
            endings.note(place, ending)
            return endings.verdict()

        if not self._end(decide) and self._any_will_do:
            graph.tightened(self)

    def lapse(self, timeout: float) -> None:
        """End because the time is over."""
        hint = f"; {UNSEEN}" if unseen(self.awaited()) else ""
        self._end(lambda endings: endings.lapse(TimeoutError(f"{self._progress()} after {timeout:g} s{hint}")))

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
        cancel_all(self._members)  # nobody waits for a loser, nor for its cancel hooks
        self._members = ()
        if self._alarm is not None:
            self._alarm.call_off()

    # --- called by users of the future

    def _wait(self, timeout: float | None) -> Promise[R]:
        checked_wait("result", timeout)
        if not waited(self._promise, self.awaited, timeout):
            raise Late(f"{self._progress()} after {timeout:g} s; the others go on")
        self._dismiss()
        return self._promise

    def awaited(self) -> Merged:
        return Merged(self, [awaited_by(member) for member in self._members], any_will_do=self._any_will_do)

    def expects(self, place: int) -> bool:
        endings = self._endings
        return endings is not None and endings.expects(place)

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
