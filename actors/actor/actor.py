"""`Actor`: what users derive their own actors from."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError
from functools import partial
from logging import ERROR
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pykka

from understudy.actors.waiting.endings import Member
from understudy.actors.waiting.foreign_future import ForeignFuture
from understudy.diagnostics import emit
from understudy.errors import ActorError, in_words
from understudy.orchestration.definitions.method_checks import fault_of_actor
from understudy.vocabulary.context.ancestry import next_hops
from understudy.vocabulary.other_names import OF_ACTORS, explains_attributes
from understudy.vocabulary.runs.handles import Future

from .commands import Timer
from .endpoint import Endpoint
from .ref import ActorRef

if TYPE_CHECKING:
    from concurrent.futures import Future as StandardFuture

    from typing_extensions import TypeVar as TypeVarWithDefault

    M_contra = TypeVarWithDefault("M_contra", contravariant=True, default=object)
else:
    M_contra = TypeVar("M_contra", contravariant=True)

V = TypeVar("V")


@explains_attributes(OF_ACTORS)
class Actor(Generic[M_contra]):
    """An object whose messages are handled one at a time, on a thread that is lent to it.

    Derive from it and write `on_receive`; `system.spawn(MyActor, name="…")` starts one. Its attributes are its own: nobody
    else touches them, so they need no lock. After a failure the object is thrown away and a new one made, so state that
    must survive belongs elsewhere.
    """

    ref: ActorRef[M_contra]
    """The actor's own reference, to hand to others; there from `on_start` on."""

    _cell: Endpoint | None

    def on_start(self) -> None:
        """Prepare, before the first message and again after a restart. What it raises counts as a failure."""

    def on_receive(self, message: M_contra) -> object:
        """Handle one message; what it returns is the reply to an `ask`. What it raises fails the message and the actor."""
        raise TypeError(f"{type(self).__name__} has no on_receive, and got {type(message).__name__}")

    def before_restart(self, error: BaseException, message: object) -> None:
        """Clean up after a failure, on the object that failed; what it raises is logged."""

    def on_stop(self) -> None:
        """Clean up when the actor ends for good: stopped, or given up. What it raises is logged."""

    # --- what an actor can ask of the runtime, on its own thread

    def after(self, seconds: float, message: M_contra) -> Timer:
        """Send `message` to this actor once, `seconds` from now. A restart and the end cancel it."""
        return self._place().timer(seconds, message, None)

    def every(self, seconds: float, message: M_contra) -> Timer:
        """Send `message` to this actor every `seconds`, until cancelled. A restart and the end cancel it.

        A message is sent when the one before it was taken, so a slow actor gets fewer of them, and not a pile.
        """
        return self._place().timer(seconds, message, seconds)

    def watch(self, other: ActorRef[Any]) -> None:
        """Have one `Down` sent to this actor when `other` stops or is given up; at once if it has.

        Watching an actor again before it is down changes nothing. The message comes before those that wait.
        """
        cell = self._place()
        if not callable(getattr(other, "on_down", None)):
            raise TypeError(f"watch takes the reference of an actor of understudy, got {other!r}")
        other.on_down(cell.address, partial(cell.tell, system=True))

    def pipe(
        self,
        future: Future[V] | StandardFuture[V] | pykka.Future[V],
        message: Callable[[V], M_contra],
        on_error: Callable[[BaseException], M_contra] | None = None,
    ) -> None:
        """Have what a future brings sent to this actor as a message, so that it need not wait.

        Args:
            future: an ask, a run handle, several of them merged, one of `concurrent.futures`, or one of Pykka's own, for which
                a lent thread waits until the actor has stopped.
            message: makes the message of the value; runs on the thread that completes the future.
            on_error: makes the message of an error, a cancellation included; without it, errors are logged.

        Raises:
            TypeError: it is no future, or what is to make a message no function.
        """
        cell = self._place()
        source = _source_of(future, message, on_error)
        address = cell.address
        context = cell.own_context(next_hops())  # what comes of a message comes from it, also by way of a future

        def send(done: Member[V]) -> None:
            error = _error_of(done)
            if isinstance(error, CancelledError) and cell.stopped.done:  # nobody is left to hear of it
                return
            if error is not None and on_error is None:
                text = "%s: a piped future failed: %s"
                emit(ERROR, "pipe_failed", {"actor": address}, text, address, in_words(error), exc_info=error)
                return
            try:
                made = message(done.result()) if error is None or on_error is None else on_error(error)
            except Exception:
                text = "%s: no message could be made of what a piped future brought"
                emit(ERROR, "pipe_failed", {"actor": address}, text, address, exc_info=True)
                return
            cell.tell(made, context=context)

        source.add_done_callback(cast("Callable[[object], object]", send))  # it passes itself
        if isinstance(source, ForeignFuture):  # its thread must not outlive the actor
            cell.stopped.when_done(source.cancel)
            source.add_done_callback(lambda _: cell.stopped.forget(source.cancel))

    if not TYPE_CHECKING:  # for type checkers an actor has what it declares, and nothing else

        def __getattr__(self, name: str) -> object:
            if name in ("ref", "_cell"):
                raise AttributeError(
                    f"{type(self).__name__}: an actor has its ref, timers and watches from on_start on"
                )
            return super().__getattribute__(name)  # which fails, and says so as ever

    def _place(self) -> Endpoint:
        if self._cell is None:
            raise ActorError(
                f"this {type(self).__name__} was given up at a message that hung, and another one has taken its place",
                actor=self.ref.address,
            )
        return self._cell


def _source_of(future: object, *makers: object) -> Member[Any]:
    for each in makers:
        if each is not None and not callable(each):
            raise TypeError(f"pipe takes a function that makes the message, got {each!r}")
    if callable(getattr(future, "add_done_callback", None)):
        return cast("Member[Any]", future)
    if isinstance(future, pykka.Future):
        return ForeignFuture(future)  # pyright: ignore[reportUnknownArgumentType]  # a future of anything
    raise TypeError(f"pipe takes a future, such as a run handle or what ask_future returns; got {future!r}")


def _error_of(done: Member[Any]) -> BaseException | None:
    try:
        return done.exception()
    except CancelledError as cancelled:  # a standard future raises it and does not return it
        return cancelled


def attach(actor: Actor[object], cell: Endpoint) -> None:
    """Give a new object its cell and reference, before its `on_start`. Raises `TypeError` for methods that are `async def`."""
    if fault := fault_of_actor(cast(Hashable, type(actor))):
        raise TypeError(fault)
    object.__setattr__(actor, "_cell", cell)  # not the actor's to set, nor its users'
    actor.ref = ActorRef(cell)


def detach(actor: Actor[object]) -> None:
    """Take its cell from an object that was given up in the middle of a message: what it still asks for is refused."""
    object.__setattr__(actor, "_cell", None)
