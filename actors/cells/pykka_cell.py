"""What makes each cell a Pykka actor: the three hooks that Pykka has for other ways to run an actor.

They are `_create_actor_inbox`, `_create_future` and `_start_actor_loop`. Here the inbox is the cell itself, and a future is a
`Promise`; each kind of cell says what its loop is. Pykka's constructor is not called: see docs/decisions.md.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import NoReturn, Self, cast

import pykka

from understudy.actors.threads.promise import Promise

from .counted import Counted
from .envelope import Envelope, new_envelope
from .pykka_inbox import STOP, ForeignEnvelope, StopView, promise_for


class PykkaCell(Counted, pykka.Actor):
    """One actor, whatever handles its messages. A class that derives from it sets `actor_urn`, its address."""

    __slots__ = ()

    @property
    def address(self) -> str:
        """Its name, which is its URN for Pykka."""
        return self.actor_urn

    # --- what Pykka asks for

    @staticmethod
    def _create_actor_inbox() -> NoReturn:
        raise TypeError("a cell is its own inbox, and Pykka's constructor, which would ask for one, is not called")

    @staticmethod
    def _create_future() -> Promise[object]:
        return Promise()

    @property
    def actor_inbox(self) -> Self:  # type: ignore[override]  # Pykka sets it in its constructor
        """The cell itself."""
        return self

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # as above
        """A view of whether it has stopped."""
        return cast(threading.Event, StopView(self))

    @property
    def _actor_ref(self) -> pykka.ActorRef[Self]:  # type: ignore[override]  # as above
        return pykka.ActorRef(self)

    # --- the inbox

    def put(self, envelope: ForeignEnvelope, /) -> None:
        """Take a message of Pykka's own code, and set its future when the message has ended."""
        promise = None if envelope.reply_to is None else promise_for(envelope.reply_to)
        if isinstance(envelope.message, STOP):
            self._stop_for(promise)
        else:
            self._admit(new_envelope(envelope.message, promise))

    def _stop_for(self, promise: Promise[object] | None) -> None:
        """Stop, and then set `promise`."""
        self.stop()
        if promise is not None:
            promise.set(None)

    def get(self) -> NoReturn:
        """Refuse: no loop of Pykka's takes the messages."""
        raise TypeError("a thread of the pool takes the messages of a cell")

    # --- what each kind of cell does

    @abstractmethod
    def has_stopped(self, within: float | None) -> bool:
        """Whether it has stopped; waits up to `within` seconds for that, None for any time."""

    @abstractmethod
    def empty(self) -> bool:
        """Whether no message waits."""

    @abstractmethod
    def _admit(self, envelope: Envelope) -> None:
        """Take a message that is no stop, or refuse it; its promise is done in the end."""
