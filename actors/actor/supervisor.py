"""The children of one supervisor at run time: restarted together, one after another, on their own threads.

No thread belongs to a supervisor. A child that fails asks its family what to do; where others are affected, they are halted,
the last one first, and begun again, the first one first, each by a message on its system lane that calls the next one's turn.
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
from .members import Member, Still, Then, always, begin_all, call_all, give_up_all, halt_all, stop_all


class SupervisorCell:
    """What a supervisor is while it runs. Any thread may call it; it never waits.

    Args:
        name: the supervisor's address.
        strategy: what happens when a member fails.
        parent: who is told when this family has failed too often; None for a family of the system's own.
        events: where what happens to it is told; None for the family of an actor that stands alone, which tells it itself.
        restart: what the parent does about it.
        budget: how many failures give the family up; None for the strategy's number.
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
        self._then: tuple[Then, ...] = ()
        """What follows when all members have begun, of everyone who had them begin; empty while they are not beginning."""
        self._lock = threading.Lock()
        """Guards the budget and everything below, and what follows."""
        self._regrouping = False
        """Whether some members are being restarted together."""
        self._unbegun: tuple[Member, ...] = ()
        """Of those, who has not begun again."""
        self._next: tuple[Member, ...] = ()
        """Who failed meanwhile, and has its turn after that."""
        self._epoch = 0
        """How often it was begun, halted or given up; what was to begin before that does not begin any more."""
        self._life = 0
        """How often it was begun."""
        self._begun_in = 0
        """In which life of the parent's it was begun last."""
        self._halted = False
        """Whether it was halted and has not begun since: those above are restarted, and it begins with them."""
        self.cause: BaseException | None = None
        """Why the family was given up; None while it works."""

    # --- called by a member, on its own thread

    def decide(self, member: Member, error: BaseException, *, starting: bool = False, run: str = "") -> Directive:
        """Return what is to be done about a failure, of a `run` if it is an agent's; the budget is shared by all members."""
        wanted = wanted_directive(self._strategy, error, self.name)  # a user's function, so outside of the lock
        with self._lock:
            if self.cause is not None:
                return "escalate"  # nobody begins again in a group that is given up
            if self._halted or (member in self._unbegun and not starting):
                return "restart"  # on its way to a new object already, so nothing is spent
            return decide(wanted, member.restart, self._budget, time.monotonic(), run)

    def is_only(self, member: Member) -> bool:
        """Whether nobody else, also above, would begin with `member`."""
        return self._parent is None and self.members == [member]

    def worked(self) -> None:
        """Note that a run of a member's ended well."""
        with self._lock:
            self._budget.worked()

    def concerns_others(self, member: Member) -> bool:
        """Whether a restart of `member` is more than its own business."""
        return self._strategy.affected(self.members, member) != (member,)

    @property
    def backs_off(self) -> bool:
        """Whether restarts are waited for."""
        return self._strategy.backoff is not None

    def undisturbed(self) -> Still:
        """Return what says whether the family works, and has not been begun, halted or given up since now."""
        with self._lock:
            return self._undisturbed() if self.cause is None and not self._halted else _never

    def _undisturbed(self) -> Still:
        epoch = self._epoch
        return lambda: self._epoch == epoch

    def delay(self) -> float:
        """Return the seconds to wait before the restart that was decided last."""
        with self._lock:
            return self._budget.delay(random.random())

    def regroup(self, member: Member, cause: BaseException) -> None:
        """Restart `member` and all that the strategy restarts with it, now or after the regrouping under way."""
        with self._lock:
            if member in self._unbegun or self.cause is not None or self._halted:
                return
            if self._regrouping:  # it has begun already, and failed since
                self._next += (member,)
                return
            affected = self._strategy.affected(self.members, member)
            self._regrouping, self._unbegun = True, affected
            delay, still, life = self._budget.delay(random.random()), self._undisturbed(), self._life
        self._tell_of_delay(delay)
        begin = partial(begin_all, affected, delay, self._regrouped, still, life, self._has_begun)
        halt_all(affected, cause, begin, life, with_siblings=True)

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
            life = self._end(cause)
            then, self._then = self._then, ()
        if self._events is not None and self._events.wants(Escalated):
            self._events.publish(Escalated(address=self.name, reason=cause))
        give_up_all(self.members, cause, partial(self._tell_parent, cause, then, life), life)

    def _tell_parent(self, cause: BaseException, then: tuple[Then, ...], life: int) -> None:
        if self._parent is not None:
            self._parent.member_failed(self, cause, partial(call_all, then) if then else None, life)

    def _end(self, cause: BaseException | None) -> int:
        """End what was to begin, and return which life it is."""
        self.cause = cause
        self._epoch += 1
        self._regrouping, self._unbegun, self._next = False, (), ()
        return self._life

    def member_failed(self, member: SupervisorCell, cause: BaseException, then: Then | None, life: int) -> None:
        """Do what is to be done about a member that is a family and has failed too often.

        Args:
            member: the family.
            cause: what it failed of last.
            then: what should have followed its start; None if it had started.
            life: its life in which it failed; in a later one there is nothing to be done.
        """
        still = self.undisturbed()
        if member.has_begun_since(life, then):
            return
        match self.decide(member, cause, starting=then is not None):
            case "restart" if then is not None:
                delay = self.delay()
                self._tell_of_delay(delay)
                member.begin(delay, then, still, self._life)
            case "restart":
                self.regroup(member, cause)
            case "escalate":
                self.escalate(cause)
            case "resume" | "stop":  # it stays given up, and those after it do without it
                if then is not None:
                    then()

    def has_begun_since(self, life: int, then: Then | None) -> bool:
        """Return whether the family was begun after that life; `then` follows the beginning under way, or is called now."""
        with self._lock:
            if self._life == life:
                return False
            beginning = bool(self._then)
            if beginning and then is not None:
                self._then += (then,)
        if not beginning and then is not None:
            then()
        return True

    # --- a family as a member

    def halt(self, cause: BaseException | None, then: Then, life: int = 0, *, with_siblings: bool = False) -> None:
        with self._lock:
            mine = self._end(self.cause) if life >= self._begun_in else None
            self._halted = self._halted or mine is not None
        if mine is None:
            then()
        else:
            halt_all(self.members, cause, then, mine)

    def begin(self, delay: float, then: Then, still: Still = always, life: int = 0) -> None:
        with self._lock:
            if not still():
                return
            self._begun_in = life
            self._end(None)  # also what a member began that failed after it was halted
            self._halted = False
            self._life += 1
            self._budget.renew()
            self._then += (then,)  # one who had it begin before, such as a regrouping, must hear of it as well
            undisturbed, mine = self._undisturbed(), self._life
        begin_all(self.members, delay, self._begun, lambda: undisturbed() and still(), mine)

    def _begun(self) -> None:
        with self._lock:
            then, self._then = self._then, ()
        call_all(then)

    def stop_then(self, then: Then) -> None:
        """Stop the members, the last one first, each after the one before it, and then call `then`."""
        stop_all(self.members, then)

    def give_up(self, cause: BaseException, then: Then, life: int = 0) -> None:
        with self._lock:
            # Also if it was given up before: its members may have been halted since, to begin with others.
            why = cause if self.cause is None else self.cause
            mine = self._end(why) if life >= self._begun_in else None
        if mine is None:
            then()
        else:
            give_up_all(self.members, cause, then, mine)

    def forgive(self) -> None:
        """Forget the failures, for a new attempt."""
        with self._lock:
            self.cause = None
            self._budget.renew()

    def try_again(self) -> None:
        """Begin all members anew after the family was given up; if it was given up with those above, all of these too."""
        if self._parent is not None and self._parent.cause is not None:
            self._parent.try_again()
        else:
            self.begin(0.0, lambda: None, life=self._begun_in)


def _never() -> bool:
    """Say, as an `undisturbed` does, that the beginning is not wanted any more."""
    return False
