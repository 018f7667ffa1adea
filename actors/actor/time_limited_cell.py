"""A cell whose messages may take only so long: one that takes longer is given up where it is, and the actor goes on.

No thread can be killed. What hangs keeps its thread and its object; the cell takes the message away from it, ends it, and
goes on with a new object on another thread. What the old one brings later is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from understudy.actors.cells.dead_letters import type_name
from understudy.actors.cells.envelope import Envelope, Fate
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.work import Work
from understudy.errors import AgentCrashed
from understudy.orchestration.supervision.restarts import Restart
from understudy.vocabulary.actors.messages import Mailbox
from understudy.vocabulary.actors.system_events import WorkAbandoned
from understudy.vocabulary.context.scope import Scope, enter_scope, scope_in

from .actor import detach
from .actor_cell import ActorCell
from .commands import Command
from .supervisor import SupervisorCell

log = logging.getLogger("understudy")


class Turn:
    """One message in hand.

    Attributes:
        returned: whether its handling came back, which one that hangs may never do.
    """

    __slots__ = ("envelope", "returned", "scope")

    def __init__(self, envelope: Envelope, scope: Scope) -> None:
        self.envelope = envelope
        self.scope = scope
        self.returned = False


class LimitedCell(ActorCell):
    """An actor each of whose messages must be handled in time; its hooks are not limited.

    Args:
        limit: seconds for one message; inside, the scope's deadline says when they are over.
        give_up: counts a turn, or a function that is called because it was given up, until it comes back.
        address, make, mailbox, family, events, restart: as for every actor.
    """

    __slots__ = ("_abandoned", "_claiming", "_give_up_turn", "_limit", "_runner", "_turn")

    def __init__(
        self,
        address: str,
        make: Callable[[], object],
        *,
        mailbox: Mailbox,
        family: SupervisorCell,
        events: EventStream,
        restart: Restart,
        limit: float,
        give_up: Callable[[Work], object],
    ) -> None:
        super().__init__(address, make, mailbox=mailbox, family=family, events=events, restart=restart)
        self._limit = limit
        self._give_up_turn = give_up
        self._claiming = threading.Lock()
        """Guards those below: a turn is ended by whoever handles it, or by whoever gives it up, and not by both."""
        self._turn: Turn | None = None
        self._abandoned: set[Envelope] = set()
        """Messages that were taken away from threads which have not come back."""
        self._runner: object = None
        """Who runs the cell; a thread that was given up is not it any more."""

    def run_turns(self) -> None:
        """Handle messages until there are none, or this thread was given up."""
        runner = self._runner = object()
        while self._runner is runner and (envelope := self._mailbox.take()) is not None:
            self._handle(envelope)
            del envelope

    def _handle(self, envelope: Envelope) -> None:
        if type(envelope.message) is Command or self.behaviour is None:  # hooks may run, and are not limited
            super()._handle(envelope)
            return
        context = (self._seat.context if envelope.context is None else envelope.context).copy()
        deadline = time.monotonic() + self._limit
        turn = Turn(envelope, Scope(deadline, time.monotonic, parent=scope_in(context)))
        context.run(enter_scope, turn.scope)
        envelope.context = context
        self._turn, self._in_hand = turn, envelope
        self.busy_since, self._thread = time.monotonic(), threading.get_ident()
        runner, alarm = self._runner, None
        try:
            alarm = ring_at(deadline, partial(self._overdue, turn))
            self._handle_one(envelope)
        except RuntimeError as cause:  # only the alarm's, for want of a thread: what handles a message raises nothing
            self._failed(envelope, cause)
        finally:
            if alarm is not None:
                alarm.call_off()
            turn.returned = True
            self._abandoned.discard(envelope)
            if self._runner is runner:
                self._turn, self._in_hand, self.busy_since, self._thread = None, None, None, 0

    def finish(
        self, envelope: Envelope, fate: Fate, value: object = None, *, error: BaseException | None = None
    ) -> None:
        """End a message, unless it was taken away from the thread that ends it."""
        if self._claim(envelope):
            super().finish(envelope, fate, value, error=error)

    def _failed(self, envelope: Envelope, cause: BaseException) -> None:
        if self._claim(envelope):
            super()._failed(envelope, cause)

    def _claim(self, envelope: Envelope) -> bool:
        with self._claiming:
            if envelope in self._abandoned:
                return False
            if self._turn is not None and self._turn.envelope is envelope:
                self._turn = None
            return True

    def _overdue(self, turn: Turn) -> None:
        """Take the actor away from the thread that hangs; on a thread of the alarm's."""
        with self._claiming:
            if self._turn is not turn:
                return
            self._turn = None
            self._runner = None
            self._abandoned.add(turn.envelope)
        cause = TimeoutError(
            f"{self.address} did not handle a message within {self._limit:g} s, and was given up at it"
        )
        error = AgentCrashed(f"{self.address} failed: {cause}", actor=self.address)
        error.__cause__ = cause
        if turn.envelope.reply is None:
            log.error("%s", error)
        old = self._seat.vacate(self)  # without a hook: the object is in use
        if old is not None:
            detach(old)
        self._give_up_turn(turn)
        if self.events.wants(WorkAbandoned):
            what = f"handling a message of type {type_name(turn.envelope.message)}"
            self.events.publish(WorkAbandoned(address=self.address, what=what, seconds=self._limit))
        super().finish(turn.envelope, Fate.FAILED, error=error)
        self.fail(cause)
        cancel_hooks.cancel(turn.scope, self._give_up_turn)
        self._wake()

    def stay_in_parent(self) -> None:
        super().stay_in_parent()
        self._claiming = threading.Lock()
        self._turn = None
