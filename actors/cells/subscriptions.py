"""Subscriptions to the events of a system: each has a bounded buffer, and loses the events that find no room there.

A function is called in a cell of its own, on a lent thread; an actor receives events in its mailbox.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from logging import ERROR, WARNING
from typing import Protocol, Self

from understudy.actors.threads.promise import Promise
from understudy.diagnostics import emit
from understudy.errors import MailboxFull
from understudy.vocabulary.actors.system_events import SystemEvent

from .cell import Cell
from .mailbox import Envelope, Put, new_envelope

OnLost = Callable[[BaseException], object]
_hearing: contextvars.ContextVar[bool] = contextvars.ContextVar("understudy_hearing", default=False)


def sent_on_hearing(envelope: Envelope) -> bool:
    """Whether a subscriber sent this message while it handled an event, directly or through others."""
    return envelope.context is not None and envelope.context.get(_hearing, False)


def hearing_context() -> contextvars.Context:
    """Return a context for events: messages that are sent in it are known to `sent_on_hearing`."""
    context = contextvars.Context()
    context.run(_hearing.set, True)
    return context


_LAST = object()


class Inbox(Protocol):
    """Where the events of one subscriber wait."""

    def send(self, event: SystemEvent, on_lost: OnLost) -> None:
        """Add an event, or call `on_lost`; never waits."""
        ...

    def close(self) -> None:
        """Forget what waits, and take no more."""
        ...

    def drain(self) -> Promise[object]:
        """Take no more; the promise completes when the events that wait were handled."""
        ...

    def in_child(self) -> Inbox | None:
        """Return the inbox that replaces it in a forked child; None if the subscriber belongs to the parent."""
        ...


class Subscription:
    """Events told to one subscriber, until it is cancelled or the system stops; also at the end of a `with` block.

    Safe to use from any thread, and from the subscriber itself.
    """

    def __init__(
        self, inbox: Inbox, kinds: tuple[type[SystemEvent], ...], on_cancel: Callable[[Subscription], object]
    ) -> None:
        self._inbox = inbox
        self._kinds = kinds
        self._on_cancel = on_cancel
        self._active = True
        self._lock = threading.Lock()
        """Guards the number of lost events."""
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many events found no room, because the subscriber is slow."""
        return self._lost

    @property
    def is_active(self) -> bool:
        """Whether events are still told."""
        return self._active

    def cancel(self) -> None:
        """Tell no more events, nor those that wait. A call under way in another thread goes on to its end."""
        self._active = False
        self._on_cancel(self)
        self._inbox.close()

    def wants(self, kind: type[SystemEvent]) -> bool:
        """Whether events of this class are told."""
        return issubclass(kind, self._kinds)

    def offer(self, event: SystemEvent) -> None:
        """Tell an event, if it is of a class that is wanted; never waits."""
        if self._active and isinstance(event, self._kinds):
            self._inbox.send(event, self._not_told)

    def _not_told(self, error: BaseException) -> None:
        # Other errors are no lack of room: the subscription is over, or an actor failed at the event.
        if not self._active or not isinstance(error, MailboxFull):
            return
        with self._lock:
            self._lost += 1
            first = self._lost == 1
        if first:
            emit(WARNING, "subscriber_too_slow", {}, "a subscriber is too slow and loses events: %s", error)

    def drain(self) -> Promise[object]:
        """Take no more events; the promise completes when the subscriber has handled those that wait."""
        return self._inbox.drain()

    def begin_anew(self) -> bool:
        """Make lock and buffer anew, in a forked child; False if the subscriber is the parent's."""
        self._lock = threading.Lock()
        self._lost = 0
        inbox = self._inbox.in_child()
        if inbox is None:
            self._active = False
            return False
        self._inbox = inbox
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()


class FunctionInbox(Cell):
    """The cell in which a function is called with events, one after another."""

    __slots__ = ("_caller", "_capacity", "_context")

    def __init__(self, address: str, function: Callable[..., object], capacity: int) -> None:
        self._caller = _Caller(address, function)
        self._capacity = capacity
        self._context = hearing_context()
        super().__init__(address, lambda: self._caller, capacity=capacity)

    def send(self, event: SystemEvent, on_lost: OnLost) -> None:
        self.tell(event, context=self._context, on_lost=on_lost)

    def close(self) -> None:
        self.stop()

    def drain(self) -> Promise[object]:
        heard: Promise[object] = Promise()
        # A subscriber that ends the system would wait for itself.
        if self._caller.thread == threading.get_ident():
            heard.set(None)
            return heard
        put = self._mailbox.close(new_envelope(_LAST, heard))
        if put is Put.WAKE:
            self._start_actor_loop()
        elif put is Put.CLOSED:
            heard.set(None)
        return heard

    def in_child(self) -> FunctionInbox:
        return FunctionInbox(self.address, self._caller.function, self._capacity)


class _Caller:
    """Calls a function with events; an exception is logged, and the function is called with the next event all the same."""

    def __init__(self, address: str, function: Callable[..., object]) -> None:
        self._address = address
        self.function = function
        self.thread = 0
        """The thread on which the function is being called, else 0."""

    def on_receive(self, message: object) -> None:
        if message is _LAST:
            return
        self.thread = threading.get_ident()
        try:
            self.function(message)
        except BaseException:  # also SystemExit: the thread belongs to the pool
            emit(ERROR, "subscriber_failed", {}, "%s: a subscriber failed", self._address, exc_info=True)
        finally:
            self.thread = 0
