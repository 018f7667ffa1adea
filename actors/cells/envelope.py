"""A message on its way, the ways in which it can end, and the object that handles it."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable
from enum import IntEnum, auto
from typing import Protocol

from understudy.actors.threads.promise import Promise


class Behaviour(Protocol):
    """A user's or the runtime's object that handles messages, one at a time."""

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


HANDLED = Fate.HANDLED  # Named here once: to look a member up in its class takes as long as to lock a mailbox.


class Envelope:
    """A message on its way: who waits for it, until when, and the context it is handled in."""

    __slots__ = ("context", "deadline", "message", "on_lost", "reply", "sent")

    def __init__(
        self,
        message: object,
        reply: Promise[object] | None = None,
        deadline: float | None = None,
        context: contextvars.Context | None = None,
        on_lost: Callable[[BaseException], object] | None = None,
        sent: float | None = None,
    ) -> None:
        self.message = message
        self.reply = reply
        self.deadline = deadline
        self.context = context
        self.on_lost = on_lost
        self.sent = time.monotonic() if sent is None else sent
