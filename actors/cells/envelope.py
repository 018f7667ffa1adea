"""A message on its way, the ways in which it can end, and the object that handles it."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable
from enum import IntEnum, auto
from typing import Protocol

from understudy.actors.threads.promise import Promise
from understudy.vocabulary.context.ancestry import ChainAndHops


class Behaviour(Protocol):
    """An object of the user or of the runtime that handles messages, one at a time."""

    def on_receive(self, message: object) -> object:
        """Handle one message; what it returns is the reply, what it raises is a failure."""
        ...


class Fate(IntEnum):
    """How a message ended."""

    HANDLED = 0
    FAILED = auto()
    EXPIRED = auto()
    CANCELLED = auto()
    DEAD = auto()


# Names of their own: to look up a member of an enum takes as long as to lock a mailbox.
HANDLED, FAILED, CANCELLED = Fate.HANDLED, Fate.FAILED, Fate.CANCELLED


class Envelope:
    """A message on its way: the promise of its reply, its deadline, and the context in which it is handled.

    `new_envelope` makes it: to call a class whose constructor is written in Python takes twice as long.
    """

    __slots__ = ("ancestry", "context", "deadline", "message", "on_lost", "promise", "sent")

    message: object
    promise: Promise[object] | None
    deadline: float | None
    context: contextvars.Context | None
    on_lost: Callable[[BaseException], object] | None
    sent: float
    ancestry: ChainAndHops | None
    """Entered in `context` when the message is handled; None if the context has its own."""


def new_envelope(
    message: object,
    promise: Promise[object] | None = None,
    deadline: float | None = None,
    context: contextvars.Context | None = None,
    on_lost: Callable[[BaseException], object] | None = None,
    sent: float | None = None,
    ancestry: ChainAndHops | None = None,
) -> Envelope:
    """Return a message that is sent now."""
    made = Envelope()
    made.message = message
    made.promise = promise
    made.deadline = deadline
    made.context = context
    made.on_lost = on_lost
    made.ancestry = ancestry
    made.sent = time.monotonic() if sent is None else sent
    return made
