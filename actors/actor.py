"""`Actor`: what users derive their own actors from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .lifecycle import ActorCell
    from .ref import ActorRef

    M_contra = TypeVar("M_contra", contravariant=True, default=object)
else:
    from typing import TypeVar

    M_contra = TypeVar("M_contra", contravariant=True)


class Actor(Generic[M_contra]):
    """An object whose messages are handled one at a time, on a thread that is lent to it.

    Derive from it and write `on_receive`; `system.spawn(MyActor, name="…")` starts one. Its attributes are its own: nobody
    else touches them, so they need no lock. After a failure the object is thrown away and a new one made, so state that
    must survive belongs elsewhere.
    """

    ref: ActorRef[M_contra]
    """The actor's own reference, to hand to others; there from `on_start` on."""

    def on_start(self) -> None:
        """Prepare, before the first message and again after a restart. What it raises counts as a failure."""

    def on_receive(self, message: M_contra) -> object:
        """Handle one message; what it returns is the reply to an `ask`. What it raises fails the message and the actor."""
        raise TypeError(f"{type(self).__name__} has no on_receive, and got {type(message).__name__}")

    def before_restart(self, error: BaseException, message: object) -> None:
        """Clean up after a failure, on the object that failed; what it raises is logged."""

    def on_stop(self) -> None:
        """Clean up when the actor ends for good: stopped, or given up. What it raises is logged."""


def attach(actor: Actor[object], cell: ActorCell) -> None:
    """Give a new object its reference, before its `on_start`."""
    from .ref import ActorRef

    actor.ref = ActorRef(cell)
