"""The actor of a memory: its messages are loads and appends, and it handles one at a time.

A message that finds the memory idle has its turn at once, on the thread of its sender: a work of a run, which can only
wait for it. Mostly that is so, for the conversation is granted to the run by then. A message that finds another one in hand
waits in line, and its sender with it. A turn that takes too long is given up, and hangs until its thread comes back: others
are refused meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from logging import WARNING
from math import inf
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from understudy.actors.cells.dead_letters import type_name
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import CANCELLED, FAILED, HANDLED
from understudy.actors.cells.seated_cell import Entered, SeatedCell
from understudy.actors.run_view.errors import DEFAULT_MEMORY_TIMEOUT, cancelled, step_timeout
from understudy.actors.run_view.view import AgentRunView
from understudy.actors.stores.database import may_pass
from understudy.actors.threads.promise import Promise
from understudy.actors.waiting.awaited import link_of_thing
from understudy.actors.waiting.graph import graph
from understudy.diagnostics import emit
from understudy.errors import AgentDown, RunError, RunTimedOut, UnderstudyError, in_words
from understudy.orchestration.definitions.method_checks import fault_of_memory
from understudy.orchestration.supervision.call_time import GRACE
from understudy.orchestration.supervision.restarts import RunsInARow, decide
from understudy.vocabulary.actors.system_events import ActorFailed, ActorGivenUp, ActorRestarted, LostBecause
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.runs.memory import (
    ConversationKey,
    InMemoryMemory,
    Memory,
    MemoryLike,
    WindowedMemory,
    makes_memory,
    never_blocks,
)

from .persistent import PersistentMemory, in_system, persistent_in

if TYPE_CHECKING:
    from understudy.actors.stores.store import Store
    from understudy.vocabulary.context.ancestry import Link
    from understudy.vocabulary.runs.memory import ConversationKey


def key_of(memory: MemoryLike) -> object:
    """Return the key of a memory among actors: its identity, because a user's memory need not be hashable.

    A bound method is a new object at each look-up, so its key is the method itself, which compares by value.
    """
    return memory if isinstance(memory, MethodType) else id(memory)


class MemoryOrigin:
    """Makes the object of a memory's actor, if it was not given.

    Args:
        memory: what the agent was given.
        store: the system's, for a memory without one of its own.

    Attributes:
        given: the object that a restart keeps; None for one that is made.
        is_quick: whether it is a memory of this package, which never blocks; it is there from the start.
        persistent: the memory in a store, if it is one or a window of one. Its store is opened at the first message.
        name: what the address ends with.
    """

    __slots__ = ("_make", "given", "is_quick", "key", "name", "persistent")

    def __init__(self, memory: MemoryLike, store: Store) -> None:
        self.key = memory
        """Kept, so that nothing else gets its identity."""
        self._make: Callable[[], object] | None = None
        self.given: Memory | None = None
        kind: type[object] = memory if isinstance(memory, type) else type(memory)
        is_class = isinstance(memory, type)
        self.is_quick = kind in (InMemoryMemory, WindowedMemory) if is_class else never_blocks(memory)
        self.persistent: PersistentMemory | None = PersistentMemory() if memory is PersistentMemory else None
        if not is_class:
            self.persistent = persistent_in(memory)
        if self.persistent is not None:
            kept = self.persistent if is_class else cast(Memory, memory)
            self._make = partial(in_system, kept, store)
        elif not makes_memory(memory):
            self.given = cast(Memory, memory)
        elif self.is_quick:
            self.given = memory()
        else:
            self._make = memory
        made_by_user = self._make is not None and self.persistent is None
        name = kind.__name__ if not made_by_user else str(getattr(memory, "__name__", kind.__name__))
        self.name = name if name.isidentifier() else "memory"

    @property
    def takes_many(self) -> bool:
        """Whether any number of threads may use the object at once."""
        return self.is_quick or self.persistent is not None

    def make(self) -> Memory:
        """Return a new object. What its class or function raises is raised.

        Raises:
            WrongReturn: it is no memory.
        """
        assert self._make is not None
        made = self._make()
        if isinstance(made, type) or not isinstance(made, Memory):
            raise WrongReturn(
                f"{self.name}, given as memory, must make an object with load(), append() and clear(), "
                f"got {found_instead(made)}"
            )
        if persistent_in(made) is not None:
            raise WrongReturn(
                f"{self.name}, given as memory, made a {type(made).__name__}: give the object itself, which opens its store "
                "at the first use, so that runs can be granted their conversations there"
            )
        if fault := fault_of_memory(made):
            raise WrongReturn(f"{self.name}, given as memory, made a {type(made).__name__}, which {fault}")
        return made


class Restarted(Protocol):
    """The actor that is supervised."""

    restarts: int

    @property
    def address(self) -> str:
        """Its name."""
        ...


class MemoryRestarts:
    """Restarts one memory after a failure, or gives it up for as long as nothing succeeds.

    Args:
        actor: the memory's.
        events: where failures and restarts are told.
    """

    __slots__ = ("_actor", "_budget", "_events", "_failed", "_lock", "given_up")

    def __init__(self, actor: Restarted, events: EventStream) -> None:
        self._actor = actor
        self._events = events
        self._lock = threading.Lock()
        """Guards the rest: a memory in a store handles many messages at once."""
        self._budget = RunsInARow()
        self._failed = False
        """Whether it has failed since the last message that succeeded."""
        self.given_up = False
        """Whether it failed in too many conversations in a row."""

    def failed(
        self, cause: BaseException, message: object, conversation: ConversationKey, link: Link, *, again: bool
    ) -> None:
        """Decide about a failure.

        Args:
            cause: what the memory raised.
            message: the message that failed; None if no object could be made.
            conversation: what the message was about.
            link: the run that sent the message.
            again: whether a restart may help.
        """
        address = self._actor.address
        values = values_of_run(link) | {"actor": address}
        text = "%s did not start: %s" if message is None else "%s failed: %s"
        emit(WARNING, "actor_failed", values, text, address, in_words(cause), exc_info=cause)
        if self._events.wants(ActorFailed):
            name = "" if message is None else type_name(message)
            self._events.publish(ActorFailed(address=address, error=cause, message_type=name))
        if not again:
            return
        with self._lock:
            if self.given_up:
                return
            self._failed = True
            restarts = decide("restart", "transient", self._budget, time.monotonic(), repr(conversation)) == "restart"
            self.given_up = not restarts
        if restarts:
            self._restart()
        elif self._events.wants(ActorGivenUp):
            self._events.publish(ActorGivenUp(address=address, reason=cause))

    def worked(self) -> None:
        """Note that a message was handled."""
        if not self._failed:
            return
        with self._lock:
            self._failed = False
            self._budget.worked()
            was_given_up, self.given_up = self.given_up, False
        if was_given_up:
            self._restart()

    def _restart(self) -> None:
        with self._lock:
            self._actor.restarts += 1
            restarts = self._actor.restarts
        if self._events.wants(ActorRestarted):
            self._events.publish(ActorRestarted(address=self._actor.address, epoch=restarts, restarts=restarts))


T = TypeVar("T")


class MemoryRaised(Exception):
    """A memory failed in its own code, and the run may do the step again.

    Attributes:
        cause: what it raised.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class MemoryMessage(Generic[T]):
    """A message of a run to a memory.

    Attributes:
        key: of the conversation.
        use: does the work with the memory's object, and returns the result for the run.
        begun: when its turn began, or the message was made, on the monotonic clock.
        gives_up_at: until when its turn is waited for; infinite before the turn.
    """

    __slots__ = ("begun", "gives_up_at", "key", "use")

    def __init__(self, key: ConversationKey, use: Callable[[Memory], T]) -> None:
        self.begun = time.monotonic()
        self.gives_up_at = inf
        self.key = key
        self.use = use


