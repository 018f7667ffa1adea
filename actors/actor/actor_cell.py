"""The cell of a user's actor: it takes orders from other threads, and handles messages on its own.

Whatever happens to an actor happens on its own thread, between two messages: an order from another thread comes as a
command in its system queue, and the lifecycle carries it out. While the actor has no object, its user queue is suspended.
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
from typing import Any

from understudy.actors.cells.envelope import Envelope, Fate, new_envelope
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import MailboxQueue, Put
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.promise import Promise
from understudy.diagnostics import emit
from understudy.errors import AgentCrashed, AgentDown, MailboxFull, in_words
from understudy.orchestration.supervision.restarts import Restart
from understudy.vocabulary.actors.messages import Down, Mailbox
from understudy.vocabulary.actors.system_events import LostBecause
from understudy.vocabulary.context.ancestry import ActorLink, ChainAndHops, current_ancestry, enter_hops

from .commands import Command, Timed, Timer, nothing
from .endpoint import ActorState
from .lifecycle import Incarnation, Lifecycle
from .members import IsCurrent, OnDone, always
from .message_cell import MessageCell
from .proxy import PROXY_MESSAGES, CallersMistake, handle_proxy_message
from .ref import ActorRef
from .supervisor import SupervisorCell


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
