"""`ActorRef`: the address of an actor. It survives restarts and can be handed to anyone in the process."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

import pykka
from pykka.messages import ProxyGetAttr

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import FULL, new_envelope
from understudy.actors.cells.subscriptions import OnLost, Subscription, hearing_context
from understudy.actors.threads.promise import Late, Promise
from understudy.errors import CircularAgentCall, MailboxFull
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT, Down, Query
from understudy.vocabulary.actors.system_events import SystemEvent
from understudy.vocabulary.checks import checked_wait
from understudy.vocabulary.context.ancestry import chain_and_hops, enter_ancestry, next_hops
from understudy.vocabulary.context.scope import current_scope, enter_scope, has_scope
from understudy.vocabulary.runs.handles import Future

from .ask_future import AskFuture, StopFuture, answer_by, expire, wait_for_reply
from .endpoint import Endpoint
from .proxy import PROXY_MESSAGES, ActorProxy

if TYPE_CHECKING:
    from pykka._actor import ActorInbox as PykkaInbox
    from typing_extensions import TypeVar as TypeVarWithDefault

    M_contra = TypeVarWithDefault("M_contra", contravariant=True, default=object)
else:
    M_contra = TypeVar("M_contra", contravariant=True)

R = TypeVar("R")


class ActorInbox:
    """An actor that hears of events in its mailbox, of all but those about itself: they would make it fail again."""

    def __init__(self, cell: Endpoint) -> None:
        self._cell = cell
        self._context = hearing_context()
        self._context.run(enter_ancestry, (cell.link,))
        self._at_end: Callable[[], object] | None = None

    def call_at_end(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the actor stops, unless this is closed before."""
        self._at_end = callback
        self._cell.stopped.when_done(callback)

    def send(self, event: SystemEvent, on_lost: OnLost) -> None:
        if event.address != self._cell.address:
            self._cell.send(new_envelope(event, None, None, self._context, on_lost), 0.0)

    def close(self) -> None:
        """Leave in its mailbox what is there, for it is the actor's; and leave nothing else with the actor."""
        if self._at_end is not None:
            self._cell.stopped.forget(self._at_end)

    def drain(self) -> Promise[object]:
        heard: Promise[object] = Promise()
        heard.set(None)
        return heard

    def in_child(self) -> None:
        return None


