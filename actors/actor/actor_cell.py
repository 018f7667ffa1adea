"""The cell of a user's actor: its mailbox and its messages. What becomes of the actor is its lifecycle's to decide.

Whatever happens to the actor happens on its own thread, between two messages: what others want of it comes as a command on
its system lane. While it has no object, its user lane is suspended, and its mailbox keeps what comes.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from math import inf

from understudy.actors.cells.envelope import Envelope, Fate
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import MailboxQueue, Put
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.promise import Promise
from understudy.errors import AgentCrashed, AgentDown, in_words
from understudy.orchestration.supervision.restarts import Restart
from understudy.vocabulary.actors.messages import Down, Mailbox
from understudy.vocabulary.context.ancestry import Link, enter_hops

from .commands import Command, Timed, nothing
from .endpoint import ActorState
from .incarnation import Incarnation
from .lifecycle import Lifecycle
from .members import Still, Then, always
from .message_cell import MessageCell
from .supervisor import SupervisorCell
from .timers import Timer
from .unhandled import is_dead_letter, lost_because

log = logging.getLogger("understudy")


class ActorCell(MessageCell):
    """One actor of the user's, under its name; a member of a family, be it the only one.

    Args:
        address: its name.
        make: makes the object; called again for each restart.
        mailbox: how many messages may wait.
        family: decides what comes of a failure.
        events: where what happens to it is told.
        restart: whether it is restarted when it fails, or whenever it ends, or never.
    """

    __slots__ = (
        "_begun_in",
        "_failed_runs",
        "_life",
        "_seat",
        "events",
        "link",
        "restart",
    )

    def __init__(
        self,
        address: str,
        make: Callable[[], object],
        *,
        mailbox: Mailbox,
        family: SupervisorCell,
        events: EventStream,
        restart: Restart = "transient",
    ) -> None:
        self.link = Link(self, address)
        """The actor in the graph of who waits for whom."""
        self._seat = Incarnation(make, self.link)
        super().__init__(address, mailbox)
        self.events = events
        self.restart: Restart = restart
        self._life = Lifecycle(self, self._seat, family)
        self._failed_runs = False
        """Whether it was failed by a run since the last one that ended well."""
        self._begun_in = 0
        """In which life of its family's it has begun last; orders of an earlier one come too late."""
        self.suspend()  # until it has begun: what comes before waits

    @property
    def id(self) -> str:
        """What a circle's path calls it."""
        return self.address

    @property
    def state(self) -> ActorState:
        """Where it is in its life."""
        return self._life.state

    @property
    def restarts(self) -> int:
        """How often it was given a new object."""
        return self._life.restarts

    # --- from any thread

    def stop(self) -> None:
        """Accept nothing more, handle what waits, then stop. A second call does nothing."""
        if self.restart == "permanent" and self._thread == threading.get_ident():
            # It ended itself, and is of those that are restarted whenever they end.
            self.fail(AgentDown(f"{self.address} ended", actor=self.address))
            return
        # With no thread to end on, it ends on this one: nobody else runs a cell that was closed while nobody did.
        end = Command(lambda: self._life.end(None), nothing)
        if self._mailbox.close(Envelope(end, on_lost=lambda _: end.do())) is Put.WAKE:
            self._wake()

    def stop_then(self, then: Then) -> None:
        """Stop, and call `then` when it has."""
        self.stop()
        self.stopped.when_done(then)

    def fail(self, cause: BaseException, run: str = "") -> None:
        """Treat the actor as failed, for a reason that arose outside of its messages; `run` says in which run, if in one."""
        self._failed_runs = self._failed_runs or bool(run)
        self._command(lambda: self._life.fail_over(cause, None, run=run), nothing)

    def worked(self) -> None:
        """Note that a run of the agent's ended well."""
        if self._failed_runs:  # every run comes here, and hardly any agent fails
            self._failed_runs = False
            self._life.worked()

    def watch(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Call `watcher` with one `Down` when the actor stops or is given up; at once if it has. A key watches once."""
        self._life.watchers.add(key, watcher)

    def timer(self, first: float, message: object, period: float | None) -> Timer:
        """Send a message to this actor later; the timer goes with the object that sets it."""
        return self._seat.timer(self, first, message, period)

    def own_context(self, hops: int) -> contextvars.Context:
        """Return the context for a message of no sender's that carries `hops`."""
        context = self._seat.context.copy()
        context.run(enter_hops, hops)
        return context

    def stay_in_parent(self) -> None:
        """Be stopped in this forked child: object, messages and timers are the parent's, so no hook runs and nothing is closed.

        The locks are made anew, for another thread may have held them, and so is the mailbox, which a thread may have run.
        """
        self._gone = "belongs to the process that forked this one"
        self._life.stay_in_parent(self._gone_error())
        self._counting = threading.Lock()
        self._in_hand, self.look_at = None, inf
        self._mailbox = MailboxQueue()
        self._mailbox.drain(close=True)
        self._stopped = Promise()
        self._stopped.set(None)

    # --- a member of its family

    def halt(self, cause: BaseException | None, then: Then, life: int = 0, *, with_siblings: bool = False) -> None:
        ends = with_siblings and self.restart == "temporary"

        def halt() -> None:
            if life < self._begun_in:
                return
            if ends:
                self._life.end(cause)
            else:
                self._life.halt(cause)

        self._command(halt, then)

    def begin(self, delay: float, then: Then, still: Still = always, life: int = 0) -> None:
        if delay > 0:
            try:
                ring_at(time.monotonic() + delay, lambda: self.begin(0.0, then, still, life))
                return
            except RuntimeError as error:
                log.warning("%s begins at once, for no thread can be had to wait: %s", self.address, error)

        def begin() -> None:
            if still():
                self._begun_in = life
                self._life.begin(then)

        self._command(begin, nothing, lost=lambda error: self._life.cannot_begin(error, then) if still() else None)

    def begin_again(self, delay: float, then: Then, still: Still) -> None:
        """Begin by itself after `delay` seconds, in the life in which it began before."""
        self.begin(delay, then, still, self._begun_in)

    def begin_here(self) -> None:
        """Begin on this thread: for an actor whose making runs no code of the user's, before anybody has its address."""
        self._life.begin(nothing)

    def give_up(self, cause: BaseException, then: Then, life: int = 0) -> None:
        def give_up() -> None:
            if life >= self._begun_in:
                self._life.give_up(cause)

        def lost(error: BaseException) -> None:
            self._life.be_down(cause)
            then()

        self._command(give_up, then, lost)

    def _command(
        self, do: Callable[[], object], then: Then, lost: Callable[[BaseException], object] | None = None
    ) -> None:
        """Have `do` and then `then` called on the actor's thread; `lost`, or else `then`, if there is none, or an end."""
        self.tell(Command(do, then), system=True, on_lost=(lambda _: then()) if lost is None else lost)

    # --- on the actor's thread

    def _handle_one(self, envelope: Envelope) -> None:
        message = envelope.message
        try:
            if type(message) is Command:
                try:
                    message.do()
                finally:  # others may wait for this one
                    self.finish(envelope, Fate.HANDLED)
                    message.then()
            elif type(message) is Timed:
                self._handle_timed(envelope, message)
            elif self.behaviour is None and not self._life.try_again():
                self.finish(envelope, Fate.DEAD, error=self._life.down_error())
            else:
                if envelope.context is None:
                    envelope.context = self._seat.context
                self._receive(envelope)
        except BaseException as error:  # of the runtime's own code: a message's failure does not come this far
            self._break_off(envelope, error)

    def _break_off(self, envelope: Envelope, cause: BaseException) -> None:
        """End at an error that nothing else has caught: the actor cannot go on, and nobody may wait for it."""
        error = AgentDown(f"{self.address} ended at an error of the runtime's: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        if envelope.reply is not None:
            envelope.reply.fail(error)
        for end in (partial(log.error, "%s", error, exc_info=cause), partial(self._life.end, error), self.close):
            with contextlib.suppress(BaseException):
                end()

    def _handle_timed(self, envelope: Envelope, timed: Timed) -> None:
        if self.behaviour is None or not self._seat.has_set(timed.timer):  # an object that is gone did
            self.finish(envelope, Fate.CANCELLED)
            return
        try:
            timed.taken()
        except RuntimeError as cause:  # no thread for its next alarm; a new object may set it again
            self._failed(envelope, cause)
            return
        envelope.message = timed.message
        if envelope.context is None:
            envelope.context = self._seat.context
        self._receive(envelope)

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        error = AgentCrashed(f"{self.address} failed: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        if envelope.reply is None:  # nobody waits to be told
            log.error("%s", error, exc_info=cause)
        self._life.fail_over(cause, envelope.message, lambda: self.finish(envelope, Fate.FAILED, error=error))

    def _note_unhandled(self, envelope: Envelope, fate: Fate, error: BaseException) -> None:
        if is_dead_letter(envelope, error):
            message = envelope.message
            sent = message.message if type(message) is Timed else message
            self.events.dead_letter(self.address, lost_because(fate, error, self.state), envelope, sent)
