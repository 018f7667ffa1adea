"""`ActorSystem`: the actors of one part of an application, and the system that the code of a context runs inside of."""

from __future__ import annotations

import secrets
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast, overload

from understudy.actors.actor.actor import Actor
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.actor.ref import ActorRef
from understudy.actors.actor.supervisor_ref import SupervisorRef
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.subscriptions import Subscription
from understudy.actors.runs.ownership import AbandonedWork
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_handle import Handle
from understudy.actors.stores.inspection.stored_runs import StoredRuns
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.store import Store
from understudy.actors.threads.forked import Stage, at_fork
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.supervision.restarts import OneForOne
from understudy.orchestration.supervision.supervisor import Child, Supervisor
from understudy.vocabulary.actors.messages import DEFAULT_CAPACITY, Mailbox
from understudy.vocabulary.actors.system_events import DeadLetter, SystemEvent
from understudy.vocabulary.checks import checked_flag, checked_text, checked_wait, checked_whole
from understudy.vocabulary.context.ancestry import DEFAULT_MAX_HOPS
from understudy.vocabulary.other_names import OF_SYSTEMS, explains_arguments
from understudy.vocabulary.runs.conversations import Erased
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.memory import begin_anew_in_child
from understudy.vocabulary.runs.pause_store import PauseStore
from understudy.vocabulary.runs.stored_runs import ChangedRun, LeftRun, WaitingRun

from .agent_ref import AgentRef
from .argument_checks import (
    LEASE,
    STORE_PATIENCE,
    check_actor,
    check_kinds,
    check_subscriber,
    check_supervisor,
    checked_lease,
    checked_map_name,
    checked_max_runs,
    checked_name,
    checked_patience,
    checked_recovering,
    refuse_arguments,
)
from .directory import Directory, Maker, StartRun
from .health import ActorFigures, Health, figures, health_of, tree_of
from .pykka_registry import RegistryEntries
from .recovery.parked_runs import ParkedRuns
from .recovery.recoveries import Recoveries
from .run_manager import RunManager, RunSettings, owners_in
from .shutdown import shut_down
from .stored_run_handle import StoredRunHandle

M = TypeVar("M")
T = TypeVar("T")
E = TypeVar("E", bound=SystemEvent)
F = TypeVar("F", bound=SystemEvent)


