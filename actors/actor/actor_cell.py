"""The cell of a user's actor: it takes orders from other threads, and handles messages on its own.

Whatever happens to an actor happens on its own thread, between two messages: an order from another thread comes as a
command in its system queue, and the lifecycle carries it out. While the actor has no object, its user queue is suspended.

`MessageCell` is the part for messages: they wait, are in hand, come too late, or are lost when the actor ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable
from functools import partial
from logging import ERROR, INFO, WARNING
from math import inf
from typing import Any, NoReturn

from understudy.actors.actor.commands import Command, Timed, Timer, nothing
from understudy.actors.actor.endpoint import ActorState
from understudy.actors.actor.lifecycle import Incarnation, Lifecycle
from understudy.actors.actor.members import IsCurrent, OnDone, always
from understudy.actors.actor.proxy import PROXY_MESSAGES, CallersMistake, handle_proxy_message
from understudy.actors.actor.ref import ActorRef
from understudy.actors.actor.supervisor import SupervisorCell
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.dead_letters import ActorDead
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import QUEUED, Envelope, Fate, MailboxQueue, Put, new_envelope
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.pool import on_a_pool_thread
from understudy.actors.threads.promise import Late, Promise
from understudy.diagnostics import emit
from understudy.errors import AgentCrashed, AgentDown, MailboxFull, in_words
from understudy.orchestration.supervision.restarts import Restart
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT, Down, Mailbox
from understudy.vocabulary.actors.system_events import LostBecause
from understudy.vocabulary.context.ancestry import ActorLink, ChainAndHops, current_ancestry, enter_hops

SOON = 0.01  # Seconds until a message that was taken out of the mailbox is in hand.


def _deadline_of(envelope: Envelope) -> float:
    return inf if envelope.deadline is None else envelope.deadline


def _no_factory() -> NoReturn:
    raise AssertionError("the lifecycle makes an actor's object, before any message is handled")


class MessageCell(Cell):
    """The mailbox of a user's actor, and the message in hand.

    Args:
        address: its name.
        mailbox: how many messages may wait, and whether a sender waits for room.
    """

    __slots__ = ("_blocks", "_gone", "_in_hand", "_stopped", "_thread", "busy_since", "look_at")

    def __init__(self, address: str, mailbox: Mailbox) -> None:
        super().__init__(address, _no_factory, capacity=mailbox.capacity)
        self._blocks = mailbox.when_full == "block"
        self._gone = "has stopped"
        """The reason in the error of messages that come when it takes no more."""
        self._thread = 0
        """The thread that handles a message, while one does."""
        self.busy_since: float | None = None
        self._in_hand: Envelope | None = None
        """The message that is handled at this moment."""
        self.look_at = inf
        """When an alarm rings for asks that are late by then; infinite if none is set."""
        self._stopped: Promise[None] | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it takes no more messages: it handles those that wait, and then stops."""
        return self._mailbox.closed

    @property
    def stopped(self) -> Promise[None]:
        """Completes when the actor has stopped."""
        if self._stopped is None:
            with self._counting:  # made at the first call; for most actors there is none
                if self._stopped is None:
                    self._stopped = Promise()
        return self._stopped

    def _admit(self, envelope: Envelope) -> None:
        self.send(envelope, DEFAULT_ASK_TIMEOUT)

    def has_stopped(self, within: float | None) -> bool:
        """Whether it has stopped; waits up to `within` seconds for that, None for any time."""
        return self.stopped.wait(within)

    def _stop_for(self, promise: Promise[object] | None) -> None:
        self.stop()
        if promise is not None:
            self.stopped.when_done(partial(promise.set, None))

    def send(self, envelope: Envelope, timeout: float) -> Put:
        """Put a user's message; outside of actors, and with the policy `block`, wait up to `timeout` seconds for room."""
        if self._blocks and not on_a_pool_thread():
            put = self._mailbox.put_waiting(envelope, min(timeout, threading.TIMEOUT_MAX))
        else:
            put = self._mailbox.put(envelope)
        if put is not QUEUED:  # the usual case under load, with nothing left to do
            self._sent(envelope, put)
        return put

    def expire(self, now: float) -> float:
        """Answer the asks that are late: those that wait are not handled any more, and the reply of the one in hand is dropped.

        Returns:
            The next deadline of the other asks; infinite if there is none.
        """
        expired, running = self._mailbox.take_out(lambda each: each.deadline is not None and each.deadline <= now)
        for envelope in expired:
            self.finish(envelope, Fate.EXPIRED, error=self._late_error())
        earliest, in_hand = self._mailbox.least(_deadline_of), self._in_hand
        if in_hand is not None and in_hand.promise is not None and in_hand.deadline is not None:
            if in_hand.deadline > now:
                return min(earliest, in_hand.deadline)
            in_hand.promise.fail(Late(f"{self.address} did not reply in time"))
        elif running and in_hand is None:  # a thread may have taken one and not noted it yet
            return min(earliest, now + SOON)
        return earliest

    def lose_waiting(self) -> None:
        """Answer the messages that wait and the one in hand: the system has ended without waiting for this actor.

        The actor ends when the message that it hangs in returns.
        """
        error = ActorDead(f"{self.address} has not stopped in time, and its system has", actor=self.address)
        lost, _ = self._mailbox.take_out(lambda each: type(each.message) is not Command)
        for envelope in lost:
            self.finish(envelope, Fate.DEAD, error=error)
        in_hand = self._in_hand
        if in_hand is not None and in_hand.promise is not None:
            in_hand.promise.fail(error)

    # --- on the actor's thread

    def suspend(self) -> None:
        """Let the user's messages wait."""
        self._mailbox.suspend()

    def resume(self) -> None:
        """Handle the user's messages again."""
        if self._mailbox.resume() is Put.WAKE:  # never the case: this thread runs the cell
            self._start_actor_loop()

    def close(self) -> None:
        """Take no more messages, lose those that wait, and complete `stopped`."""
        self._lose_waiting(self._gone_error(), close=True)
        self.stopped.set(None)

    def _gone_error(self) -> ActorDead:
        return ActorDead(f"{self.address} {self._gone}", actor=self.address)

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest message that waits was sent; 0 if none waits."""
        oldest = self._mailbox.oldest()
        return 0.0 if oldest is None else time.monotonic() - oldest.sent

    def _handle(self, envelope: Envelope) -> None:
        self._in_hand = envelope
        self.busy_since = time.monotonic()
        self._thread = threading.get_ident()
        try:
            self._handle_one(envelope)
        finally:
            self._in_hand = self.busy_since = None
            self._thread = 0

    def _handle_one(self, envelope: Envelope) -> None:
        """Handle the message in hand; must not raise."""
        self._receive(envelope)


class ActorCell(MessageCell):
    """One actor of the user's, under its name; a member of a supervisor, perhaps the only one.

    Args:
        address: its name.
        make: makes the object; called again for each restart.
        mailbox: how many messages may wait.
        supervisor: decides about failures; or a function that makes one for this actor alone, at its first failure.
        events: where its events are published.
        restart: whether it is restarted when it fails, whenever it ends, or never.
    """

    __slots__ = (
        "_begun_round",
        "_failed_runs",
        "_incarnation",
        "_lifecycle",
        "events",
        "link",
        "own_ancestry",
        "restart",
    )

    def __init__(
        self,
        address: str,
        make: Callable[[], object],
        *,
        mailbox: Mailbox,
        supervisor: SupervisorCell | Callable[[], SupervisorCell],
        events: EventStream,
        restart: Restart = "transient",
    ) -> None:
        self.link = ActorLink(self, address)
        """The actor in the graph of who waits for whom."""
        self.own_ancestry: ChainAndHops = ((self.link,), 0)
        """The chain and the hops of a message that no run has led to."""
        self._incarnation = Incarnation(make, self.own_ancestry)
        super().__init__(address, mailbox)
        self.events = events
        self.restart: Restart = restart
        self._lifecycle = Lifecycle(self, self._incarnation, supervisor)
        self._failed_runs = False
        """Whether a run has failed it since the last run that succeeded."""
        self._begun_round = 0
        """The round of its supervisor in which it has begun last; orders of an earlier one come too late."""
        self.suspend()  # until it has begun: earlier messages wait

    @property
    def id(self) -> str:
        """Its name in the path of a cycle."""
        return self.address

    @property
    def _actor_ref(self) -> ActorRef[Any]:  # type: ignore[override]  # Pykka sets it in its constructor
        return ActorRef(self)

    @property
    def actor_class(self) -> type:
        """The class of its object; of the object to come, as far as it is known, if there is none."""
        return self._incarnation.kind if self.behaviour is None else type(self.behaviour)

    @property
    def is_here(self) -> bool:
        """Whether this is code of the actor: on its thread, or in a hook that runs on another one."""
        chain = current_ancestry()
        return self._thread == threading.get_ident() or bool(chain and chain[-1] is self.link)

    @property
    def state(self) -> ActorState:
        """Where it is in its life."""
        return self._lifecycle.state

    @property
    def restarts(self) -> int:
        """How often it was given a new object."""
        return self._lifecycle.restarts

    @property
    def generation(self) -> int:
        """The number of its object, or of the next one if a restart is decided; what is made for an object has this number."""
        return self._lifecycle.generation

    # --- from any thread

    def stop(self) -> None:
        """Accept nothing more, handle what waits, then stop. A second call does nothing."""
        if self.restart == "permanent" and self._thread == threading.get_ident():
            # It ended itself, and must be restarted whenever it ends.
            self.fail(AgentDown(f"{self.address} ended", actor=self.address))
            return
        # Without a thread to end on it ends on this one: nobody ran the cell when it was closed, so nobody else runs it now.
        end = Command(lambda: self._lifecycle.end(None), nothing)
        if self._mailbox.close(new_envelope(end, on_lost=lambda _: end.do())) is Put.WAKE:
            self._start_actor_loop()

    def stop_then(self, on_done: OnDone) -> None:
        """Stop, and then call `on_done`."""
        self.stop()
        self.stopped.when_done(on_done)

    def fail(self, cause: BaseException, run: str = "") -> Promise[None]:
        """Treat the actor as failed, for a reason outside of its messages; `run` is the run that it arose in, if any.

        Returns:
            A promise that is done when it is decided what comes of the failure, and `generation` says so.
        """
        self._failed_runs = self._failed_runs or bool(run)
        decided: Promise[None] = Promise()
        self._command(lambda: self._lifecycle.fail_over(cause, None, run=run), lambda: decided.set(None))
        return decided

    def worked(self) -> None:
        """Note that a run of the agent has succeeded."""
        if self._failed_runs:  # every run comes here, and few agents fail
            self._failed_runs = False
            self._lifecycle.worked()

    def watch(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Call `watcher` with one `Down` when the actor stops or is given up; at once if it has. A key hears once."""
        self._lifecycle.watchers.add(key, watcher)

    def timer(self, first: float, message: object, period: float | None) -> Timer:
        """Send a message to this actor later; the timer goes with the object that sets it."""
        return self._incarnation.timer(self, first, message, period)

    def own_context(self, hops: int) -> contextvars.Context:
        """Return the context for a message without a sender that carries `hops`."""
        context = self._incarnation.context.copy()
        context.run(enter_hops, hops)
        return context

    def stay_in_parent(self) -> None:
        """Be stopped in this forked child: object, messages and timers are the parent's, so no hook runs and nothing is closed.

        Locks and mailbox are made anew, for another thread of the parent may have held or run them.
        """
        self._gone = "belongs to the process that forked this one"
        self._lifecycle.stay_in_parent(self._gone_error())
        self._counting = threading.Lock()
        self._in_hand, self.look_at = None, inf
        self._mailbox = MailboxQueue()
        self._mailbox.drain(close=True)
        self._stopped = Promise()
        self._stopped.set(None)

    # --- a member of its supervisor

    def halt(
        self, cause: BaseException | None, on_done: OnDone, round: int = 0, *, with_siblings: bool = False
    ) -> None:
        ends = with_siblings and self.restart == "temporary"

        def halt() -> None:
            if round < self._begun_round:
                return
            if ends:
                self._lifecycle.end(cause)
            else:
                self._lifecycle.halt(cause)

        self._command(halt, on_done)

    def begin(self, delay: float, on_done: OnDone, is_current: IsCurrent = always, round: int = 0) -> None:
        if delay > 0:
            try:
                ring_at(time.monotonic() + delay, lambda: self.begin(0.0, on_done, is_current, round))
                return
            except RuntimeError as error:
                text = "%s begins at once, for no thread can be had to wait: %s"
                emit(WARNING, "backoff_skipped", {"actor": self.address}, text, self.address, error)

        def begin() -> None:
            if is_current():
                self._begun_round = round
                self._lifecycle.begin(on_done)

        self._command(
            begin, nothing, lost=lambda error: self._lifecycle.cannot_begin(error, on_done) if is_current() else None
        )

    def begin_again(self, delay: float, on_done: OnDone, is_current: IsCurrent) -> None:
        """Begin by itself after `delay` seconds, in the round in which it began before."""
        self.begin(delay, on_done, is_current, self._begun_round)

    def begin_here(self) -> None:
        """Begin on this thread: for an actor that is made without code of the user's, before anybody has its address.

        The caller holds a lock. It calls `write_start` when it has let the lock go.
        """
        self._lifecycle.begin(nothing, with_line=False)

    def give_up(self, cause: BaseException, on_done: OnDone, round: int = 0) -> None:
        def give_up() -> None:
            if round >= self._begun_round:
                self._lifecycle.give_up(cause)

        def lost(error: BaseException) -> None:
            self._lifecycle.be_down(cause)
            on_done()

        self._command(give_up, on_done, lost)

    def _command(
        self, do: Callable[[], object], on_done: OnDone, lost: Callable[[BaseException], object] | None = None
    ) -> None:
        """Have `do` and then `on_done` called on the actor's thread.

        If it has no thread, or has stopped, `lost` is called instead; without it, `on_done`.
        """
        self.tell(Command(do, on_done), system=True, on_lost=(lambda _: on_done()) if lost is None else lost)

    # --- on the actor's thread

    def _handle_one(self, envelope: Envelope) -> None:
        message = envelope.message
        try:
            if type(message) is Command:
                try:
                    message.do()
                finally:  # others may wait for `on_done`; a command has no reply, and is not counted
                    message.on_done()
            elif type(message) is Timed:
                self._handle_timed(envelope, message)
            elif self.behaviour is None and not self._lifecycle.try_again():
                self.finish(envelope, Fate.DEAD, error=self._lifecycle.down_error())
            else:
                if envelope.context is None:
                    envelope.context = self._incarnation.context
                if type(message) in PROXY_MESSAGES:
                    self._receive(envelope, partial(handle_proxy_message, self.behaviour))
                else:
                    self._receive(envelope)
        except BaseException as error:  # a fault of the runtime: failures of messages were handled above
            self._break_off(envelope, error)

    def _break_off(self, envelope: Envelope, cause: BaseException) -> None:
        """End at a fault of the runtime: the actor cannot go on, and nobody may wait for it."""
        error = AgentDown(f"{self.address} ended at an error of the runtime's: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        if envelope.promise is not None:
            envelope.promise.fail(error)
        tell = partial(emit, ERROR, "actor_failed", {"actor": self.address}, "%s", error, exc_info=cause)
        for end in (tell, partial(self._lifecycle.end, error), self.close):
            with contextlib.suppress(BaseException):
                end()

    def _handle_timed(self, envelope: Envelope, timed: Timed) -> None:
        if self.behaviour is None or not self._incarnation.has_set(timed.timer):  # an earlier object set it
            self.finish(envelope, Fate.CANCELLED)
            return
        try:
            timed.taken()
        except RuntimeError as cause:  # no thread for its next alarm; a new object may set it again
            self._failed(envelope, cause)
            return
        envelope.message = timed.message
        if envelope.context is None:
            envelope.context = self._incarnation.context
        self._receive(envelope)

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        if isinstance(cause, CallersMistake):
            return self._refuse_call(envelope, cause.error)
        error = AgentCrashed(f"{self.address} failed: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        level = ERROR if envelope.promise is None else INFO  # nobody waits to be told; a future may be dropped too
        emit(level, "actor_failed", {"actor": self.address}, "%s", error, exc_info=cause)
        self._lifecycle.fail_over(cause, envelope.message, lambda: self.finish(envelope, Fate.FAILED, error=error))

    def _refuse_call(self, envelope: Envelope, error: BaseException) -> None:
        """Give the caller of a proxy the error of its own mistake; the object goes on."""
        if envelope.promise is None:
            text, address = "%s: a deferred call cannot be made: %s", self.address
            emit(ERROR, "proxy_call_refused", {"actor": address}, text, address, in_words(error), exc_info=error)
        self.finish(envelope, Fate.FAILED, error=error)

    def _note_unhandled(self, envelope: Envelope, fate: Fate, error: BaseException) -> None:
        if is_dead_letter(envelope, error):
            message = envelope.message
            sent = message.message if type(message) is Timed else message
            self.events.dead_letter(self.address, lost_because(fate, error, self.state), envelope, sent)


def is_dead_letter(envelope: Envelope, error: BaseException) -> bool:
    """Whether a message that was not handled is a user's, and nobody else sees to it."""
    message = envelope.message
    if type(message) is Timed:
        return isinstance(error, MailboxFull)  # other timers end with the object that set them
    return envelope.on_lost is None and type(message) is not Command and type(message) is not Down


def lost_because(fate: Fate, error: BaseException, state: ActorState) -> LostBecause:
    """Return why an actor in `state` did not handle a message that ended with `error`."""
    if fate is Fate.EXPIRED:
        return "expired"
    if fate is Fate.CANCELLED:
        return "cancelled"
    if isinstance(error, MailboxFull):
        return "mailbox_full"
    if state == "down":
        return "given_up"
    return "stopped" if error.__cause__ is None else "no_thread"
