"""`ActorRef`: the address of an actor. It survives restarts and can be handed to anyone in the process."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from understudy.actors.cells.envelope import Envelope
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Put
from understudy.actors.cells.subscriptions import OnLost, Subscription, hearing_context
from understudy.actors.threads.promise import Promise
from understudy.errors import CircularAgentCall, MailboxFull
from understudy.vocabulary.actors.messages import DEFAULT_ASK_TIMEOUT, Down, Query
from understudy.vocabulary.actors.system_events import SystemEvent
from understudy.vocabulary.context.ancestry import Ancestry, enter_ancestry, enter_work, next_hops
from understudy.vocabulary.context.scope import Unmade, current_scope, enter_scope
from understudy.vocabulary.runs.handles import Future

from .ask_expiry import answer_by, expire
from .ask_future import AskFuture, wait_for_reply
from .endpoint import Endpoint

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    M_contra = TypeVarWithDefault("M_contra", contravariant=True, default=object)
else:
    M_contra = TypeVar("M_contra", contravariant=True)

R = TypeVar("R")


def _enter(scope: Unmade | None, work: tuple[Ancestry, int]) -> None:
    enter_scope(scope)
    enter_work(work)


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
            self._cell.send(Envelope(event, None, None, self._context, on_lost), 0.0)

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


class ActorRef(Generic[M_contra]):
    """The address of an actor. Safe to share; equal to every other reference to the same actor."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Endpoint) -> None:
        self._cell = cell

    @property
    def address(self) -> str:
        """The actor's name in its system: `SYSTEM/NAME`."""
        return self._cell.address

    def tell(self, message: M_contra, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> None:
        """Send and go on. To a stopped actor it is a dead letter: see `system.dead_letters()`.

        Args:
            message: anything; nobody changes it once sent.
            timeout: seconds to wait for room, where the mailbox's policy is `block` and this is no actor's thread.

        Raises:
            MailboxFull: there was no room.
        """
        # Nobody waits for a message that is told: it starts a chain of its own, without the sender's deadline.
        put = self._cell.send(Envelope(message, context=self._context(None)), timeout)
        if put is Put.FULL:
            raise MailboxFull(f"{self.address} has no room for another message", actor=self.address)

    @overload
    def ask(self, message: Query[R], *, timeout: float = DEFAULT_ASK_TIMEOUT) -> R: ...
    @overload
    def ask(self, message: M_contra, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> object: ...
    def ask(self, message: object, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> object:
        """Send, wait for the reply and return it. A message that was not begun by then never is.

        Args:
            message: a `Query[R]` is answered with an `R`.
            timeout: seconds until the reply must be there; inside a run its deadline may leave less.

        Raises:
            TimeoutError: no reply in that time.
            MailboxFull: there was no room.
            AgentCrashed: the actor failed at this message; `__cause__` says why.
            AgentDown: the actor has stopped, or is given up.
            CircularAgentCall: the actor waits, directly or through others, for who asks.
        """
        reply, deadline = self._send(message, timeout)
        try:
            replied = wait_for_reply(reply, max(0.0, deadline - time.monotonic()), self._cell)
        except CircularAgentCall as error:
            reply.fail(error)  # so that the message, which is on its way, is not handled
            raise
        if not replied:
            reply.fail(TimeoutError(f"{self.address} did not reply within {timeout:g} s"))
            expire(self._cell)
        return reply.get()

    @overload
    def ask_future(self, message: Query[R], *, timeout: float = DEFAULT_ASK_TIMEOUT) -> Future[R]: ...
    @overload
    def ask_future(self, message: M_contra, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> Future[object]: ...
    def ask_future(self, message: object, *, timeout: float = DEFAULT_ASK_TIMEOUT) -> Future[object]:
        """Send, and return the future of the reply at once.

        Args:
            message: as for `tell`.
            timeout: seconds until the reply must be there, else the future has a `TimeoutError`, whatever the actor does;
                a message that it has not begun by then is not handled any more.

        Raises:
            ActorError: more than 1,000 messages and runs led to this one.
        """
        reply, deadline = self._send(message, timeout)
        if not reply.done:
            answer_by(self._cell, deadline)
        return AskFuture(reply, self._cell)

    def _send(self, message: object, timeout: float) -> tuple[Promise[object], float]:
        """Send, and return the reply to come and by when it must be there."""
        if not timeout >= 0:
            raise ValueError(f"timeout must not be negative, got {timeout!r}")
        scope = current_scope()
        remaining = None if scope is None else scope.remaining()
        left = timeout if remaining is None or timeout < remaining else remaining
        reply: Promise[object] = Promise()
        sent = time.monotonic()
        deadline = sent + left
        context = self._context((deadline, time.monotonic, scope))
        self._cell.send(Envelope(message, reply, deadline, context, None, sent), left)
        return reply, deadline

    def _context(self, scope: Unmade | None) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(_enter, scope, ((self._cell.link,), next_hops()))
        return context

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the actor after the messages it has; a second call only waits.

        Args:
            timeout: seconds to wait for the end; None does not wait.

        Returns:
            Whether it has stopped.
        """
        self._cell.stop()
        return self._cell.stopped.done if timeout is None else self._cell.stopped.wait(timeout)

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

    @property
    def is_alive(self) -> bool:
        """Whether it has an object, or is about to get its first one; False also while a restart waits."""
        return self._cell.state in ("starting", "running")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorRef) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"ActorRef({self.address!r}, {self._cell.state})"