@explains_arguments("ActorSystem", OF_SYSTEMS)
class ActorSystem:
    """Agents as actors, and their runs. Safe to use from any thread.

    A run uses the system it is called inside of, else the one passed as `system=`, else the default one, which comes
    into being at the first run of each process. Nothing needs to be stopped: all threads are daemons.

    Args:
        name: names the system in addresses and errors.
        store: where paused runs are kept: "sqlite:///shop.db" (a file, made if it is not there; opened now, which blocks
            for up to 5 s if it is locked), an object like `PauseStore`, or "memory:" or None for this process only.
        max_runs: how many runs may be under way at once, paused ones not counted; more wait, without a thread, for a
            place. Runs that are begun inside of runs or actors are always admitted. None for any number.
        max_hops: how many runs may have led to a run, each begun inside of the one before it or by an actor that handled a
            message of it, waited for or not; the next one is refused with a `RunError`.
        require_user: refuse, with a `ValueError`, a run of an agent with a memory that has a `conversation_id` and no
            `user_id`: without one, all users would share the conversation. For systems that serve several people.
        registry: put spawned actors and agents into `pykka.ActorRegistry` until they stop. Its `stop_all` stops them
            too, and Pykka calls that when an actor of bare Pykka raises `SystemExit` or `KeyboardInterrupt`.
        journal: have runs written into a durable store while they are under way, so that `recover` can go on with them in
            another process. It costs two short transactions for each round of tool calls.
        recover: `"always"`: the system looks each 250 ms for runs of its name whose processes died, and goes on with them as the method
            `recover` does. It begins with `with system:`, `start()` or the first run of this process, and ends when it is stopped. After a
            fork it rests in the parent until the next run there, or `start()`. None: only that method does.
        lease: seconds, at least 1, without a sign of life after which other systems with `recover="always"` take the runs of this
            process for left, although the operating system says that the process is there: it is frozen, or cut off.
        store_patience: seconds, 0 or more, for which a run that was accepted asks a durable store that fails again. Then its
            caller gets a `StoreError` with the `run_id`, and the run is left: `recover` goes on with it.
        deps, runners, adopt, migrate: with `recover="always"`, as for the method `recover`.

    Raises:
        ValueError: the name is empty, `store` names no store, `max_runs`, `max_hops` or `lease` is below 1, `store_patience`
            is below 0, or `recover` is "always" and there is no durable store or no journal, or both `adopt` and `migrate` are given.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        name: str = "understudy",
        *,
        store: str | PauseStore | Store | None = None,
        max_runs: int | None = None,
        max_hops: int = DEFAULT_MAX_HOPS,
        require_user: bool = False,
        registry: bool = False,
        journal: bool = True,
        lease: float = LEASE,
        store_patience: float = STORE_PATIENCE,
        recover: Literal["always"] | None = None,
        deps: Callable[[LeftRun], object] | None = None,
        runners: Iterable[Runner[Any]] = (),
        adopt: bool = False,
        migrate: Callable[[ChangedRun], str | None] | None = None,
    ) -> None:
        self.name = checked_name(name)
        self._recovering = checked_recovering(recover, deps, runners, adopt, migrate)
        has_journals = checked_flag("journal", journal)
        self._settings = RunSettings(
            app=name,
            max_runs=checked_max_runs(max_runs),
            max_hops=checked_whole("max_hops", max_hops, 1),
            require_user=checked_flag("require_user", require_user),
            lease=checked_lease(lease),
            store_patience=checked_patience(store_patience),
            store=(opened := open_store(store)),
            owners=owners_in(opened, journal=has_journals),
        )
        self._events = EventStream(name)
        hung = AbandonedWork(self._events)
        self._registry = RegistryEntries(self) if checked_flag("registry", registry) else None
        entered = None if self._registry is None else self._registry.add
        self._directory = Directory(
            name, Maker, hung.give_up, self._events, lambda: self._runs.is_inside_run(), entered
        )
        self._runs = self._new_runs(hung)
        self._recoveries = self._new_recoveries()
        _systems[id(self)] = self
        self._recoveries.await_first_run()

    def _new_runs(self, hung: AbandonedWork) -> RunManager:
        # Ids are unique over processes without a random number per run; over those of all times, if a store has them all.
        unique = secrets.token_hex(4 if self._settings.store.pauses is None else 8)
        prefix = f"{self.name}-{unique}"
        return RunManager(prefix, self._start_run, self._directory, self._events, hung, self._settings)

    def _new_recoveries(self) -> Recoveries:
        return Recoveries(self._runs, lambda: self._directory.agents, self._recovering, partial(inside, self))

    def _leave_to_parent(self) -> None:
        """Make new parts, in a forked child, for those with a lock, a thread or a run; actors spawned before are the parent's."""
        self._events.begin_anew()
        if self._registry is not None:
            self._registry.leave_to_parent()
        for unit in self._directory.units:
            unit.stay_in_parent()
        hung = AbandonedWork(self._events)
        self._directory = self._directory.in_child(hung.give_up)
        self._runs.is_of_parent = True
        self._runs = self._new_runs(hung)
        self._recoveries = self._new_recoveries()
        if not self._directory.closed:
            self._recoveries.await_first_run()

    def start(self) -> None:
        """Have a system with `recover="always"` look for runs that were left, from now on; any other one needs no start.

        `with system:` and the first run of this process do the same. Call it in each process that is to look and may have no run of
        its own, such as a worker of a web server after its fork. Another call does nothing, but after a fork in this process, when the
        system rests until its next run, it looks again.

        Raises:
            AgentDown: the system has stopped, or no thread can be started.
        """
        self._directory.refuse_if_closed()
        self._recoveries.begin()

    def runner_of(self, token: str) -> str:
        """Return the id of the runner whose run waits under a token, which is not used up; blocks for the store, if there is one.

        Raises:
            UnknownToken: no run waits here under this token.
            TokenUsed: someone was first.
            StoreError: the store failed.
        """
        return self._runs.paused.runner_of(token)

    def recover(
        self,
        *,
        deps: Callable[[LeftRun], object] | None = None,
        runners: Iterable[Runner[Any]] = (),
        adopt: bool = False,
        migrate: Callable[[ChangedRun], str | None] | None = None,
        run_ids: Iterable[str] | None = None,
    ) -> list[RunHandle[object]]:
        """Go on with the runs of this system's name whose processes died, each from its last finished step.

        Call it when the process starts, after everything is spawned. Of several processes that do so, each run goes on in
        one. A finished tool call is never made again. A call that was under way is made again if its tool is
        `idempotent`; its tool is asked if it has `reconcile`; otherwise the run pauses, and a person decides.

        A run whose agent is not known here, or whose definition has changed, is left as it is, and the log says why.
        Returns when all runs have begun to go on. Blocks for the store.

        Args:
            deps: returns the dependencies of a run, for they are never saved; if None, that of the constructor does.
            runners: agents, groups and workflows beside those that were spawned and those of the constructor.
            adopt: go on with runs of another definition than the present one too. Without it and without `migrate`, those of the
                constructor hold.
            migrate: returns the state with which a run of another definition goes on, or None to leave it. It is asked for
                the run and for each run under way inside of it that has changed, and maybe more than once.
            run_ids: go on with these runs only, also with one that 50 processes have died of.

        Returns:
            A handle for each run that goes on here.

        Raises:
            ValueError: the system has no durable store or no journal, both `adopt` and `migrate` are given, or two different
                runners have one id.
            StoreError: the store failed before any run went on. If it fails later, the others are left for another call, and
                the log says so.
            AgentDown: the system has stopped.
        """
        self._directory.refuse_if_closed()
        with inside(self):
            records = self._recoveries.recover(deps, runners, run_ids, adopt=adopt, migrate=migrate)
            if records:
                self._recoveries.begin()
            return [Handle(record) for record in records]

    def handle(self, run_id: str) -> StoredRunHandle:
        """Return a handle to a run of this system's name, of whatever process: where it stands, what it waits for, `cancel()`.

        Blocks for the store.

        Raises:
            KeyError: the store has no such run.
            ValueError: the system has no durable store or no journal.
            StoreError: the store failed.
        """
        journals, store = self._runs.journaling.journals_for("handle"), self._settings.store
        assert store.database is not None, "a journal is in a database"
        runs = StoredRuns(store.database, store.locks, is_driven=journals.is_driven)
        handle = StoredRunHandle(checked_text("run_id", run_id), runs, self._runs)
        handle.status()
        return handle

    def pending(self) -> list[WaitingRun]:
        """Return the runs of this system's name that wait for somebody: for a person, or for `resume` after an error.

        With a durable store these are the runs of all its processes, in the order of their ids. Blocks for the store. A store of a
        user's own cannot be listed; then the list is empty. The list has no questions and calls: `handle(run_id).pauses()`
        has those of one run.

        Raises:
            StoreError: the store failed.
        """
        return self._runs.paused.waiting()

    def forget_map(self, name: str) -> int:
        """Forget a map that keeps its results; the next one of this name begins with nothing. Blocks for the store.

        Runs of it that were left, or wait for a person, stay as they are: `recover` and `pending` have them.

        Returns:
            How many results it had; 0 if there is no such map.

        Raises:
            MapInUse: it is under way.
            ValueError: the system has no durable store or no journal.
            StoreError: the store failed.
        """
        return self._runs.journaling.maps_for("forget_map").forget(checked_map_name(name))

    def erase(self, user_id: str) -> Erased:
        """Remove all that is kept of a user under this system's name. Blocks for the stores.

        These are the results of maps with a name, the turns and summaries of all conversations, the `user:` values and those of the conversations, and paused runs, in the
        store of the system, in stores of memories that agents have here, and in this process. Runs of the user in other
        processes lose their conversations, so that nothing of them is stored.

        Args:
            user_id: `"default"` for runs without one.

        Returns:
            How much was removed.

        Raises:
            RuntimeError: runs of the user are under way in this system.
            ValueError: `user_id` is empty.
            StoreError: a store failed; another call goes on.
        """
        if not checked_text("user_id", user_id):
            raise ValueError("user_id must not be empty; runs without one are those of 'default'")
        return self._runs.erase(user_id)

    # --- actors

    @overload
    def spawn(self, actor: Runner[T], *, strategy: OneForOne | None = None) -> AgentRef[T]: ...
    @overload
    def spawn(
        self,
        actor: Callable[[], Actor[M]],
        *,
        name: str | None = None,
        mailbox: Mailbox | None = None,
        strategy: OneForOne | None = None,
        turn_timeout: float | None = None,
    ) -> ActorRef[M]: ...
    @overload
    def spawn(self, actor: Supervisor) -> SupervisorRef: ...
    def spawn(
        self,
        actor: Callable[[], Actor[M]] | Runner[T] | Supervisor,
        *arguments: object,
        name: str | None = None,
        mailbox: Mailbox | None = None,
        strategy: OneForOne | None = None,
        turn_timeout: float | None = None,
        **options: object,
    ) -> ActorRef[M] | AgentRef[T] | SupervisorRef:
        """Start an actor, an agent's or your own, or a supervisor with its children; return its reference at once.

        Actors start on threads of their own, the children of a supervisor one after another. An agent that was spawned
        before is not spawned again: the reference is to the one that is there.

        Args:
            actor: a class, or a function that makes the object and is called again for each restart; or an agent; or a
                supervisor.
            name: unique in the system; made from the class's name if not given. An agent's is its id.
            mailbox: how many messages may wait, and what happens to one more.
            strategy: how many failures of the actor are borne before it is given up.
            turn_timeout: seconds in which a message must be handled. Then it fails, its object is left to the thread that
                hangs, and a new one goes on; None waits for ever.

        Raises:
            ValueError: an actor of that name is there already, or an agent of that id which is defined in another way.
            TypeError: `actor` makes no actor, or an option has a wrong type, or is not one of these.
            AgentDown: the system has stopped.
        """
        refuse_arguments(actor, arguments, options)
        if isinstance(actor, Supervisor):
            check_supervisor(actor, name, mailbox, strategy, turn_timeout)
            return SupervisorRef(self._directory.add_group(actor))
        check_actor(actor, name, strategy)
        box = mailbox if mailbox is not None else Mailbox()
        child = Child(actor, name or "", mailbox=box, turn_timeout=turn_timeout)
        cell = self._directory.add(child, strategy)
        return ActorRef(cell) if child.runner is None else AgentRef(self, cast("Runner[T]", child.runner), cell)

    def find(self, name: str) -> ActorRef[object]:
        """Return the reference of your own actor `name`.

        Raises:
            KeyError: there is none; the message names those there are.
        """
        cell = self._directory.get(name)
        if cell is None or name in self._directory.agents:
            there = ", ".join([n for n in self._directory.names if n not in self._directory.agents])
            raise KeyError(f"system {self.name!r} has no actor {name!r}; it has: {there or 'none'}")
        return ActorRef(cell)

    def ref(self, id: str) -> AgentRef[Any]:
        """Return the reference of the agent that was spawned under `id`.

        Raises:
            KeyError: there is none; the message names those there are.
        """
        agent = self._directory.agents.get(id)
        if agent is None:
            raise KeyError(
                f"system {self.name!r} has no agent {id!r}; it has: {', '.join(self._directory.agents) or 'none'}"
            )
        return AgentRef(self, agent, self._directory.cell_of(agent))

    def health(self) -> Health:
        """Return figures of all actors and runs; waits for nothing, whatever they are doing."""
        from understudy.providers import limit_figures

        runs = [record.status() for record in self._runs.in_flight()]
        agents = self._directory.agents_by_cell()
        actors = [self._figures(cell, agents.get(cell, ())) for cell in self._directory.cells]
        hung, store = self._runs.hung.count(), self._settings.store.figures()
        parked, why_not = self._recoveries.parked.told(), self._recoveries.why_not
        waits = self._runs.outage.lasts_for
        return health_of(actors, runs, hung, self._events, store, waits, parked, limit_figures(), why_not)

    def _figures(self, cell: ActorCell, agents: Sequence[Agent[object]]) -> ActorFigures:
        tools = [tool for agent in agents for tool in agent.tools_by_name.values()]
        memories = dict.fromkeys([self._runs.memories.of(agent) for agent in agents if agent.memory is not None])
        return figures(cell, self._runs.executors.of_all(tools, cell), [each for each in memories if each is not None])

    def tree(self) -> str:
        """Return the actors and runs of the system, as lines of text."""
        return tree_of(self.name, self.health())

    # --- events

    @overload
    def subscribe(
        self, subscriber: Callable[[SystemEvent], object] | ActorRef[SystemEvent], /, *, buffer: int = DEFAULT_CAPACITY
    ) -> Subscription: ...
    @overload
    def subscribe(
        self, subscriber: Callable[[E], object] | ActorRef[E], kind: type[E], /, *, buffer: int = DEFAULT_CAPACITY
    ) -> Subscription: ...
    @overload
    def subscribe(
        self,
        subscriber: Callable[[E | F], object] | ActorRef[E | F],
        kind: type[E],
        other: type[F],
        /,
        *,
        buffer: int = DEFAULT_CAPACITY,
    ) -> Subscription: ...
    @overload
    def subscribe(
        self,
        subscriber: Callable[[SystemEvent], object] | ActorRef[SystemEvent],
        /,
        *kinds: type[SystemEvent],
        buffer: int = DEFAULT_CAPACITY,
    ) -> Subscription: ...
    def subscribe(
        self,
        subscriber: Callable[..., object] | ActorRef[Any],
        /,
        *kinds: type[SystemEvent],
        buffer: int = DEFAULT_CAPACITY,
    ) -> Subscription:
        """Tell `subscriber` of the events in this system, from now on; the events of one actor come in order.

        The system does not wait for it: a function is called with one event after another on a thread of its own, and an
        actor gets them as messages, until it stops. Exceptions of a function are logged. In a forked child, functions stay
        subscribed.

        Args:
            subscriber: a function of an event; or an actor, which is told nothing about itself.
            kinds: classes of events; all, if there is none.
            buffer: how many events may wait for a function; for an actor, it is its mailbox. More are lost, and counted.

        Returns:
            The subscription, whose `cancel()` ends it, as does the end of a `with` block.

        Raises:
            AgentDown: the system has stopped.
        """
        check_kinds(kinds)
        self._directory.refuse_if_closed()
        if isinstance(subscriber, ActorRef):
            ref = cast("ActorRef[object]", subscriber)
            return ref.hear(self._events, kinds or (SystemEvent,))
        check_subscriber(subscriber, buffer)
        return self._events.subscribe(self._events.inbox_for(subscriber, buffer), kinds or (SystemEvent,))

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Return the last 100 messages that no actor handled, the oldest first; `health()` has their number."""
        return self._events.letters.last()

    # --- runs, and the end

    def _start_run(self, record: RunRecord, epoch: int, last: bool) -> None:
        record.started_in.run(entered.set, self)
        record.cell.tell(StartRun(record, epoch), on_lost=record.lost, last=last)

    def stop(self, timeout: float = 10.0) -> tuple[str, ...]:
        """Refuse new work, let runs end and actors stop for up to `timeout` seconds in all, and give up on the rest.

        Runs under way may begin runs inside of them until then. Those that are not over end with `RunCancelled`; with a store
        they are left there, for its token or for `recover`. A store that hangs is waited for a second more.
        Runs come first, then the actors, the last one spawned first, then subscribers that have events to hear. A second
        call does nothing. A Ctrl-C gives up on all at once and is raised again. A handler of a signal must not call it, but may
        begin a thread that does: the handler interrupts the main thread, which may hold a lock.

        Returns:
            The ids of runs that were cancelled, and the addresses of actors that did not stop in time; each of these
            actors still holds a thread.
        """
        if timeout is None:
            raise TypeError("stop: timeout must be a number of seconds, got None")
        checked_wait("stop", timeout)
        deadline = time.monotonic() + timeout
        self._recoveries.end()
        if not self._directory.close():
            return ()
        try:
            return self._end(deadline)
        except BaseException:  # a Ctrl-C: the caller waits no longer, and a second call would do nothing
            self._end(time.monotonic())
            raise

    def _end(self, deadline: float) -> tuple[str, ...]:
        stopped = shut_down(self.name, self._runs, self._directory, self._registry, self._events, deadline)
        self._recoveries.wait(deadline)
        self._settings.store.rest()
        return stopped

    @property
    def in_flight(self) -> int:
        """How many runs are under way."""
        return len(self._runs.in_flight())

    @property
    def hung(self) -> int:
        """How many tool calls and model calls were given up and have not come back; each holds a thread."""
        return self._runs.hung.count()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0 if error is not None else 10.0)

    def __repr__(self) -> str:
        return f"ActorSystem({self.name!r})"


def runs_of(system: ActorSystem) -> RunManager:
    """Return the manager of a system's runs; for the runtime, not for users."""
    return system._runs  # pyright: ignore[reportPrivateUsage]  # a public name would be one of the users' too


