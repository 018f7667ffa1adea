"""What cells have for Pykka's own code: the envelopes of a bare `pykka.ActorRef`, their futures, and the stop event."""

from __future__ import annotations

import contextlib
import queue
from functools import partial
from typing import Any, NoReturn, Protocol

import pykka
from pykka import messages

from understudy.actors.threads.promise import Promise

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


class Ending(Protocol):
    """An actor that stops at some time."""

    def has_stopped(self, within: float | None) -> bool:
        """Whether it has stopped; waits up to `within` seconds for that, None for any time."""
        ...


class StopView:
    """The stop event of an actor as Pykka reads it. It stores nothing, so it is right in a forked child too."""

    __slots__ = ("_actor",)

    def __init__(self, actor: Ending) -> None:
        self._actor = actor

    def is_set(self) -> bool:
        return self._actor.has_stopped(0.0)

    def wait(self, timeout: float | None = None) -> bool:
        return self._actor.has_stopped(timeout)

    def set(self) -> NoReturn:
        raise TypeError("an actor is stopped by stop(), not by its event")

    clear = set
