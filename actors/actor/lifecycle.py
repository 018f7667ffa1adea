"""An actor's life: it starts, is restarted with or without its family, is given up, is tried again, and ends.

All of it happens on the actor's own thread, between two messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import inf

from understudy.errors import AgentDown, in_words
from understudy.orchestration.supervision.restarts import LONGEST_BACKOFF
from understudy.vocabulary.actors.messages import Down

from .commands import nothing
from .endpoint import ActorState, OwnedCell
from .event_notices import tell_begun, tell_delay, tell_failed, tell_given_up, tell_stopped
from .incarnation import Incarnation
from .members import Still, Then
from .supervisor import SupervisorCell
from .watchers import Watchers


class Lifecycle:
    """Carries out what the family decides about one actor. Others may read `state` and `restarts`.

    Args:
        cell: the actor; its user lane is suspended while it has no object and may still get one.
        seat: where its object sits.
        family: decides what comes of a failure.
    """

    __slots__ = ("_cause", "_cell", "_family", "_retry_at", "_seat", "restarts", "state", "watchers")

    def __init__(self, cell: OwnedCell, seat: Incarnation, family: SupervisorCell) -> None:
        self._cell = cell
        self._seat = seat
        self._family = family
        self._cause: BaseException | None = None
        self._retry_at = 0.0
        self.watchers = Watchers()
        self.state: ActorState = "starting"
        self.restarts = 0

    # --- beginning

    def begin(self, then: Then) -> None:
        """Make an object and handle messages; then call `then`."""
        if self.state == "stopped" or (self._cell.is_ending and self._cell.behaviour is not None):
            then()
            return
        if self._cell.behaviour is not None:
            self.halt(None)  # there was no thread to do it on when it was due
        again = self.state != "starting"
        if again:
            self._count_restart()
        try:
            self._cell.behaviour = self._seat.make(self._cell)
        except BaseException as cause:
            self._start_failed(cause, then)
            return
        self._works(again)
        self._cell.resume()
        then()

    def _count_restart(self) -> None:
        self._cell.epoch += 1
        self.restarts += 1

    def _works(self, again: bool) -> None:
        self._cause = None
        self.watchers.renew()
        self.state = "running"
        tell_begun(self._cell, self.restarts, again=again)

    def _start_failed(self, cause: BaseException, then: Then) -> None:
        """Failures to start burn the same budget; `then` follows the start that succeeds, or none."""
        tell_failed(self._cell, cause, None)
        still = self._family.undisturbed()
        match self._family.decide(self._cell, cause, starting=True):
            case "restart":
                self._begin_after(self._family.delay(), then, still)
            case "escalate":
                self.give_up(cause)
                self._family.escalate(cause)
            case "stop" | "resume":
                self.end(cause)
                then()

    def cannot_begin(self, why: BaseException, then: Then) -> None:
        """Do without a beginning, on the thread that found none to begin on: be down until the next message.

        What should have followed a beginning follows the one that succeeds, as always, or that of an actor that has stopped.
        """
        if self.state == "stopped":
            then()
            return
        self.be_down(why)
        self._family.escalate(why)

    # --- failing

    def fail_over(
        self, cause: BaseException, message: object, told: Callable[[], object] = nothing, run: str = ""
    ) -> None:
        """Do what the family decides about a failure; `told` is called once an object to be replaced has let go."""
        tell_failed(self._cell, cause, message)
        still = self._family.undisturbed()
        directive = self._family.decide(self._cell, cause, run=run)
        if directive == "restart":
            self._let_go(cause, message)
        told()
        match directive:
            case "resume":
                pass
            case "restart" if self._cell.is_ending:  # nobody else is concerned, and nothing is waited for
                self.begin(nothing)
            case "restart" if self._family.concerns_others(self._cell):
                self._suspend()
                self._family.regroup(self._cell, cause)
            case "restart":
                self._restart_alone(still)
            case "stop":
                self.end(cause)
            case "escalate":
                self.give_up(cause)
                self._family.escalate(cause)

    def worked(self) -> None:
        """Note that a run of the agent's ended well."""
        self._family.worked()

    def _restart_alone(self, still: Still) -> None:
        delay = self._family.delay()
        if delay > 0:
            self._begin_after(delay, nothing, still)
        elif still():
            self.begin(nothing)
        else:  # those above are restarted or given up, and it with them
            self._suspend()

    def _begin_after(self, delay: float, then: Then, still: Still) -> None:
        self._suspend()
        tell_delay(self._cell.events, self._cell.address, delay)
        self._cell.begin_again(delay, then, still)

    def halt(self, cause: BaseException | None) -> None:
        """Let go of the object, because others of the family are restarted; `begin` follows.

        Not of one that is about to stop: it is nobody's any more, and handles what waits.
        """
        if not self._cell.is_ending and self.state in ("running", "starting", "restarting"):
            others = AgentDown(f"{self._cell.address} is restarted with others", actor=self._cell.address)
            self._let_go(others if cause is None else cause, None)
            self._suspend()

    def _let_go(self, cause: BaseException, message: object) -> None:
        old = self._seat.vacate(self._cell)
        if old is not None:
            self._guard("before_restart", partial(old.before_restart, cause, message))

    def _suspend(self) -> None:
        self.state = "restarting"
        self._cell.suspend()

    # --- given up, and tried again

    def give_up(self, cause: BaseException) -> None:
        """Answer everything with `cause` from now on, until one more attempt."""
        if self.state in ("down", "stopped"):
            return
        self._leave()
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        self._say_given_up(cause)
        self._cell.resume()

    def be_down(self, why: BaseException) -> None:
        """Be given up for want of a thread, until the next message; on any thread, and only for an actor without an object."""
        if self._cell.behaviour is not None or self.state in ("down", "stopped"):
            return
        self._retry_at = inf  # a message must not make an object while who watches is told
        self._say_given_up(why)
        self._retry_at = 0.0
        self._cell.resume()

    def _say_given_up(self, cause: BaseException) -> None:
        self._over("down", cause)
        tell_given_up(self._cell, cause)
        self._tell_watchers()

    def try_again(self) -> bool:
        """Make the attempt of an actor without an object that is to handle a message; whether it has an object now.

        One that was given up has one after a while; one that is stopped in the middle of a restart, unless it backs off.
        """
        if self.state == "restarting" and self._cell.is_ending and not self._family.backs_off:
            self.begin(nothing)
            return self._cell.behaviour is not None
        if self.state != "down" or time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        if not self._family.is_only(self._cell):
            self._family.try_again()
            return False
        self._family.forgive()
        try:
            self._cell.behaviour = self._seat.make(self._cell)
        except BaseException as cause:
            self._cause = cause
            return False
        self._count_restart()
        self._works(again=True)
        return True

    def down_error(self) -> AgentDown:
        """Make the error for a message that comes while there is no object and will be none for now."""
        address = self._cell.address
        if self.state != "down":
            return AgentDown(f"{address} was stopped while it was restarted", actor=address)
        why = "" if self._cause is None else in_words(self._cause)
        how = "failed too often and is given up for now" if self._retry_at else "could not begin"
        error = AgentDown(f"{address} {how}: {why}", actor=address)
        error.__cause__ = self._cause
        return error

    # --- ending

    def end(self, cause: BaseException | None) -> None:
        """End for good: in an orderly way, or because of a failure that deserves no restart."""
        if self.state == "stopped":
            return
        self._leave()
        self._over("stopped", cause)
        tell_stopped(self._cell, cause)
        self._tell_watchers()
        self._cell.close()

    def stay_in_parent(self, why: AgentDown) -> None:
        """Be over in a forked child, without a word to anyone: no hook runs, and who watched is the parent's."""
        self.watchers = Watchers()
        self.watchers.take(Down(self._cell.address, why, self._cell.epoch))
        self._cause = why
        self.state = "stopped"

    def _leave(self) -> None:
        old = self._seat.vacate(self._cell)
        if old is not None:
            self._guard("on_stop", old.on_stop)

    def _over(self, state: ActorState, cause: BaseException | None) -> None:
        self.state = state
        self._cause = cause

    def _tell_watchers(self) -> None:
        down = Down(self._cell.address, self._cause, self._cell.epoch)
        for watcher in self.watchers.take(down):
            self._guard("a watcher", partial(watcher, down))

    def _guard(self, what: str, call: Callable[[], object]) -> None:
        self._seat.guard(self._cell.address, what, call)
