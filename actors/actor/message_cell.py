"""The messages of a user's actor: they wait, are in hand, come too late, or are lost when the actor ends."""

from __future__ import annotations

import threading
import time
from functools import partial
from math import inf
from typing import NoReturn

from understudy.actors.cells.cell import Cell
from understudy.actors.cells.dead_letters import ActorDead
from understudy.actors.cells.envelope import Envelope, Fate
from understudy.actors.cells.mailbox import QUEUED, Put
from understudy.actors.threads.pool import on_a_pool_thread
from understudy.actors.threads.promise import Late, Promise
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT, Mailbox

from .commands import Command

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
