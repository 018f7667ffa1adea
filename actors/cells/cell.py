"""A cell: an actor with the mailbox, behaviour and counters behind an address. It outlives failures, and is lent threads.

The law: every accepted message ends in exactly one `Fate`, and its promise completes exactly once. `Cell.finish` is the one
place where a message ends.

It is a Pykka actor by the hooks of `PykkaCell`: a thread of the pool runs its loop while there are messages.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from logging import ERROR
from typing import Any

from understudy.actors.threads.pool import here, run_next_here, start_next_thread, submit
from understudy.actors.threads.promise import Late, Promise
from understudy.diagnostics import emit
from understudy.errors import ActorError, AgentCrashed, AgentDown, MailboxFull, in_words
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT, DEFAULT_CAPACITY
from understudy.vocabulary.context.ancestry import ChainAndHops, enter_work

from .dead_letters import ActorDead
from .mailbox import FULL, HANDLED, QUEUED, WAKE, Behaviour, Envelope, Fate, MailboxQueue, Put, new_envelope
from .pykka_cell import PykkaCell


def _received_as(ancestry: ChainAndHops, receive: Callable[[Any], object], message: object) -> object:
    """Handle a message in the context that it has for itself, with its own chain and hops there."""
    enter_work(ancestry)
    return receive(message)


class Cell(PykkaCell):
    """One actor. `tell` and `ask` from any thread; its messages are handled one after another.

    Args:
        address: its name, for errors, logs and `tree()`.
        factory: makes the behaviour, at the first message and again after a failure.
        behaviour: a first behaviour that is there already.
        capacity: how many messages may wait.
    """

    __slots__ = ("_counting", "_counts", "_factory", "_mailbox", "actor_urn", "behaviour", "epoch")

    def __init__(
        self,
        address: str,
        factory: Callable[[], Behaviour],
        behaviour: Behaviour | None = None,
        *,
        capacity: int = DEFAULT_CAPACITY,
    ) -> None:
        # Without Pykka's constructor, whose random name and event would be most of the cost of a cell.
        self.actor_urn = address
        self.epoch: int = 0
        """How many behaviours were replaced; messages that an earlier one still sends are stale."""
        self._counting = threading.Lock()
        """Guards the counts that several threads may raise at once, and attributes that are made at their first use."""
        self._counts = [0] * len(Fate)
        self._factory = factory
        self.behaviour = behaviour
        self._mailbox: MailboxQueue[Envelope] = MailboxQueue(capacity)

    def _start_actor_loop(self) -> None:
        """Have a thread of the pool run the cell until there are no messages."""
        submit(self)

    def has_stopped(self, within: float | None) -> bool:
        """Whether it has stopped. A cell of this class stops at once, so there is nothing to wait for."""
        return self._mailbox.closed

    def _admit(self, envelope: Envelope) -> None:
        self._deliver(envelope, False)

    def empty(self) -> bool:
        """Whether no message waits."""
        return not len(self._mailbox)

    # --- sending

    def tell(
        self,
        message: object,
        *,
        system: bool = False,
        context: contextvars.Context | None = None,
        on_lost: Callable[[BaseException], object] | None = None,
        last: bool = False,
    ) -> None:
        """Send and go on.

        Args:
            message: anything; nobody changes it once sent.
            system: use the queue that is served first and is never full.
            context: the context variables to handle it in.
            on_lost: called with the reason if the message is never handled, or its handling fails.
            last: whether the calling thread has nothing more to do, and may run the actor next.
        """
        envelope = new_envelope(message, None, None, context, on_lost)
        put = self._mailbox.put(envelope, system=system)
        if last and put is WAKE:
            run_next_here(self)
        else:
            self._sent(envelope, put)

    def ask(
        self,
        message: object,
        *,
        timeout: float = DEFAULT_ASK_TIMEOUT,
        context: contextvars.Context | None = None,
    ) -> Promise[object]:
        """Send, and return the promise of the reply; a message that is not begun within `timeout` seconds never is."""
        promise = self._create_future()
        self._deliver(new_envelope(message, promise, time.monotonic() + timeout, context), False)
        return promise

    def _deliver(self, envelope: Envelope, system: bool) -> None:
        self._sent(envelope, self._mailbox.put(envelope, system=system))

    def _sent(self, envelope: Envelope, put: Put) -> None:
        if put is QUEUED:
            return
        if put is WAKE:
            self._start_actor_loop()
        elif put is FULL:
            self.finish(envelope, Fate.DEAD, error=MailboxFull(f"{self.address} is full", actor=self.address))
        else:
            self.finish(envelope, Fate.DEAD, error=self._gone_error())

    def _gone_error(self) -> AgentDown:
        return ActorDead(f"{self.address} has stopped", actor=self.address)

    def refused(self, cause: RuntimeError) -> None:
        """Answer the messages that wait with `AgentDown`: no thread can be started."""
        error = ActorDead(f"{self.address} has no thread to run on: {cause}", actor=self.address)
        error.__cause__ = cause
        self._lose_waiting(error, close=False)

    def stop(self) -> None:
        """Accept nothing more, and answer the messages that wait with `AgentDown`. A second call does nothing."""
        self._lose_waiting(self._gone_error(), close=True)

    def _lose_waiting(self, error: ActorError, *, close: bool) -> None:
        for envelope in self._mailbox.drain(close=close):
            self.finish(envelope, Fate.DEAD, error=error)

    # --- handling, on a lent thread

    def run_turns(self) -> None:
        """Handle messages until there are none."""
        thread = here()
        while (envelope := self._mailbox.take()) is not None:
            self._handle(envelope)
            # A parked thread must not keep the last message and its promise alive.
            del envelope
            if thread is not None and thread.next is not None and len(self._mailbox):
                start_next_thread()  # else the thread's next work would wait for all messages of this cell

    def _handle(self, envelope: Envelope) -> None:
        self._receive(envelope)

    def _receive(self, envelope: Envelope, receive: Callable[[Any], object] | None = None) -> None:
        """Have the behaviour, or `receive`, handle a message, unless it is late or its sender has given it up."""
        if envelope.deadline is not None and time.monotonic() >= envelope.deadline:
            return self.finish(envelope, Fate.EXPIRED, error=self._late_error())
        if envelope.promise is not None and envelope.promise.done:  # its sender has given it up
            given_up = CancelledError(f"{self.address} came to the message when nobody waited for its reply any more")
            return self.finish(envelope, Fate.CANCELLED, error=given_up)
        try:
            if self.behaviour is None:
                self.behaviour = self._factory()
            if receive is None:
                receive = self.behaviour.on_receive
            context, ancestry = envelope.context, envelope.ancestry
            if context is None:
                value = receive(envelope.message)
            elif ancestry is None:
                value = context.run(receive, envelope.message)
            else:
                value = context.run(_received_as, ancestry, receive, envelope.message)
        except BaseException as cause:  # also SystemExit, which concerns this actor alone
            return self._failed(envelope, cause)
        return self.finish(envelope, HANDLED, value)

    def _late_error(self) -> TimeoutError:
        return Late(f"{self.address} did not come to the message in time")

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        self.behaviour = None  # the next message meets a fresh one
        self.epoch += 1
        error = AgentCrashed(f"{self.address} failed: {in_words(cause)}", actor=self.address)
        error.__cause__ = cause
        self.finish(envelope, Fate.FAILED, error=error)

    def finish(
        self, envelope: Envelope, fate: Fate, value: object = None, *, error: BaseException | None = None
    ) -> None:
        """End a message, whatever happened to it: count it and complete its promise."""
        if fate is HANDLED:  # counted only by the thread that runs the cell
            self._counts[fate] += 1
        else:
            self._count(fate)
        if error is not None:
            self._lose(envelope, fate, error)
        elif envelope.promise is not None:
            envelope.promise.finish(value, None)

    def _lose(self, envelope: Envelope, fate: Fate, error: BaseException) -> None:
        """Tell the sender of a message that it has no value."""
        if fate is not Fate.FAILED:
            self._note_unhandled(envelope, fate, error)
        if envelope.promise is not None:
            envelope.promise.fail(error)
        if envelope.on_lost is not None:
            try:
                envelope.on_lost(error)
            except BaseException:  # this thread has other messages to handle
                text = "%s: what was to be done about a lost message failed"
                emit(ERROR, "lost_message_hook_failed", {"actor": self.address}, text, self.address, exc_info=True)

    def _note_unhandled(self, envelope: Envelope, fate: Fate, error: BaseException) -> None:
        """Note a message that was not handled, before its sender hears of it; actors of users post a dead letter."""

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._mailbox)

    @property
    def high_water(self) -> int:
        """The most messages that ever waited at once."""
        return self._mailbox.high_water