class ActorRef(pykka.ActorRef[Any], Generic[M_contra]):
    """The address of an actor, and a reference for Pykka. Safe to share; equal to every other reference to the same actor."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Endpoint) -> None:
        # Without Pykka's constructor, which copies what is a property here: it changes at a restart and in a forked child.
        self._cell = cell

    @property
    def address(self) -> str:
        """The actor's name in its system: `SYSTEM/NAME`."""
        return self._cell.address

    # --- for Pykka

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # Pykka sets it in its constructor
        """The address."""
        return self._cell.address

    @property
    def actor_class(self) -> type:  # type: ignore[override]  # as above
        """The class of the actor's present object."""
        return self._cell.actor_class

    @property
    def actor_inbox(self) -> PykkaInbox:  # type: ignore[override]  # as above
        """Takes the envelopes of Pykka's own code."""
        return self._cell.actor_inbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # as above
        """A view of whether the actor has stopped; it cannot be set."""
        return self._cell.actor_stopped

    @property
    def _actor_weakref(self) -> Callable[[], object]:  # type: ignore[override]  # as above
        return self.present_object

    def proxy(self) -> pykka.ActorProxy[Any]:
        """Return the public methods and attributes of the actor's present object, as futures; it survives restarts.

        Waits until there is an object, for up to 30 seconds, except inside of the actor itself. The calls have no time limit;
        inside of a run its deadline holds for them too.

        Raises:
            AgentDown: the actor has stopped or is given up, which is a `pykka.ActorDeadError` too.
        """
        return ActorProxy(self, self.present_object)

    def present_object(self) -> object:
        """Return the actor's object, for a look at its attributes; a blank one inside of an actor that has none yet."""
        cell = self._cell
        if cell.behaviour is None and not cell.is_here:
            self.ask_future(cast(Any, ProxyGetAttr(("__class__",)))).result()  # answered when there is an object
        found = cell.behaviour
        return object.__new__(cast("type[object]", cell.actor_class)) if found is None else found

    # --- messages

    def tell(self, message: M_contra, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> None:
        """Send and go on. To a stopped actor it is a dead letter: see `system.dead_letters()`.

        Args:
            message: anything; nobody changes it once sent.
            timeout: seconds to wait for room, where the mailbox's policy is `block` and this is no actor's thread.

        Raises:
            MailboxFull: there was no room.
        """
        cell = self._cell
        context = contextvars.copy_context()
        if has_scope():  # nobody waits for a message that is told: it is not bound to the sender's deadline
            context.run(enter_scope, None)
        ancestry = (cell.own_ancestry[0], next_hops()) if chain_and_hops()[1] else cell.own_ancestry
        if cell.send(new_envelope(message, None, None, context, None, None, ancestry), timeout) is FULL:
            raise MailboxFull(f"{self.address} has no room for another message", actor=self.address)

    @overload  # type: ignore[override]  # Pykka's are not typed by the message
    def ask(
        self, message: Query[R], *, block: Literal[True] = True, timeout: float | None = DEFAULT_ASK_TIMEOUT
    ) -> R: ...
    @overload
    def ask(
        self, message: Query[R], *, block: Literal[False], timeout: float | None = DEFAULT_ASK_TIMEOUT
    ) -> Future[R]: ...
    @overload
    def ask(
        self, message: M_contra, *, block: Literal[True] = True, timeout: float | None = DEFAULT_ASK_TIMEOUT
    ) -> object: ...
    @overload
    def ask(
        self, message: M_contra, *, block: Literal[False], timeout: float | None = DEFAULT_ASK_TIMEOUT
    ) -> Future[object]: ...
    @overload
    def ask(self, message: M_contra, *, block: bool, timeout: float | None = DEFAULT_ASK_TIMEOUT) -> object: ...
    def ask(  # pyright: ignore[reportIncompatibleMethodOverride]  # as above
        self, message: Any, *, block: bool = True, timeout: float | None = DEFAULT_ASK_TIMEOUT
    ) -> object:
        """Send, wait for the reply and return it. A message that was not begun by then never is.

        Args:
            message: a `Query[R]` is answered with an `R`.
            block: False returns the future of the reply at once, as `ask_future` does.
            timeout: seconds until the reply must be there, None for any time; inside a run its deadline may leave less.

        Raises:
            TimeoutError: no reply in that time. It is a `pykka.Timeout` too.
            MailboxFull: there was no room.
            AgentCrashed: the actor failed at this message; `__cause__` says why.
            AgentDown: the actor has stopped, or is given up. It is a `pykka.ActorDeadError` too.
            CircularAgentCall: the actor waits, directly or through others, for who asks.
        """
        # Pykka's proxies give no timeout, and wait for any time.
        if timeout is DEFAULT_ASK_TIMEOUT and type(message) in PROXY_MESSAGES:
            timeout = None
        if not block:
            return self.ask_future(message, timeout=timeout)
        reply, deadline = self._send(message, timeout)
        try:
            replied = wait_for_reply(reply, max(0.0, deadline - time.monotonic()), self._cell)
        except CircularAgentCall as error:
            reply.fail(error)  # so that the message, which is on its way, is not handled
            raise
        if not replied:
            within = "before the deadline around the ask" if timeout is None else f"within {timeout:g} s"
            reply.fail(Late(f"{self.address} did not reply {within}"))
            expire(self._cell)
        return reply.get()

    @overload
    def ask_future(self, message: Query[R], *, timeout: float | None = DEFAULT_ASK_TIMEOUT) -> Future[R]: ...
    @overload
    def ask_future(self, message: M_contra, *, timeout: float | None = DEFAULT_ASK_TIMEOUT) -> Future[object]: ...
    def ask_future(self, message: object, *, timeout: float | None = DEFAULT_ASK_TIMEOUT) -> Future[object]:
        """Send, and return the future of the reply at once.

        Args:
            message: as for `tell`.
            timeout: seconds until the reply must be there (None for any time), else the future has a `TimeoutError`, whatever the actor does;
                a message that it has not begun by then is not handled any more.

        Raises:
            ActorError: more than 1,000 messages and runs led to this one.
        """
        reply, deadline = self._send(message, timeout)
        if not reply.done:
            answer_by(self._cell, deadline)
        return AskFuture(reply, self._cell)

    def _send(self, message: object, timeout: float | None) -> tuple[Promise[object], float]:
        """Send, and return the reply to come and by when it must be there."""
        if timeout is None:
            timeout = inf
        else:
            checked_wait("ask", timeout)
        scope = current_scope()
        remaining = None if scope is None else scope.remaining()
        left = timeout if remaining is None or timeout < remaining else remaining
        reply: Promise[object] = Promise()
        sent = time.monotonic()
        deadline = sent + left
        cell = self._cell
        context = contextvars.copy_context()
        context.run(enter_scope, (deadline, time.monotonic, scope))
        ancestry = (cell.own_ancestry[0], next_hops()) if chain_and_hops()[1] else cell.own_ancestry
        cell.send(new_envelope(message, reply, deadline, context, None, sent, ancestry), left)
        return reply, deadline

    @overload  # type: ignore[override]  # its future has more methods
    def stop(self, *, block: Literal[True] = True, timeout: float | None = None) -> bool: ...
    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> Future[bool]: ...
    @overload
    def stop(self, *, block: bool, timeout: float | None = None) -> bool | Future[bool]: ...
    def stop(  # pyright: ignore[reportIncompatibleMethodOverride]  # as above
        self, *, block: bool = True, timeout: float | None = None
    ) -> bool | Future[bool]:
        """Stop the actor after the messages it has, and wait until it has stopped; a second call only waits.

        Inside of the actor itself this does not wait.

        Args:
            block: False returns the future of the result at once; it cannot be cancelled.
            timeout: seconds to wait for the end, None for any time; the end of the wait does not keep the actor alive.

        Returns:
            Whether this, or an earlier call, stops it; False if it had stopped before.

        Raises:
            TimeoutError: it has not stopped in that time. It is a `pykka.Timeout` too.
            CircularAgentCall: the actor waits, directly or through others, for who waits for its end. It stops all the same.
        """
        checked_wait("stop", timeout)
        cell, was_there, end = self._cell, not self._cell.stopped.done, Promise[bool]()
        cell.stop()
        cell.stopped.when_done(partial(end.set, was_there))
        if not block:
            return StopFuture(cast("Promise[object]", end), cell)
        if cell.is_here:
            return True
        if not wait_for_reply(cast("Promise[object]", end), timeout, cell):
            raise Late(f"{self.address} has not stopped within {timeout:g} s; it stops after the messages it has")
        return end.get()

    def hear(self, events: EventStream, kinds: tuple[type[SystemEvent], ...]) -> Subscription:
        """Have events told to the actor until it stops: what `ActorSystem.subscribe` does with a reference."""
        inbox = ActorInbox(self._cell)
        subscription = events.subscribe(inbox, kinds)
        inbox.call_at_end(subscription.cancel)
        return subscription

    def on_down(self, key: object, callback: Callable[[Down], object]) -> None:
        """Call `callback` with one `Down` when the actor stops or is given up; at once if it has. A key is called once.

        It runs on the actor's own thread, so it must be quick; an actor watches another with `Actor.watch` instead.
        """
        self._cell.watch(key, callback)

    def is_alive(self) -> bool:
        """Whether it has an object, or is about to get its first one; False also while a restart waits."""
        return self._cell.state in ("starting", "running")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorRef):
            return False
        mine, its = self._cell, other._cell
        # Each system has its own events.
        return mine is its or (mine.events is its.events and mine.address == its.address)

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"ActorRef({self.address!r}, {self._cell.state})"

    __str__ = __repr__
