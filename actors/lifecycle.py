"""The cell of a user's actor: it starts, is restarted with or without its family, is given up, and stops.

All of this happens on the actor's own thread, between two messages: what others want of it comes as a command on its system
lane. While it has no object, its user lane is suspended, and its mailbox keeps what comes.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias, cast

from understudy.ancestry import Link, enter_ancestry
from understudy.errors import AgentCrashed, AgentDown, in_words
from understudy.messaging import Down, Mailbox
from understudy.orchestration.supervision import LONGEST_BACKOFF, Restart

from .actor import Actor, attach
from .cell import Behaviour, Cell, Envelope, Fate
from .clockwork import ring_at
from .commands import Command, Timed, Watchers, nothing
from .family import Family, Then
from .mailbox import Lanes, Put
from .reply import Reply
from .shell import on_a_shell
from .timers import Timer

ActorState: TypeAlias = Literal["starting", "running", "restarting", "down", "stopped"]

log = logging.getLogger("understudy")


class ActorCell(Cell):
    """One actor of the user's, under its name; a member of a family, be it the only one.

    Args:
        address: its name.
        make: makes the object; called again for each restart.
        mailbox: how many messages may wait.
        family: decides what comes of a failure.
        restart: whether it is restarted when it fails, or whenever it ends, or never.
    """

    __slots__ = (
        "_cause",
        "_family",
        "_gone",
        "_make",
        "_own",
        "_policy",
        "_retry_at",
        "_thread",
        "_timers",
        "_watchers",
        "busy_since",
        "link",
        "restart",
        "restarts",
        "state",
        "stopped",
    )

    def __init__(
        self,
        address: str,
        make: Callable[[], object],
        *,
        mailbox: Mailbox,
        family: Family,
        restart: Restart = "transient",
    ) -> None:
        super().__init__(address, self._new, capacity=mailbox.capacity)
        self.restart: Restart = restart
        self.link = Link(self, address)
        """The actor in the graph of who waits for whom."""
        self._own = contextvars.Context()
        """What its hooks and timers run in: the context of no sender."""
        self._own.run(enter_ancestry, (self.link,))
        self._make = make
        self._policy = mailbox
        self._family = family
        self._cause: BaseException | None = None
        self._gone = "has stopped"
        """What those are told who send to it once it takes no more messages."""
        self._retry_at = 0.0
        self._thread = 0
        """Whose turn it is, while a message is handled."""
        self._timers: list[Timer] = []
        """What the object in place has set; gone with it."""
        self._watchers = Watchers()
        self.state: ActorState = "starting"
        self.restarts = 0
        self.busy_since: float | None = None
        self.stopped: Reply[None] = Reply()
        """Completes when the actor has stopped."""

    @property
    def id(self) -> str:
        """What a circle's path calls it."""
        return self.address

    # --- from any thread

    def stop(self) -> None:
        """Accept nothing more, handle what waits, then stop. A second call does nothing."""
        if self.restart == "permanent" and self._thread == threading.get_ident():
            # It ended itself, and is of those that are restarted whenever they end.
            self._command(
                lambda: self._fail_over(AgentDown(f"{self.address} ended", actor=self.address), None), nothing
            )
        elif self._mailbox.close(Envelope(Command(self._stop, nothing))) is Put.WAKE:
            self._wake(False)

    def stop_then(self, then: Then) -> None:
        """Stop, and call `then` when it has."""
        self.stop()
        self.stopped.when_done(then)

    def send(self, envelope: Envelope, timeout: float) -> Put:
        """Put a user's message; outside of actors, and with the policy `block`, wait up to `timeout` seconds for room."""
        if self._policy.when_full == "block" and not on_a_shell():
            put = self._mailbox.put_waiting(envelope, timeout)
        else:
            put = self._mailbox.put(envelope)
        self._sent(envelope, put, False)
        return put

    def watch(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Call `watcher` with one `Down` when the actor stops or is given up; at once if it has. A key watches once."""
        self._watchers.add(key, watcher)

    def timer(self, first: float, message: object, period: float | None) -> Timer:
        """Send a message to this actor later; the timer goes with the object that sets it."""
        for seconds in (first, period):
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"a timer's seconds must not be negative, got {seconds!r}")
        if period == 0:
            raise ValueError("a periodic timer needs more than 0 seconds")

        def send(timer: Timer, taken: Callable[[], None]) -> None:
            self.tell(Timed(message, taken, timer))

        timer = Timer(send, first, period)
        self._timers = [t for t in self._timers if t.is_active]
        self._timers.append(timer)
        return timer

    def stay_in_parent(self) -> None:
        """Be stopped in this forked child: object, messages and timers are the parent's, so no hook runs and nothing is closed.

        The locks are made anew, for another thread may have held them, and so is the mailbox, which a thread may have run.
        """
        self._gone = "belongs to the process that forked this one"
        self._cause = AgentDown(f"{self.address} {self._gone}", actor=self.address)
        self._watchers = Watchers()
        self._watchers.take(Down(self.address, self._cause, self.epoch))
        self._mailbox = Lanes()
        self._mailbox.drain(close=True)
        self.state = "stopped"
        self.stopped = Reply()
        self.stopped.set(None)

    def _gone_error(self) -> AgentDown:
        return AgentDown(f"{self.address} {self._gone}", actor=self.address)

    @property
    def oldest_age(self) -> float:
        """Seconds since the longest waiting message was sent; 0 if none waits."""
        oldest = self._mailbox.oldest()
        return 0.0 if oldest is None else time.monotonic() - oldest.sent

    # --- a member of its family

    def halt(self, cause: BaseException | None, then: Then) -> None:
        self._command(lambda: self._halt(cause), then)

    def begin(self, delay: float, then: Then) -> None:
        if delay > 0:
            ring_at(time.monotonic() + delay, lambda: self.begin(0.0, then))
        else:
            self._command(lambda: self._begin(then), nothing, lost=then)

    def give_up(self, cause: BaseException) -> None:
        self._command(lambda: self._give_up(cause), nothing)

    def _command(self, do: Callable[[], object], then: Then, lost: Then | None = None) -> None:
        follow = then if lost is None else lost
        self.tell(Command(do, then), system=True, on_lost=lambda _: follow())

    # --- on the actor's thread

    def _handle(self, envelope: Envelope) -> None:
        self.busy_since = time.monotonic()
        self._thread = threading.get_ident()
        try:
            self._handle_one(envelope)
        finally:
            self.busy_since = None
            self._thread = 0

    def _handle_one(self, envelope: Envelope) -> None:
        message = envelope.message
        if type(message) is Command:
            message.do()
            self.finish(envelope, Fate.HANDLED)
            message.then()
        elif type(message) is Timed:
            self._handle_timed(envelope, message)
        elif self._behaviour is None and not self._try_again():
            self.finish(envelope, Fate.DEAD, error=self._down_error())
        else:
            if envelope.context is None:
                envelope.context = self._own
            super()._handle(envelope)

    def _handle_timed(self, envelope: Envelope, timed: Timed) -> None:
        if self._behaviour is None or timed.timer not in self._timers:  # set by an object that is gone
            self.finish(envelope, Fate.CANCELLED)
            return
        timed.taken()
        envelope.message = timed.message
        envelope.context = self._own
        super()._handle(envelope)

    def _new(self) -> Actor[object]:
        made = self._make()
        if not isinstance(made, Actor):
            raise TypeError(f"{self.address}: spawn must be given what makes an Actor, and it made {made!r}")
        actor = cast("Actor[object]", made)
        attach(actor, self)
        actor.on_start()
        return actor

    def _begin(self, then: Then) -> None:
        if self.state == "stopped":
            then()
            return
        if self.state != "starting":
            self.epoch += 1
            self.restarts += 1
        try:
            self._behaviour = self._own.run(self._new)
        except BaseException as cause:
            self._start_failed(cause, then)
            return
        self._cause = None
        self._watchers.renew()
        self.state = "running"
        self._resume()
        then()

    def _start_failed(self, cause: BaseException, then: Then) -> None:
        """Failures to start burn the same budget; `then` follows the start that succeeds, or none."""
        match self._family.decide(self, cause, starting=True):
            case "restart":
                self._suspend()
                self.begin(self._family.delay(), then)
            case "escalate":
                self._give_up(cause)
                self._family.escalate(cause)
            case "stop" | "resume":
                self._end(cause)
                then()

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        error = AgentCrashed(f"{self.address} failed: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        if envelope.reply is None:  # nobody waits to be told
            log.error("%s", error, exc_info=cause)
        self._fail_over(cause, envelope.message, lambda: self.finish(envelope, Fate.FAILED, error=error))

    def _fail_over(self, cause: BaseException, message: object, told: Callable[[], object] = nothing) -> None:
        """Do what the family decides about a failure; `told` is called once an object to be replaced has let go."""
        directive = self._family.decide(self, cause)
        if directive == "restart":
            old = self._take_object()
            if old is not None:
                self._guard("before_restart", partial(old.before_restart, cause, message))
        told()
        match directive:
            case "resume":
                pass
            case "restart" if self._family.concerns_others(self):
                self._suspend()
                self._family.regroup(self, cause)
            case "restart":
                delay = self._family.delay()
                if delay > 0:
                    self._suspend()
                    self.begin(delay, nothing)
                else:
                    self._begin(nothing)
            case "stop":
                self._end(cause)
            case "escalate":
                self._give_up(cause)
                self._family.escalate(cause)

    def _halt(self, cause: BaseException | None) -> None:
        if self.state in ("running", "starting", "restarting"):
            old = self._take_object()
            if old is not None:
                why = cause if cause is not None else AgentDown(f"{self.address} is restarted with others")
                self._guard("before_restart", partial(old.before_restart, why, None))
            self._suspend()

    def _suspend(self) -> None:
        self.state = "restarting"
        self._mailbox.suspend()

    def _resume(self) -> None:
        if self._mailbox.resume() is Put.WAKE:  # cannot be: it is our turn, so the cell runs
            self._wake(False)

    def _give_up(self, cause: BaseException) -> None:
        if self.state in ("down", "stopped"):
            return
        self._leave()
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        self._announce("down", cause)
        self._resume()

    def _try_again(self) -> bool:
        """Make the one attempt that an actor that was given up has after a while; whether it has an object now."""
        if self.state != "down" or time.monotonic() < self._retry_at:
            return False
        self._retry_at = time.monotonic() + LONGEST_BACKOFF
        if self._family.members != [self]:
            self._family.try_again()
            return False
        self._family.forgive()
        try:
            self._behaviour = self._own.run(self._new)
        except BaseException as cause:
            self._cause = cause
            return False
        self.epoch += 1
        self.restarts += 1
        self._cause = None
        self._watchers.renew()
        self.state = "running"
        return True

    def _down_error(self) -> AgentDown:
        if self.state == "down":
            error = AgentDown(
                f"{self.address} failed too often and is given up for now: {_cause_of(self._cause)}", actor=self.address
            )
            error.__cause__ = self._cause
            return error
        return AgentDown(f"{self.address} was stopped while it was restarted", actor=self.address)

    def _stop(self) -> None:
        self._end(None)

    def _end(self, cause: BaseException | None) -> None:
        """End for good: in an orderly way, or because of a failure that deserves no restart."""
        self._leave()
        self._announce("stopped", cause)
        self._lose_waiting(self._gone_error(), close=True)
        self.stopped.set(None)

    def _leave(self) -> None:
        old = self._take_object()
        if old is not None:
            self._guard("on_stop", old.on_stop)

    def _take_object(self) -> Actor[object] | None:
        """Take the object out of its place, and cancel what it has set."""
        old, self._behaviour = self._behaviour, None
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()
        return None if old is None else _actor(old)

    def _announce(self, state: ActorState, cause: BaseException | None) -> None:
        self.state = state
        self._cause = cause
        down = Down(self.address, cause, self.epoch)
        for watcher in self._watchers.take(down):
            self._guard("a watcher", partial(watcher, down))

    def _guard(self, what: str, call: Callable[[], object]) -> None:
        """Run a hook; its failure changes nothing about what happens to the actor."""
        try:
            self._own.run(call)
        except BaseException:
            log.exception("%s: %s failed", self.address, what)


def _cause_of(error: BaseException | None) -> str:
    return "" if error is None else in_words(error)


def _actor(behaviour: Behaviour) -> Actor[object]:
    assert isinstance(behaviour, Actor)  # what `_new` made
    return cast("Actor[object]", behaviour)
