"""The supervision of a memory: what follows when it fails in its own code, by the rules of all restarts.

Failures in one conversation count once until a message succeeds, so that a caller whose conversation always fails does not
stop the memory for others.
"""

from __future__ import annotations

import threading
import time
from logging import WARNING
from typing import TYPE_CHECKING, Protocol

from understudy.actors.cells.dead_letters import type_name
from understudy.actors.cells.event_stream import EventStream
from understudy.diagnostics import emit
from understudy.errors import in_words
from understudy.orchestration.supervision.restarts import RunsInARow, decide
from understudy.vocabulary.actors.system_events import ActorFailed, ActorGivenUp, ActorRestarted
from understudy.vocabulary.context.run_values import values_of_run

if TYPE_CHECKING:
    from understudy.vocabulary.context.ancestry import Link
    from understudy.vocabulary.runs.memory import ConversationKey


class Restarted(Protocol):
    """The actor that is supervised."""

    restarts: int

    @property
    def address(self) -> str:
        """Its name."""
        ...


class MemoryRestarts:
    """Restarts one memory after a failure, or gives it up for as long as nothing succeeds.

    Args:
        actor: the memory's.
        events: where failures and restarts are told.
    """

    __slots__ = ("_actor", "_budget", "_events", "_failed", "_lock", "given_up")

    def __init__(self, actor: Restarted, events: EventStream) -> None:
        self._actor = actor
        self._events = events
        self._lock = threading.Lock()
        """Guards the rest: a memory in a store handles many messages at once."""
        self._budget = RunsInARow()
        self._failed = False
        """Whether it has failed since the last message that succeeded."""
        self.given_up = False
        """Whether it failed in too many conversations in a row."""

    def failed(
        self, cause: BaseException, message: object, conversation: ConversationKey, link: Link, *, again: bool
    ) -> None:
        """Decide about a failure.

        Args:
            cause: what the memory raised.
            message: the message that failed; None if no object could be made.
            conversation: what the message was about.
            link: the run that sent the message.
            again: whether a restart may help.
        """
        address = self._actor.address
        values = values_of_run(link) | {"actor": address}
        text = "%s did not start: %s" if message is None else "%s failed: %s"
        emit(WARNING, "actor_failed", values, text, address, in_words(cause), exc_info=cause)
        if self._events.wants(ActorFailed):
            name = "" if message is None else type_name(message)
            self._events.publish(ActorFailed(address=address, error=cause, message_type=name))
        if not again:
            return
        with self._lock:
            if self.given_up:
                return
            self._failed = True
            restarts = decide("restart", "transient", self._budget, time.monotonic(), repr(conversation)) == "restart"
            self.given_up = not restarts
        if restarts:
            self._restart()
        elif self._events.wants(ActorGivenUp):
            self._events.publish(ActorGivenUp(address=address, reason=cause))

    def worked(self) -> None:
        """Note that a message was handled."""
        if not self._failed:
            return
        with self._lock:
            self._failed = False
            self._budget.worked()
            was_given_up, self.given_up = self.given_up, False
        if was_given_up:
            self._restart()

    def _restart(self) -> None:
        with self._lock:
            self._actor.restarts += 1
            restarts = self._actor.restarts
        if self._events.wants(ActorRestarted):
            self._events.publish(ActorRestarted(address=self._actor.address, epoch=restarts, restarts=restarts))
