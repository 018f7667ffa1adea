"""A supervisor at run time: it restarts its members together, one after another, on their own threads.

A supervisor has no thread. A member that fails asks it what to do. Where others are affected, they are halted, the last
one first, and begun again, the first one first: each by a message in its system queue, whose callback goes on to the next.
"""

from __future__ import annotations

import random
import threading
import time
from functools import partial

from understudy.actors.cells.event_stream import EventStream
from understudy.orchestration.supervision.restarts import (
    Directive,
    Restart,
    RestartBudget,
    Strategy,
    decide,
)
from understudy.vocabulary.actors.system_events import Escalated

from .decider import wanted_directive
from .event_notices import tell_delay
from .members import IsCurrent, Member, OnDone, always, begin_all, call_all, give_up_all, halt_all, stop_all


class SupervisorCell:
    """A running supervisor; itself a member, if another one is above it. Any thread may call it; it never waits.

    Args:
        name: the supervisor's address.
        strategy: what happens when a member fails.
        parent: the supervisor above, told when this one gives up; None at the top of a system.
        events: where its events are published; None for the supervisor of a lone actor, which publishes its own.
        restart: what the parent does when this one gives up.
        budget: how many failures it bears; None for the strategy's number.
    """

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        *,
        parent: SupervisorCell | None = None,
        events: EventStream | None = None,
        restart: Restart = "transient",
        budget: RestartBudget | None = None,
    ) -> None:
        self.name = name
        self.restart: Restart = restart
        self.members: list[Member] = []
        self._strategy = strategy
        self._parent = parent
        self._events = events
        self._budget = RestartBudget(strategy) if budget is None else budget
        self._waiting_for_begin: tuple[OnDone, ...] = ()
        """Callbacks of all who had the members begin, until these have begun; empty while no begin is under way."""
        self._lock = threading.Lock()
        """Guards the budget, those callbacks and everything below."""
        self._regrouping = False
        """Whether some members are being restarted together."""
        self._unbegun: tuple[Member, ...] = ()
        """The members among them that have not begun again."""
        self._next: tuple[Member, ...] = ()
        """Members that have failed meanwhile; they are restarted after that."""
        self._epoch = 0
        """How often it was begun, halted or given up. A begin that was decided in an earlier epoch is superseded."""
        self._generation = 0
        """How often it was begun."""
        self._parent_generation = 0
        """The parent's generation in which it was begun last."""
        self._halted = False
        """Whether it was halted and has not begun since: the supervisors above are restarted, and it begins with them."""
        self.cause: BaseException | None = None
        """Why it was given up; None while it works."""

    # --- called by a member, on its own thread

    def decide(self, member: Member, error: BaseException, *, starting: bool = False, run: str = "") -> Directive:
        """Return what to do about a failure, in a `run` if the member is an agent; all members share the budget."""
        wanted = wanted_directive(self._strategy, error, self.name)  # a user's function, so outside of the lock
        with self._lock:
            if self.cause is not None:
                return "escalate"  # no member begins again in a group that is given up
            if self._halted or (member in self._unbegun and not starting):
                return "restart"  # it gets a new object already, so the budget is not spent
            return decide(wanted, member.restart, self._budget, time.monotonic(), run)

    def is_only(self, member: Member) -> bool:
        """Whether `member` has no siblings, and no supervisor above this one."""
        return self._parent is None and self.members == [member]

    def worked(self) -> None:
        """Note that a run of a member has succeeded."""
        with self._lock:
            self._budget.worked()

    def concerns_others(self, member: Member) -> bool:
        """Whether a restart of `member` restarts others too."""
        return self._strategy.affected(self.members, member) != (member,)

    @property
    def backs_off(self) -> bool:
        """Whether a restart comes after a delay."""
        return self._strategy.backoff is not None

    def undisturbed(self) -> IsCurrent:
        """Return a function that is true until the supervisor is next begun, halted or given up; never, if it does not work."""
        with self._lock:
            return self._undisturbed() if self.cause is None and not self._halted else _never

    def _undisturbed(self) -> IsCurrent:
        epoch = self._epoch
        return lambda: self._epoch == epoch

    def delay(self) -> float:
        """Return the seconds to wait before the restart that was decided last."""
        with self._lock:
            return self._budget.delay(random.random())

    def regroup(self, member: Member, cause: BaseException) -> None:
        """Restart `member` and those that the strategy restarts with it: now, or after the regrouping under way."""
        with self._lock:
            if member in self._unbegun or self.cause is not None or self._halted:
                return
            if self._regrouping:  # it has begun already, and failed since
                self._next += (member,)
                return
            affected = self._strategy.affected(self.members, member)
            self._regrouping, self._unbegun = True, affected
            delay, is_current, generation = self._budget.delay(random.random()), self._undisturbed(), self._generation
        self._tell_of_delay(delay)
        begin = partial(begin_all, affected, delay, self._regrouped, is_current, generation, self._has_begun)
        halt_all(affected, cause, begin, generation, with_siblings=True)

    def _tell_of_delay(self, delay: float) -> None:
        if self._events is not None:
            tell_delay(self._events, self.name, delay)

    def _has_begun(self, member: Member) -> None:
        with self._lock:
            self._unbegun = tuple([each for each in self._unbegun if each is not member])

    def _regrouped(self) -> None:
        with self._lock:
            self._regrouping = False
            following, self._next = self._next[:1], self._next[1:]
        for member in following:
            self.regroup(member, RuntimeError(f"{self.name}: it failed while others were restarted"))

    def escalate(self, cause: BaseException) -> None:
        """Give up all members, the last one first, and then tell the parent."""
        with self._lock:
            if self.cause is not None:
                return
            generation = self._end(cause)
            callbacks, self._waiting_for_begin = self._waiting_for_begin, ()
        if self._events is not None and self._events.wants(Escalated):
            self._events.publish(Escalated(address=self.name, reason=cause))
        give_up_all(self.members, cause, partial(self._tell_parent, cause, callbacks, generation), generation)

    def _tell_parent(self, cause: BaseException, callbacks: tuple[OnDone, ...], generation: int) -> None:
        if self._parent is not None:
            self._parent.member_failed(self, cause, partial(call_all, callbacks) if callbacks else None, generation)

    def _end(self, cause: BaseException | None) -> int:
        """Supersede the begins that were decided before, and return the generation."""
        self.cause = cause
        self._epoch += 1
        self._regrouping, self._unbegun, self._next = False, (), ()
        return self._generation

    def member_failed(
        self, member: SupervisorCell, cause: BaseException, on_done: OnDone | None, generation: int
    ) -> None:
        """Decide about a member that is a supervisor and has given up.

        Args:
            member: the supervisor.
            cause: its last failure.
            on_done: called after its next successful start, if it gave up while it was starting; else None.
            generation: its own generation in which it gave up; in a later one there is nothing to do.
        """
        is_current = self.undisturbed()
        if member.has_begun_since(generation, on_done):
            return
        match self.decide(member, cause, starting=on_done is not None):
            case "restart" if on_done is not None:
                delay = self.delay()
                self._tell_of_delay(delay)
                member.begin(delay, on_done, is_current, self._generation)
            case "restart":
                self.regroup(member, cause)
            case "escalate":
                self.escalate(cause)
            case "resume" | "stop":  # it stays given up, and the members after it start without it
                if on_done is not None:
                    on_done()

    def has_begun_since(self, generation: int, on_done: OnDone | None) -> bool:
        """Return whether it was begun after `generation`; if so, `on_done` is called when all members have begun."""
        with self._lock:
            if self._generation == generation:
                return False
            beginning = bool(self._waiting_for_begin)
            if beginning and on_done is not None:
                self._waiting_for_begin += (on_done,)
        if not beginning and on_done is not None:
            on_done()
        return True

    # --- a supervisor as a member

    def halt(
        self, cause: BaseException | None, on_done: OnDone, generation: int = 0, *, with_siblings: bool = False
    ) -> None:
        with self._lock:
            mine = self._end(self.cause) if generation >= self._parent_generation else None
            self._halted = self._halted or mine is not None
        if mine is None:
            on_done()
        else:
            halt_all(self.members, cause, on_done, mine)

    def begin(self, delay: float, on_done: OnDone, is_current: IsCurrent = always, generation: int = 0) -> None:
        with self._lock:
            if not is_current():
                return
            self._parent_generation = generation
            self._end(None)  # supersedes also the begin of a member that failed after it was halted
            self._halted = False
            self._generation += 1
            self._budget.renew()
            self._waiting_for_begin += (on_done,)  # beside those of an earlier begin, such as a regrouping's
            undisturbed, mine = self._undisturbed(), self._generation
        begin_all(self.members, delay, self._begun, lambda: undisturbed() and is_current(), mine)

    def _begun(self) -> None:
        with self._lock:
            callbacks, self._waiting_for_begin = self._waiting_for_begin, ()
        call_all(callbacks)

    def stop_then(self, on_done: OnDone) -> None:
        """Stop the members, the last one first, each after the one before it, and then call `on_done`."""
        stop_all(self.members, on_done)

    def give_up(self, cause: BaseException, on_done: OnDone, generation: int = 0) -> None:
        with self._lock:
            # Also if it was given up before: its members may have been halted since.
            why = cause if self.cause is None else self.cause
            mine = self._end(why) if generation >= self._parent_generation else None
        if mine is None:
            on_done()
        else:
            give_up_all(self.members, cause, on_done, mine)

    def forgive(self) -> None:
        """Forget the failures, for a new attempt."""
        with self._lock:
            self.cause = None
            self._budget.renew()

    def try_again(self) -> None:
        """Begin all members again after it was given up, and those of the supervisors above that were given up with it."""
        if self._parent is not None and self._parent.cause is not None:
            self._parent.try_again()
        else:
            self.begin(0.0, lambda: None, generation=self._parent_generation)


def _never() -> bool:
    """Never true: the start is superseded already."""
    return False
