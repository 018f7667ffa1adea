"""The future that stands for several: it hears of each by a callback, so no thread waits for any of them."""

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

from .endings import Ending, Failure, Member, Rule, Value
from .graph import callers_here, graph
from .waits import Merged, Traceable, awaited_by

V = TypeVar("V")
R = TypeVar("R")

log = logging.getLogger("understudy")


class MergedFuture(Future[R], Traceable, Generic[V, R]):
    """The future of what `members` come to by a rule. Once that is certain, members that are not done are cancelled.

    Nothing is called under the lock: neither members nor callbacks.

    Args:
        name: names it in its `repr`.
        members: each is listened to; none is referred to any more once this future is done.
        rule: this future's own from now on.
        timeout: seconds from now until the rule is asked what there is; None for no limit.
    """

    __slots__ = (
        "_alarm",
        "_any_will_do",
        "_cancelled",
        "_heard",
        "_link",
        "_lock",
        "_members",
        "_name",
        "_reply",
        "_rule",
        "_total",
    )

    def __init__(self, name: str, members: Sequence[Member[V]], rule: Rule[V, R], timeout: float | None) -> None:
        began = time.monotonic()
        self._name = name
        self._total = len(members)
        self._members = members
        self._link: _Link[V, R] = _Link(self)
        self._alarm: Alarm | None = None
        self._lock = threading.Lock()
        """Guards rule, count and cancelled. Whoever takes the rule away decides how this future ends."""
        self._rule: Rule[V, R] | None = rule
        self._any_will_do = rule.any_will_do
        self._heard = 0
        self._cancelled = False
        self._reply: Promise[R] = Promise()
        self._reply.when_done(self._dismiss)  # before any callback of the user's
        self._end(lambda rule: rule.verdict())  # there may be nothing to hear
        for place, member in enumerate(members):
            if self._reply.done:
                return
            member.add_done_callback(partial(self._link.hear, place))
        if timeout is not None and timeout != inf:
            self._set_alarm(began + timeout, timeout)

    def _set_alarm(self, deadline: float, timeout: float) -> None:
        if time.monotonic() >= deadline:
            return self.lapse(timeout)
        try:
            self._alarm = ring_at(deadline, partial(self._link.lapse, timeout))
        except RuntimeError as error:  # no thread, so nobody would say when the time is over
            failure = Failure(error.with_traceback(None))
            self._end(lambda _: failure)
        if self._alarm is not None and self._reply.done:  # done meanwhile, by a thread that saw no alarm to call off
            self._alarm.call_off()
        return None

    # --- what members and the clock tell, on any thread

    def hear(self, place: int, member: Member[V]) -> None:
        """Take the ending of the member at `place`, which is done."""
        ending = _ending_of(member)

        def decide(rule: Rule[V, R]) -> Ending[R] | None:
            self._heard += 1
            rule.note(place, ending)
            return rule.verdict()

        if not self._end(decide) and self._any_will_do:
            graph.tightened(self)

    def lapse(self, timeout: float) -> None:
        """End now, for the time is over."""
        self._end(lambda rule: rule.lapse(TimeoutError(f"{self._progress()} after {timeout:g} s")))

    def _end(self, decide: Callable[[Rule[V, R]], Ending[R] | None], *, cancelled: bool = False) -> bool:
        """End if `decide` finds how, and if nothing else has ended this future; whether this call did."""
        with self._lock:
            rule = self._rule  # kept here beyond the lock: what goes with it may run code of the user's
            if rule is None:
                return False
            ending = decide(rule)
            if ending is None:
                return False
            self._rule = None
            self._cancelled = cancelled
        match ending:
            case Value(value=value):
                self._reply.set(value)
            case Failure(error=error):
                self._reply.fail(error)
        return True

    def _dismiss(self) -> None:
        """Cancel whoever is not done, and let go of everyone.

        Besides the thread that ends this future, each one that waited for it does so before it goes on: it may rely on
        no loser beginning from then on, and need not wait until the other thread has been through all callbacks.
        """
        self._link.target = None
        with cancel_hooks.settling(0.0):  # nobody waits for a loser, nor for what it wants done
            for member in self._members:
                if not member.done():
                    try:
                        member.cancel()
                    except Exception:
                        log.exception("a future could not be cancelled")
        self._members = ()
        if self._alarm is not None:
            self._alarm.call_off()

    # --- the future's own side

    def result(self, timeout: float | None = None) -> R:
        reply = self._wait(timeout)
        error = reply.error()
        if error is None:
            return reply.get()
        try:
            raise error
        finally:
            del error, reply, self  # the error refers to this frame by its traceback, and must not by it to itself

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._wait(timeout).error()

    def _wait(self, timeout: float | None) -> Promise[R]:
        callers = callers_here()
        look = self._reply.done or (timeout is not None and timeout <= 0)
        if not (self._reply.wait(timeout) if look or not callers else self._wait_in_line(callers, timeout)):
            raise TimeoutError(f"{self._progress()} after {timeout:g} s; the others go on")
        self._dismiss()
        return self._reply

    def _wait_in_line(self, callers: Ancestry, timeout: float | None) -> bool:
        """Wait inside of a run or an actor; woken also when the wait has come to close a circle."""
        woken: Promise[None] = Promise()
        wake = partial(woken.set, None)
        with graph.waiting(callers, self.awaited(), woken.fail):
            self._reply.when_done(wake, first=True)  # a loser may be slow to cancel
            try:
                if woken.wait(timeout):
                    woken.get()
            finally:
                self._reply.forget(wake)
        return self._reply.done

    def awaited(self) -> Merged:
        return Merged(self, [awaited_by(member) for member in self._members], any_will_do=self._any_will_do)

    def expects(self, place: int) -> bool:
        rule = self._rule
        return rule is not None and rule.expects(place)

    def done(self) -> bool:
        return self._reply.done

    def running(self) -> bool:
        return not self._reply.done

    def cancelled(self) -> bool:
        return self._cancelled and self._reply.done

    def cancel(self) -> bool:
        return self._end(lambda _: Failure(CancelledError(f"cancelled with {self._progress()}")), cancelled=True)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        checked_plain("a done callback", callback)
        self._reply.when_done(partial(self._tell, callback))

    def _tell(self, callback: Callable[[Self], object]) -> None:
        self._dismiss()  # as for whoever waited: a callback added late may be on a thread of its own
        callback(self)

    def _progress(self) -> str:
        return f"{self._heard} of {self._total} futures done"

    def __repr__(self) -> str:
        return f"<{self._name}: {self._progress()}>"


class _Link(Generic[V, R]):
    """What members and the clock hold of a merged future, until it is done.

    A standard future keeps its callbacks for ever: through them it must not keep what it was merged into.
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
    except Exception as raised:  # a standard future that was cancelled raises it
        error = raised.with_traceback(None)  # its frames refer to the member
    return Failure(error)