def parked_in(system: ActorSystem) -> ParkedRuns:
    """Return the runs that could not go on in a system; for the runtime too."""
    return system._recoveries.parked  # pyright: ignore[reportPrivateUsage]  # as above


entered: ContextVar[ActorSystem | None] = ContextVar("understudy_system", default=None)
"""The system that the code of this context runs inside of; it is left with the context."""


@contextmanager
def inside(system: ActorSystem) -> Generator[None]:
    """Let the code of the `with` block run inside of `system`."""
    token = entered.set(system)
    try:
        yield
    finally:
        entered.reset(token)


# --- in a forked child, where the parent's threads do not exist and its runs stay the parent's

_systems: weakref.WeakValueDictionary[int, ActorSystem] = weakref.WeakValueDictionary()
"""Identity -> system: all of this process."""


def _all_systems() -> list[ActorSystem]:
    found = [ref() for ref in _systems.valuerefs()]  # in one step: another thread may make a system meanwhile
    return [system for system in found if system is not None]


def _leave_systems() -> None:
    for system in _all_systems():
        system._leave_to_parent()  # pyright: ignore[reportPrivateUsage]  # as above


def _rest_in_parent() -> None:
    for system in _all_systems():
        system._recoveries.rest()  # pyright: ignore[reportPrivateUsage]  # as above


at_fork(Stage.SYSTEMS, begin_anew_in_child)
at_fork(Stage.SYSTEMS, _leave_systems, in_parent=_rest_in_parent)
