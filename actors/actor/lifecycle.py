"""The life of one actor: it starts, is restarted alone or with its group, is given up, is tried again, and ends.

All of it happens on the actor's own thread, between two messages.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from functools import partial
from logging import ERROR
from math import inf
from typing import cast

from understudy.actors.cells.dead_letters import ActorDead
from understudy.diagnostics import emit
from understudy.errors import AgentDown, MailboxFull, in_words
from understudy.orchestration.supervision.restarts import LONGEST_BACKOFF
from understudy.vocabulary.actors.messages import Down
from understudy.vocabulary.context.ancestry import ChainAndHops, enter_work

from .actor import Actor, attach
from .commands import Timed, Timer, nothing
from .endpoint import ActorState, Endpoint, OwnedCell
from .event_notices import tell_begun, tell_delay, tell_failed, tell_given_up, tell_stopped
from .members import IsCurrent, OnDone
from .supervisor import SupervisorCell


class Incarnation:
    """Makes the objects of one actor, calls their hooks, and keeps their timers. For the actor's own thread.

    Args:
        make: makes an object; called again for each restart.
        ancestry: the chain and the hops of its code, where no message brings others.
    """

    __slots__ = ("_make", "_timers", "context", "kind")

    def __init__(self, make: Callable[[], object], ancestry: ChainAndHops) -> None:
        self.context = contextvars.Context()
        """The context of hooks and timers, which have no sender."""
        self.context.run(enter_work, ancestry)
        self._make = make
        self.kind: type = make if isinstance(make, type) else Actor
        """The class of the last object, known before its `on_start`."""
        self._timers: tuple[Timer, ...] = ()

    def make(self, cell: OwnedCell) -> Actor[object]:
        """Return a new object that has started. Raises what its class or its `on_start` raises."""
        return self.context.run(self._made, cell)

    def _made(self, cell: OwnedCell) -> Actor[object]:
        made = self._make()
        if not isinstance(made, Actor):
            raise TypeError(f"{cell.address}: spawn must be given what makes an Actor, and it made {made!r}")
        actor = cast("Actor[object]", made)
        attach(actor, cell)
        self.kind = type(actor)
        actor.on_start()
        return actor

    def vacate(self, cell: OwnedCell) -> Actor[object] | None:
        """Drop the object and cancel its timers; return it, or None if there was none."""
        old, cell.behaviour = cell.behaviour, None
        timers, self._timers = self._timers, ()
        for timer in timers:
            timer.cancel()
        if old is None:
            return None
        assert isinstance(old, Actor)  # what `make` made
        return cast("Actor[object]", old)

    def guard(self, address: str, what: str, call: Callable[[], object]) -> None:
        """Run a hook; its failure is logged, and nothing else comes of it."""
        try:
            self.context.run(call)
        except BaseException:
            emit(ERROR, "hook_failed", {"actor": address}, "%s: %s failed", address, what, exc_info=True)

    def timer(self, cell: Endpoint, first: float, message: object, period: float | None) -> Timer:
        """Send a message to the actor later; the timer ends with the object that sets it."""
        for seconds in (first, period):
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"a timer's seconds must not be negative, got {seconds!r}")
        if period == 0:
            raise ValueError("a periodic timer needs more than 0 seconds")
        timer = Timer(partial(_send, cell, message), first, period)
        self._timers = (*[t for t in self._timers if t.is_active], timer)
        return timer

    def has_set(self, timer: Timer) -> bool:
        """Whether the present object has set `timer`, and not an earlier one."""
        return timer in self._timers


def _send(cell: Endpoint, message: object, timer: Timer, taken: Callable[[], None]) -> None:
    def go_on(error: BaseException) -> None:
        if isinstance(error, MailboxFull):  # this message is lost, but the timer goes on
            taken()

    cell.tell(Timed(message, taken, timer), on_lost=go_on)


class Watchers:
    """Callbacks that hear that an actor is down, each once."""

    __slots__ = ("_last", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards both: a watcher that is added while the others are told hears once, from one of the two threads."""
        self._waiting: dict[object, Callable[[Down], object]] = {}
        self._last: Down | None = None

    def add(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Have `watcher` called once; at once if the actor is down. A key hears once."""
        with self._lock:
            last = self._last
            if last is None:
                self._waiting[key] = watcher
        if last is not None:
            watcher(last)

    def take(self, down: Down) -> list[Callable[[Down], object]]:
        """Note that the actor is down, and return the watchers to call."""
        with self._lock:
            self._last = down
            waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def renew(self) -> None:
        """Note that the actor works again."""
        with self._lock:
            self._last = None


class Lifecycle:
    """Carries out what the supervisor decides about one actor. Other threads may read `state`, `restarts` and `generation`.

    Args:
        cell: the actor; its user queue is suspended while it has no object and may still get one.
        incarnation: makes and drops its objects.
        supervisor: decides about failures; or a function that makes one for this actor alone, at its first failure.
    """

    __slots__ = (
        "_above",
        "_cause",
        "_cell",
        "_incarnation",
        "_retry_at",
        "generation",
        "restarts",
        "state",
        "watchers",
    )

    def __init__(
        self, cell: OwnedCell, incarnation: Incarnation, supervisor: SupervisorCell | Callable[[], SupervisorCell]
    ) -> None:
        self._cell = cell
        self._incarnation = incarnation
        self._above = supervisor
        self._cause: BaseException | None = None
        self._retry_at = 0.0
        self.watchers = Watchers()
        self.state: ActorState = "starting"
        self.restarts = 0
        self.generation = 0
        """The number of restarts, with one that is decided and waits for its delay or for others."""

    @property
    def _supervisor(self) -> SupervisorCell:
        """The supervisor; only for the actor's own thread, for it may be made now."""
        found = self._above
        if not isinstance(found, SupervisorCell):
            found = self._above = found()
            found.members.append(self._cell)
        return found

    # --- beginning

    def begin(self, on_done: OnDone, *, with_line: bool = True) -> None:
        """Make an object and handle messages; then call `on_done`. Without `with_line`, the caller writes the line of a first start."""
        if self.state == "stopped" or (self._cell.is_ending and self._cell.behaviour is not None):
            on_done()
            return
        if self._cell.behaviour is not None:
            self.halt(None)  # when the halt was due there was no thread for it
        again = self.state != "starting"
        if again:
            self._count_restart()
        try:
            self._cell.behaviour = self._incarnation.make(self._cell)
        except BaseException as cause:
            self._start_failed(cause, on_done)
            return
        self._works(again, with_line)
        self._cell.resume()
        on_done()

    def _count_restart(self) -> None:
        self._cell.epoch += 1
        self.restarts += 1
        self.generation = self.restarts

    def _works(self, again: bool, with_line: bool) -> None:
        self._cause = None
        self.watchers.renew()
        self.state = "running"
        tell_begun(self._cell, self.restarts, again=again, with_line=with_line)

    def _start_failed(self, cause: BaseException, on_done: OnDone) -> None:
        """Decide about a failure to start, by the same budget; `on_done` is called after the next successful start, if any."""
        tell_failed(self._cell, cause, None)
        address = self._cell.address
        emit(
            ERROR, "actor_failed", {"actor": address}, "%s did not start: %s", address, in_words(cause), exc_info=cause
        )
        is_current = self._supervisor.undisturbed()
        match self._supervisor.decide(self._cell, cause, starting=True):
            case "restart":
                self._begin_after(self._supervisor.delay(), on_done, is_current)
            case "escalate":
                self.give_up(cause)
                self._supervisor.escalate(cause, self._cell.address)
            case "stop" | "resume":
                self.end(cause)
                on_done()

    def cannot_begin(self, why: BaseException, on_done: OnDone) -> None:
        """Be down until the next message, because no thread could be had for the start; on the thread that found out.

        `on_done` is called after the next successful start, or at once if the actor has stopped.
        """
        if self.state == "stopped":
            on_done()
            return
        self.be_down(why)
        self._supervisor.escalate(why, self._cell.address)

    # --- failing

    def fail_over(
        self, cause: BaseException, message: object, told: Callable[[], object] = nothing, run: str = ""
    ) -> None:
        """Do what the supervisor decides about a failure; `told` is called after the hook of an object that is replaced."""
        tell_failed(self._cell, cause, message)
        is_current = self._supervisor.undisturbed()
        directive = self._supervisor.decide(self._cell, cause, run=run)
        if directive == "restart":
            self._let_go(cause, message)
        told()
        match directive:
            case "resume":
                pass
            case "restart" if self._cell.is_ending:  # alone and without a delay
                self.begin(nothing)
            case "restart" if self._supervisor.concerns_others(self._cell):
                self._suspend()
                self._supervisor.regroup(self._cell, cause)
            case "restart":
                self._restart_alone(is_current)
            case "stop":
                self.end(cause)
            case "escalate":
                self.give_up(cause)
                self._supervisor.escalate(cause, self._cell.address)

    def worked(self) -> None:
        """Note that a run of the agent has succeeded; on any thread."""
        if isinstance(self._above, SupervisorCell):
            self._above.worked()

    def _restart_alone(self, is_current: IsCurrent) -> None:
        delay = self._supervisor.delay()
        if delay > 0:
            self._begin_after(delay, nothing, is_current)
        elif is_current():
            self.begin(nothing)
        else:  # the supervisor was halted or given up meanwhile, and this actor with it
            self._suspend()

    def _begin_after(self, delay: float, on_done: OnDone, is_current: IsCurrent) -> None:
        self._suspend()
        tell_delay(self._cell.events, self._cell.address, delay)
        self._cell.begin_again(delay, on_done, is_current)

    def halt(self, cause: BaseException | None) -> None:
        """Let go of the object, because the group is restarted; `begin` follows.

        An actor that is about to stop keeps its object, and handles the messages that wait.
        """
        if not self._cell.is_ending and self.state in ("running", "starting", "restarting"):
            others = AgentDown(f"{self._cell.address} is restarted with others", actor=self._cell.address)
            self._let_go(others if cause is None else cause, None)
            self._suspend()

    def _let_go(self, cause: BaseException, message: object) -> None:
        old = self._incarnation.vacate(self._cell)
        if old is not None:
            self._guard("before_restart", partial(old.before_restart, cause, message))

    def _suspend(self) -> None:
        self.state = "restarting"
        self.generation = self.restarts + 1
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
        """Be given up until the next message, for want of a thread. On any thread; without effect if there is an object."""
        if self._cell.behaviour is not None or self.state in ("down", "stopped"):
            return
        self._retry_at = inf  # no message may make an object while the watchers are told
        self._say_given_up(why)
        self._retry_at = 0.0
        self._cell.resume()

    def _say_given_up(self, cause: BaseException) -> None:
        self._over("down", cause)
        tell_given_up(self._cell, cause)
        self._tell_watchers()

    def try_again(self) -> bool:
        """Try to make an object for a message that has come while there is none; return whether there is one now.

        An actor that was given up tries once in a while. One that is stopped in the middle of a restart tries at once,
        unless its restarts have a delay.
        """
        if self.state == "restarting" and self._cell.is_ending and not self._supervisor.backs_off:
            self.begin(nothing)
            return self._cell.behaviour is not None
        if self.state != "down" or time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        if not self._supervisor.is_only(self._cell):
            self._supervisor.try_again()
            return False
        self._supervisor.forgive()
        try:
            self._cell.behaviour = self._incarnation.make(self._cell)
        except BaseException as cause:
            self._cause = cause
            self._supervisor.escalate(cause, self._cell.address)  # it was forgiven before its failure
            return False
        self._count_restart()
        self._works(again=True, with_line=True)
        return True

    def down_error(self) -> AgentDown:
        """Return the error for a message that is not handled because there is no object."""
        address = self._cell.address
        if self.state != "down":
            return ActorDead(f"{address} was stopped while it was restarted", actor=address)
        why = "" if self._cause is None else in_words(self._cause)
        how = "could not begin" if not self._retry_at else _given_up_because_of(self._supervisor.blamed, address)
        error = ActorDead(f"{address} {how}: {why}", actor=address)
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
        """Be stopped in a forked child: no hook runs, no event is published, and the watchers are the parent's."""
        self.watchers = Watchers()
        self.watchers.take(Down(self._cell.address, why, self._cell.epoch))
        self._cause = why
        self.state = "stopped"

    def _leave(self) -> None:
        old = self._incarnation.vacate(self._cell)
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
        self._incarnation.guard(self._cell.address, what, call)


def _given_up_because_of(blamed: str, address: str) -> str:
    if blamed in ("", address):
        return "failed too often and is given up for now"
    return f"is given up for now with its group, because of {blamed}"
