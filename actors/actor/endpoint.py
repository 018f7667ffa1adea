"""The cell of an actor as the other files of this room see it: by protocols, so that the cell can be built from them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Behaviour, Envelope, Put
from understudy.actors.threads.promise import Promise
from understudy.vocabulary.actors.messages import Down
from understudy.vocabulary.context.ancestry import ChainAndHops, Link

from .commands import Timer
from .members import IsCurrent, Member, OnDone

if TYPE_CHECKING:
    from pykka._actor import ActorInbox

ActorState: TypeAlias = Literal["starting", "running", "restarting", "down", "stopped"]


class Endpoint(Protocol):
    """An actor as its references and its own object use it; safe to use from any thread."""

    look_at: float
    """When an alarm rings for asks that are late by then; infinite if none is set."""

    @property
    def address(self) -> str:
        """Its name in its system."""
        ...

    @property
    def link(self) -> Link:
        """The actor in the graph of who waits for whom."""
        ...

    @property
    def own_ancestry(self) -> ChainAndHops:
        """The chain and the hops of a message that no run has led to."""
        ...

    @property
    def events(self) -> EventStream:
        """Where events about it are published."""
        ...

    @property
    def state(self) -> ActorState:
        """Where it is in its life."""
        ...

    @property
    def behaviour(self) -> Behaviour | None:
        """Its object; None between two objects."""
        ...

    @property
    def actor_class(self) -> type:
        """The class of its object."""
        ...

    @property
    def actor_inbox(self) -> ActorInbox:
        """Where Pykka's own code puts messages."""
        ...

    @property
    def actor_stopped(self) -> threading.Event:
        """Whether it has stopped, as Pykka's own code asks."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether this is code of the actor."""
        ...

    @property
    def stopped(self) -> Promise[None]:
        """Completes when the actor has stopped."""
        ...

    def tell(
        self,
        message: object,
        *,
        system: bool = False,
        context: contextvars.Context | None = None,
        on_lost: Callable[[BaseException], object] | None = None,
    ) -> None:
        """Send a message and go on."""
        ...

    def send(self, envelope: Envelope, timeout: float) -> Put:
        """Put a user's message; it may wait up to `timeout` seconds for room."""
        ...

    def expire(self, now: float) -> float:
        """Answer the asks that are late, and return the next deadline."""
        ...

    def stop(self) -> None:
        """Accept nothing more, handle what waits, then stop."""
        ...

    def watch(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Call `watcher` with one `Down` when the actor stops or is given up."""
        ...

    def timer(self, first: float, message: object, period: float | None) -> Timer:
        """Send a message to this actor later."""
        ...

    def own_context(self, hops: int) -> contextvars.Context:
        """Return the context for a message that no other sender has."""
        ...


class OwnedCell(Endpoint, Member, Protocol):
    """The same actor as its lifecycle and its incarnation use it, on the actor's own thread."""

    behaviour: Behaviour | None  # pyright: ignore[reportIncompatibleMethodOverride]  # its references only read it
    """The actor's object; None between two objects."""
    epoch: int
    """How many objects were replaced."""

    @property
    def is_ending(self) -> bool:
        """Whether it takes no more messages."""
        ...

    def suspend(self) -> None:
        """Let the user's messages wait."""
        ...

    def resume(self) -> None:
        """Handle the user's messages again."""
        ...

    def close(self) -> None:
        """Take no more messages, lose those that wait, and complete `stopped`."""
        ...

    def begin_again(self, delay: float, on_done: OnDone, is_current: IsCurrent) -> None:
        """Begin by itself after `delay` seconds."""
        ...
