"""The objects of one actor, one after another: each has its own timers, and all have one context for their hooks."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from logging import ERROR
from typing import cast

from understudy.diagnostics import emit
from understudy.errors import MailboxFull
from understudy.vocabulary.context.ancestry import ChainAndHops, enter_work

from .actor import Actor, attach
from .commands import Timed
from .endpoint import Endpoint, OwnedCell
from .timers import Timer


class Incarnation:
    """Makes the objects of one actor, calls their hooks, and keeps their timers. For the actor's own thread.

    Args:
        make: makes an object; called again for each restart.
        ancestry: the chain and the hops of its code, where no message brings others.
    """

    __slots__ = ("_make", "_timers", "context", "kind")

    def __init__(self, make: Callable[[], object], ancestry: ChainAndHops) -> None:
        self.context = contextvars.Context()
        """The context of hooks and timers, which have no sender."""
        self.context.run(enter_work, ancestry)
        self._make = make
        self.kind: type = make if isinstance(make, type) else Actor
        """The class of the last object, known before its `on_start`."""
        self._timers: tuple[Timer, ...] = ()

    def make(self, cell: OwnedCell) -> Actor[object]:
        """Return a new object that has started. Raises what its class or its `on_start` raises."""
        return self.context.run(self._made, cell)

    def _made(self, cell: OwnedCell) -> Actor[object]:
        made = self._make()
        if not isinstance(made, Actor):
            raise TypeError(f"{cell.address}: spawn must be given what makes an Actor, and it made {made!r}")
        actor = cast("Actor[object]", made)
        attach(actor, cell)
        self.kind = type(actor)
        actor.on_start()
        return actor

    def vacate(self, cell: OwnedCell) -> Actor[object] | None:
        """Drop the object and cancel its timers; return it, or None if there was none."""
        old, cell.behaviour = cell.behaviour, None
        timers, self._timers = self._timers, ()
        for timer in timers:
            timer.cancel()
        if old is None:
            return None
        assert isinstance(old, Actor)  # what `make` made
        return cast("Actor[object]", old)

    def guard(self, address: str, what: str, call: Callable[[], object]) -> None:
        """Run a hook; its failure is logged, and nothing else comes of it."""
        try:
            self.context.run(call)
        except BaseException:
            emit(ERROR, "hook_failed", {"actor": address}, "%s: %s failed", address, what, exc_info=True)

    def timer(self, cell: Endpoint, first: float, message: object, period: float | None) -> Timer:
        """Send a message to the actor later; the timer ends with the object that sets it."""
        for seconds in (first, period):
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"a timer's seconds must not be negative, got {seconds!r}")
        if period == 0:
            raise ValueError("a periodic timer needs more than 0 seconds")
        timer = Timer(partial(_send, cell, message), first, period)
        self._timers = (*[t for t in self._timers if t.is_active], timer)
        return timer

    def has_set(self, timer: Timer) -> bool:
        """Whether the present object has set `timer`, and not an earlier one."""
        return timer in self._timers


def _send(cell: Endpoint, message: object, timer: Timer, taken: Callable[[], None]) -> None:
    def go_on(error: BaseException) -> None:
        if isinstance(error, MailboxFull):  # this message is lost, but the timer goes on
            taken()

    cell.tell(Timed(message, taken, timer), on_lost=go_on)
