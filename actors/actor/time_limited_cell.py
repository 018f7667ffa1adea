"""A cell with a time limit for each message: a message that takes longer is given up, and the actor goes on.

No thread can be killed. A handler that hangs keeps its thread and its object. The cell takes the message away from it, ends
the message, and goes on with a new object on another thread. A result that the old thread brings later is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from logging import ERROR

from understudy.actors.cells.dead_letters import type_name
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Envelope, Fate
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.alarms import ring_at
from understudy.actors.threads.pool import Work
from understudy.diagnostics import emit
from understudy.errors import AgentCrashed
from understudy.orchestration.supervision.restarts import Restart
from understudy.vocabulary.actors.messages import Mailbox
from understudy.vocabulary.actors.system_events import WorkAbandoned
from understudy.vocabulary.context.scope import Scope, enter_scope, scope_in

from .actor import detach
from .actor_cell import ActorCell
from .commands import Command
from .supervisor import SupervisorCell


class Turn:
    """One message in hand.

    Attributes:
        returned: whether its handler has returned; one that hangs may never do so.
    """

    __slots__ = ("envelope", "returned", "scope")

    def __init__(self, envelope: Envelope, scope: Scope) -> None:
        self.envelope = envelope
        self.scope = scope
        self.returned = False


class LimitedCell(ActorCell):
    """An actor that must handle each message in time; its hooks have no limit.

    Args:
        limit: seconds for one message; the scope of its handler has the deadline.
        give_up: counts a turn that was given up, and a cancel hook that hangs, until it returns.
        address, make, mailbox, supervisor, events, restart: as for every actor.
    """

    __slots__ = ("_abandoned", "_claiming", "_give_up_turn", "_limit", "_runner", "_turn")

    def __init__(
        self,
        address: str,
        make: Callable[[], object],
        *,
        mailbox: Mailbox,
        supervisor: SupervisorCell,
        events: EventStream,
        restart: Restart,
        limit: float,
        give_up: Callable[[Work], object],
    ) -> None:
        super().__init__(address, make, mailbox=mailbox, supervisor=supervisor, events=events, restart=restart)
        self._limit = limit
        self._give_up_turn = give_up
        self._claiming = threading.Lock()
        """Guards those below: a turn is ended by its handler's thread or by the alarm, not by both."""
        self._turn: Turn | None = None
        self._abandoned: set[Envelope] = set()
        """Messages that were taken away from threads that have not returned."""
        self._runner: object = None
        """Stands for the thread that runs the cell; None once that thread was given up."""

    def run_turns(self) -> None:
        """Handle messages until there are none, or this thread was given up."""
        runner = self._runner = object()
        while self._runner is runner and (envelope := self._mailbox.take()) is not None:
            self._handle(envelope)
            del envelope

    def _handle(self, envelope: Envelope) -> None:
        if type(envelope.message) is Command or self.behaviour is None:  # hooks have no limit
            super()._handle(envelope)
            return
        context = (self._incarnation.context if envelope.context is None else envelope.context).copy()
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
        except RuntimeError as cause:  # only from the alarm, for want of a thread: `_handle_one` raises nothing
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
        """Take the actor away from the thread that hangs; on the alarm's thread."""
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
        if turn.envelope.promise is None:
            emit(ERROR, "actor_failed", {"actor": self.address}, "%s", error)
        old = self._incarnation.vacate(self)  # without a hook: the object is in use
        if old is not None:
            detach(old)
        self._give_up_turn(turn)
        if self.events.wants(WorkAbandoned):
            what = f"handling a message of type {type_name(turn.envelope.message)}"
            self.events.publish(WorkAbandoned(address=self.address, what=what, seconds=self._limit))
        self.fail(cause)
        self._start_actor_loop()  # before callbacks of the reply, which may wait for the actor
        super().finish(turn.envelope, Fate.FAILED, error=error)
        cancel_hooks.cancel(turn.scope, self._give_up_turn)

    def stay_in_parent(self) -> None:
        super().stay_in_parent()
        self._claiming = threading.Lock()
        self._turn = None
