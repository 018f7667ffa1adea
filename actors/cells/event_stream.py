"""The event stream of a system: it passes events on to subscribers, and waits for none of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from logging import DEBUG, INFO, WARNING

from understudy.diagnostics import emit, log
from understudy.errors import CircularAgentCall
from understudy.vocabulary.actors.system_events import (
    ActorBackedOff,
    ActorGivenUp,
    ActorRestarted,
    ActorStarted,
    ActorStopped,
    CircleRefused,
    DeadLetter,
    Escalated,
    LostBecause,
    SystemEvent,
    WorkAbandoned,
    WorkOverdue,
)

from .dead_letters import DeadLetters, type_name
from .mailbox import Envelope
from .subscriptions import FunctionInbox, Inbox, Subscription, sent_on_hearing

LINES: dict[type[SystemEvent], tuple[int, str]] = {
    ActorStarted: (DEBUG, "actor_started"),
    ActorRestarted: (INFO, "actor_restarted"),
    ActorBackedOff: (INFO, "actor_backed_off"),
    ActorGivenUp: (WARNING, "actor_given_up"),
    ActorStopped: (DEBUG, "actor_stopped"),
    Escalated: (WARNING, "escalated"),
    WorkOverdue: (INFO, "work_overdue"),
    WorkAbandoned: (INFO, "work_abandoned"),
    CircleRefused: (INFO, "circle_refused"),
}
"""Class of an event -> the level and the name of its line."""


def is_logged(kind: type[SystemEvent]) -> bool:
    """Whether an event of this class has a line, and the logger takes it."""
    line = LINES.get(kind)
    return line is not None and log.isEnabledFor(line[0])


def write_line(event: SystemEvent) -> None:
    """Write the line of an event, if it has one."""
    line = LINES.get(type(event))
    if line is not None:
        level, name = line
        emit(level, name, {"actor": event.address, **_facts_of(event)})


def _facts_of(event: SystemEvent) -> dict[str, object]:
    match event:
        case ActorRestarted(epoch=epoch, restarts=restarts):
            return {"epoch": epoch, "restarts": restarts}
        case ActorBackedOff(seconds=seconds):
            return {"seconds": seconds}
        case ActorGivenUp(reason=reason) | Escalated(reason=reason):
            return {"error_type": type(reason).__name__}
        case ActorStopped(reason=reason) if reason is not None:
            return {"error_type": type(reason).__name__}
        case WorkOverdue(run_id=run_id, what=what, seconds=seconds):
            return {"run_id": run_id, "what": what, "seconds": seconds}
        case WorkAbandoned(run_id=run_id, what=what, seconds=seconds):
            named = {"run_id": run_id} if run_id else {}
            return {**named, "what": what, "seconds": seconds}
        case CircleRefused(path=path):
            return {"path": path}
        case _:
            return {}


class EventStream:
    """The subscribers of a system, and its dead letters. Safe to use from any thread.

    Ask `wants` before you build an event: most events have no subscriber.
    """

    def __init__(self, system: str) -> None:
        self._system = system
        self._numbers = count(1)
        self._subscriptions: tuple[Subscription, ...] = ()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make locks, buffers and counts anew in a forked child. Functions stay subscribed; actors are the parent's."""
        self._lock = threading.Lock()
        """Guards changes to the tuple of subscriptions, which is read without it."""
        self.letters = DeadLetters(self._system)
        self._subscriptions = tuple([each for each in self._subscriptions if each.begin_anew()])

    def wants(self, kind: type[SystemEvent]) -> bool:
        """Whether an event of this class has a subscriber, or a line in the log."""
        return self.is_heard(kind) or is_logged(kind)

    def is_heard(self, kind: type[SystemEvent]) -> bool:
        """Whether an event of this class has a subscriber."""
        subscriptions = self._subscriptions
        return bool(subscriptions) and any(each.wants(kind) for each in subscriptions)

    def publish(self, event: SystemEvent) -> None:
        """Pass an event on to its subscribers, and write its line; waits for no subscriber. Call it under no lock."""
        self.pass_on(event)
        write_line(event)

    def pass_on(self, event: SystemEvent) -> None:
        """Pass an event on to its subscribers, and leave its line to the caller, who holds a lock."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    def subscribe(self, inbox: Inbox, kinds: tuple[type[SystemEvent], ...]) -> Subscription:
        """Have events of these classes sent to `inbox`, in the order in which they are published."""
        subscription = Subscription(inbox, kinds, self._remove)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def inbox_for(self, function: Callable[..., object], capacity: int) -> FunctionInbox:
        """Make the inbox of a function, in which `capacity` events may wait."""
        return FunctionInbox(f"{self._system}/subscription-{next(self._numbers)}", function, capacity)

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple([each for each in self._subscriptions if each is not subscription])

    def finish(self, deadline: float) -> None:
        """Let functions hear the events that are published already, until `deadline` on the monotonic clock, and no more."""
        self.letters.sum_up()
        subscriptions = self._subscriptions
        heard = [each.drain() for each in subscriptions]  # all of them first: they drain at the same time
        for promise in heard:
            promise.wait(max(0.0, deadline - time.monotonic()))
        for subscription in subscriptions:
            subscription.cancel()

    @property
    def lost(self) -> int:
        """How many events found no room in the buffers of the present subscribers."""
        return sum([each.lost for each in self._subscriptions])

    # --- events that are published in more than one place

    def dead_letter(self, address: str, reason: LostBecause, envelope: Envelope, message: object) -> None:
        """Note a message that no actor handled."""
        # A subscriber that passes events on to an actor that is down would hear of that message, and pass it on, for ever.
        answered, told = envelope.promise is not None, not sent_on_hearing(envelope)
        self.note_dead_letter(address, reason, message, answered=answered, told=told)

    def note_dead_letter(
        self, address: str, reason: LostBecause, message: object, *, answered: bool, told: bool = True
    ) -> None:
        """Note a message that no actor handled.

        Args:
            address: whose message it was.
            reason: why it was not handled.
            message: the message, of which only the name of its class is kept.
            answered: whether its sender hears of it, so that the log need not.
            told: whether subscribers hear of it.
        """
        name, at = type_name(message), time.time()
        self.letters.note(address, reason, name, at, answered=answered)
        if told and self.wants(DeadLetter):
            self.publish(DeadLetter(address=address, reason=reason, message_type=name, at=at))

    def refused(self, address: str, error: CircularAgentCall) -> None:
        """Publish a wait that was refused because it would have closed a cycle."""
        if self.wants(CircleRefused):
            self.publish(CircleRefused(address=address, path=error.path))
