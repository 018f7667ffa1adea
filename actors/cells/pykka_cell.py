"""What makes each cell a Pykka actor: the three hooks that Pykka has for other ways to run an actor.

They are `_create_actor_inbox`, `_create_future` and `_start_actor_loop`. Here the inbox is the cell itself, and a future is a
`Promise`; each kind of cell says what its loop is. Pykka's constructor is not called: see docs/decisions.md.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from abc import abstractmethod
from functools import partial
from typing import Any, NoReturn, Protocol, Self, cast

import pykka
from pykka import messages

from understudy.actors.threads.promise import Promise

from .mailbox import Envelope, Fate, new_envelope

STOP: type = messages._ActorStop  # pyright: ignore[reportPrivateUsage]
"""The message by which Pykka stops an actor."""


class ForeignEnvelope(Protocol):
    """Pykka's envelope: a message, and the future of the reply, if somebody waits for one."""

    @property
    def message(self) -> Any: ...

    @property
    def reply_to(self) -> pykka.Future[Any] | None: ...


def copy_to(future: pykka.Future[Any], promise: Promise[Any]) -> None:
    """Set a future of Pykka's once `promise` is done."""
    promise.when_done(partial(_copy, promise, future))


def promise_for(future: pykka.Future[Any]) -> Promise[object]:
    """Return a promise that sets a future of Pykka's when it is done."""
    promise: Promise[object] = Promise()
    copy_to(future, promise)
    return promise


def _copy(promise: Promise[Any], future: pykka.Future[Any]) -> None:
    error = promise.error()
    with contextlib.suppress(queue.Full):  # somebody else has set it
        if error is None:
            future.set(promise.get())
        else:
            future.set_exception((type(error), error, error.__traceback__))


class StopView:
    """The stop event of an actor as Pykka reads it. It stores nothing, so it is right in a forked child too."""

    __slots__ = ("_actor",)

    def __init__(self, actor: PykkaCell) -> None:
        self._actor = actor

    def is_set(self) -> bool:
        return self._actor.has_stopped(0.0)

    def wait(self, timeout: float | None = None) -> bool:
        return self._actor.has_stopped(timeout)

    def set(self) -> NoReturn:
        raise TypeError("an actor is stopped by stop(), not by its event")

    clear = set


class Counted:
    """What every actor counts. A class that derives from it makes both attributes in its constructor."""

    __slots__ = ()

    _counting: threading.Lock
    """Guards the counts that several threads may raise at once."""
    _counts: list[int]
    """By fate."""

    def _count(self, fate: Fate) -> None:
        with self._counting:  # an addition reads and writes: of two at once, one would be lost
            self._counts[fate] += 1

    def count_failure(self) -> None:
        """Count a failure in a part of this actor that runs elsewhere, such as a run."""
        self._count(Fate.FAILED)

    @property
    def counts(self) -> dict[Fate, int]:
        """How many messages ended in which way."""
        return {fate: self._counts[fate] for fate in Fate}


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