class Load(MemoryMessage[T]):
    """Load what is known of a conversation."""

    __slots__ = ()


class Append(MemoryMessage[T]):
    """Add a turn to a conversation."""

    __slots__ = ()


class Clear(MemoryMessage[T]):
    """Forget what a user said; `key` names no conversation."""

    __slots__ = ()


AnyMessage: TypeAlias = MemoryMessage[Any]


class MemoryUser(AgentRunView, Protocol):
    """A run that uses a memory."""

    def begin_step(self, epoch: int, doing: str, deadline: float = inf) -> None:
        """Say what the work that holds `epoch` is about to do, and until when; raises `Stale` to any other."""
        ...

    @property
    def waits_for_store(self) -> bool:
        """Whether the run asks again when a store fails."""
        ...

    def through_outage(self, epoch: int, do: Callable[[], T]) -> T:
        """Return what `do` returns, which asks a store, also if it fails at first; for the work that holds `epoch`."""
        ...


class MemoryActor(SeatedCell[AnyMessage]):
    """The actor of one memory in one system.

    Args:
        address: its name.
        origin: the memory: an object, which a restart keeps, or a class or function that makes one.
        id: its name in the path of a cycle.
        events: where its dead letters, failures and restarts are told.

    Attributes:
        is_quick: whether the memory is one of this package that never blocks: it has a lock of its own, so any number of
            messages may be in hand, and none waits.
    """

    __slots__ = ("_link", "_memory", "_origin", "_restarts", "is_quick")
    accepts = "loads and appends from runs of agents, and no messages by a reference"

    def __init__(self, address: str, origin: MemoryOrigin, id: str, events: EventStream) -> None:
        self.is_quick = origin.is_quick
        super().__init__(address, None if self.is_quick or origin.takes_many else 1, events)
        self._origin = origin
        self._memory: Memory | None = origin.given
        """The object; None before the first message and after a failure, if it is made."""
        self._restarts = MemoryRestarts(self, events)
        self._link = link_of_thing(id)

    @property
    def persistent(self) -> PersistentMemory | None:
        """The memory, if it is in a store."""
        return self._origin.persistent

    @property
    def state(self) -> str:
        return "down" if self.is_down and not self.closed else super().state

    @property
    def is_down(self) -> bool:
        """Whether it failed too often: no step is done again by the run it fails in, until one succeeds."""
        return self._restarts.given_up

    def call_quickly(self, message: MemoryMessage[T]) -> T:
        """Have a memory that never blocks handle a message, on this thread and without a lock.

        Raises:
            AgentDown: the system has stopped.
        """
        if not self.take_turn(message):
            refused: list[LostBecause] = []
            self.enter(message, _nothing, refused.append)
            raise AgentDown(f"{self.address} has stopped", actor=self.address)
        fate = FAILED
        try:
            memory = self._memory
            assert memory is not None, "a memory that never blocks is there from the start"
            value = message.use(memory)
            fate = HANDLED
            return value
        finally:
            if fate is FAILED:
                self.restarts += 1
            self.leave(message, fate)

    def call(self, record: MemoryUser, epoch: int, doing: str, message: MemoryMessage[T]) -> T:
        """Have the memory handle a message on this thread, the work's, when its turn comes.

        Raises:
            MemoryRaised: it failed in its own code, and was restarted or given up.
            Stale: the run is over or in other hands; if that is so before the turn comes, nothing was done.
            CircularAgentCall: the run that uses the memory waits for this run.
            RunError: the run is to end, or a run that the memory began for itself has ended so.
            AgentCrashed: the time is over.
            AgentDown: the system has stopped, or a call that has not come back holds the memory.
            StoreError: the store of the memory failed, and the run can wait for it.
        """
        until = time.monotonic() + DEFAULT_MEMORY_TIMEOUT
        record.begin_step(epoch, doing, until + GRACE)
        message.gives_up_at = inf
        at_once, fate = self.take_turn(message), CANCELLED
        if not at_once:
            self._await_turn(message, record, until)
        try:
            if not at_once:
                record.begin_step(epoch, doing, until + GRACE)
            message.begun = time.monotonic()
            message.gives_up_at = message.begun + DEFAULT_MEMORY_TIMEOUT + GRACE
            fate = FAILED
            wait = graph.begin(self._link, record.link, None)
            try:
                value = self._use(record, until, message)
            finally:
                graph.end(wait)
            fate = HANDLED
            return value
        finally:
            self.leave(message, fate)

    def _use(self, record: MemoryUser, until: float, message: MemoryMessage[T]) -> T:
        """Take the turn of a message, and supervise the memory; only for the message that has the seat."""
        token = enter_scope(Scope(until, time.monotonic, parent=record.scope))
        try:
            memory = self._memory
            if memory is None:
                memory = self._memory = self._origin.make()
            value = message.use(memory)
        except RunTimedOut as error:
            if record.scope.remaining() == 0.0:
                raise
            raise step_timeout(record) from error
        except RunError:
            raise
        except BaseException as error:
            if record.scope.cancelled:  # the run is over, and the memory was told to stop
                raise
            if record.waits_for_store and self.persistent is not None and may_pass(error):  # the memory is not at fault
                raise
            cause = _as_own(record, error)
        else:
            self._restarts.worked()
            return value
        finally:
            leave_scope(token)
        again, at_start = not isinstance(cause, WrongReturn), self._memory is None
        if again:
            self._memory = self._origin.given
        self._restarts.failed(cause, None if at_start else message, message.key, record.link, again=again)
        raise MemoryRaised(cause)

    # --- waiting for a turn

    def _await_turn(self, message: AnyMessage, record: MemoryUser, until: float) -> None:
        turn: Promise[None] = Promise()

        def lose(reason: LostBecause) -> None:
            turn.fail(self._lost(record, reason))

        self.give_up_hung()
        entered = self.enter(message, partial(turn.set, None), lose, until)
        if entered is Entered.NOW:
            return
        if entered is Entered.LATER:
            self._look_before(min([each.gives_up_at for each in list(self._open)], default=inf))
        forget = record.scope.on_cancel_at_once(lambda: turn.fail(cancelled(record)))
        try:
            with graph.waiting(current_ancestry(), self._link):
                turn.wait()
            turn.get()
        except BaseException:
            if not self.withdraw(message):
                self.leave(message, CANCELLED)  # its turn has come in this moment
            raise
        finally:
            forget()

    def _lost(self, record: MemoryUser, reason: LostBecause) -> UnderstudyError:
        if reason == "expired":
            return step_timeout(record)
        what = {
            "stopped": "has stopped",
            "given_up": "is held by a call that did not come back in time",
        }.get(reason, "has no thread to look after a message that waits")
        return AgentDown(f"{self.address} {what}", actor=self.address)

    # --- turns that take too long

    def give_up_hung(self) -> None:
        now = time.monotonic()
        for message in list(self._open):
            if message.gives_up_at <= now:
                self.give_up(message)

    def expire(self) -> None:
        self.give_up_hung()
        super().expire()


def _nothing() -> None:
    """Begin no turn: the message is refused."""


def _as_own(record: MemoryUser, error: BaseException) -> BaseException:
    """Return an error of a memory; one of ours is wrapped, because the run would take it for its own."""
    if not isinstance(error, UnderstudyError):
        return error
    own = RuntimeError(f"the memory of agent {record.agent.id!r} failed: {in_words(error)}")
    own.__cause__ = error
    return own
