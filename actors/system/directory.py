"""Who lives in a system: agents by definition, actors by name, and in which order they came.

An agent's actor starts the agent's runs and never blocks. It has no state of its own to lose. What a restart makes afresh
is what an agent works with: its model lets go of the connections it has.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from sys import maxsize
from typing import TYPE_CHECKING, TypeAlias, cast

from understudy.actors.actor.actor import Actor
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.actor.commands import nothing
from understudy.actors.actor.event_notices import write_start
from understudy.actors.actor.supervisor import SupervisorCell
from understudy.actors.actor.time_limited_cell import LimitedCell
from understudy.actors.cells.dead_letters import ActorDead
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.runs.record import RunRecord
from understudy.actors.threads.pool import Work
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner, below
from understudy.orchestration.supervision.restarts import OneForOne, Restart, RunsInARow
from understudy.orchestration.supervision.supervisor import Child, Supervisor
from understudy.vocabulary.actors.messages import Mailbox
from understudy.vocabulary.models import ModelName, Renewable

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner

ROOM_FOR_RUNS = Mailbox(maxsize)  # The sender of a burst of runs limits it, not the mailbox of the agent.


@dataclass(slots=True)
class StartRun:
    """Start a run, or have it go on, which must still be at `epoch`; no reply."""

    record: RunRecord
    epoch: int = 0


class AgentActor(Actor[StartRun]):
    """Starts one runner's runs. Who is in flight is known to the watchdog of the system's runs.

    Args:
        runner: whose actor this is; it lives for as long as the runner does, and must not keep it alive.
    """

    def __init__(self, runner: weakref.ref[Runner[object]]) -> None:
        self._runner = runner

    def on_receive(self, message: StartRun) -> None:
        if not isinstance(message, StartRun):
            raise TypeError(f"an agent's actor takes StartRun, got {type(message).__name__}")
        # The record refuses it if the run has ended meanwhile.
        message.record.host.drive(message.record, message.epoch, last=True)

    def before_restart(self, error: BaseException, message: object) -> None:
        runner = self._runner()
        if not isinstance(runner, Agent):
            return
        model = runner.current_model
        if isinstance(model, ModelName):
            from understudy.providers import resolve

            model = resolve(model)
        if isinstance(model, Renewable):
            model.renew()


class Maker:
    """Makes the actors that stand for a runner, one after another."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Runner[object]) -> None:
        self._runner = weakref.ref(runner)

    def __call__(self) -> AgentActor:
        return AgentActor(self._runner)


ALONE = OneForOne()  # What holds for an actor that nobody gave a strategy.
Make: TypeAlias = Callable[[], object]
Unit: TypeAlias = "ActorCell | SupervisorCell"
"""What was spawned at once: an actor that stands alone, or a group."""


def _supervisor_of_one(system: str) -> SupervisorCell:
    return SupervisorCell(system, ALONE, budget=RunsInARow(), comes_back=False)


class Directory:
    """The cells of a system. Safe to use from any thread; a cell that it returns has been told to begin.

    Args:
        system: the system's name, with which addresses begin.
        maker: returns what makes the actors that stand for an agent.
        give_up: counts a message that is not waited for any more until its handling comes back.
        events: where what happens to the actors is told.
        is_inside_run: whether the present code is part of a run under way here, which may still begin runs and actors while the
            system stops; under the lock, so it must be quick.
        entered: called with each cell that is spawned, and its agent if it is one; under the lock too.
    """

    def __init__(
        self,
        system: str,
        maker: Callable[[Runner[object]], Make],
        give_up: Callable[[Work], object],
        events: EventStream,
        is_inside_run: Callable[[], bool],
        entered: Callable[[ActorCell, Runner[object] | None], object] | None = None,
    ) -> None:
        self._entered = entered
        self._is_inside_run = is_inside_run
        self._system = system
        self._lone = partial(_supervisor_of_one, system)
        self._maker = maker
        self._give_up = give_up
        self._events = events
        self._lock = threading.Lock()
        """Guards the tables and the end: of what is added while the system stops, either it is stopped or refused.

        No actor's code runs under it, so no thread waits for an actor that hangs.
        """
        self._closed = False
        # By object, not by id: two definitions may bear one id, and a cell goes when its definition is gone.
        self._by_definition: weakref.WeakKeyDictionary[Runner[object], ActorCell] = weakref.WeakKeyDictionary()
        self._by_name: dict[str, ActorCell] = {}
        """What was spawned, in that order; a name is free again when its actor has stopped."""
        self._agents: dict[str, Runner[object]] = {}
        """The agents among them."""
        self._numbers: dict[str, Iterator[int]] = {}
        """Stem of a name -> what to try next behind it."""
        self._units: dict[Unit, int] = {}
        """What was spawned at once, in that order -> how many actors of it have not stopped."""

    def in_child(self, give_up: Callable[[Work], object]) -> Directory:
        """Return the directory of a forked child: agents stay known, for they have no state; an end stays an end."""
        made = Directory(self._system, self._maker, give_up, self._events, self._is_inside_run, self._entered)
        made._agents, made._closed = self._agents, self._closed
        return made

    # --- looking

    def get(self, name: str) -> ActorCell | None:
        """Return the cell of what was spawned under `name`."""
        return self._by_name.get(name)

    @property
    def agents(self) -> Mapping[str, Runner[object]]:
        """The agents that were spawned, by id."""
        return self._agents

    @property
    def names(self) -> list[str]:
        """What was spawned and has not stopped, in that order."""
        return list(self._by_name)

    @property
    def cells(self) -> list[ActorCell]:
        """All cells: of agents that only ran, and of what was spawned."""
        with self._lock:
            return [*self._unspawned(), *self._by_name.values()]

    def _unspawned(self) -> list[ActorCell]:
        """Return the cells of agents that only ran; under the lock, for the table must not change while it is gone through."""
        spawned = set(self._by_name.values())
        return [cell for cell in list(self._by_definition.values()) if cell not in spawned]

    def agents_by_cell(self) -> Mapping[ActorCell, list[Agent[object]]]:
        """Return the agents that each actor stands for; agents that are defined in the same way share one actor."""
        found: dict[ActorCell, list[Agent[object]]] = {}
        with self._lock:
            for runner, cell in list(self._by_definition.items()):
                if isinstance(runner, Agent):
                    found.setdefault(cell, []).append(runner)
        return found

    @property
    def units(self) -> list[Unit]:
        """What was spawned at once and has not stopped, in that order."""
        return list(self._units)

    def address_of(self, agent: Runner[object]) -> str:
        """Return the address of an agent, or the one that it would have."""
        cell = self._by_definition.get(agent)
        return f"{self._system}/{agent.id}" if cell is None else cell.address

    # --- adding

    def cell_of(self, agent: Runner[object]) -> ActorCell:
        """Return the cell of an agent; one that was not spawned gets a cell of its own at its first run.

        Raises:
            AgentDown: the system has stopped.
        """
        cell = self._by_definition.get(agent)
        if cell is not None and not self._closed:
            return cell
        with self._lock:
            self.refuse_if_closed()
            cell = self._by_definition.get(agent)
            if cell is not None:
                return cell
            cell = self._of_runner(agent, self._system, self._lone)
            cell.begin_here()
            self._by_definition[agent] = cell
        write_start(cell.address)  # outside of the lock, because a log handler may look at the system
        return cell

    def add(self, child: Child, strategy: OneForOne | None) -> ActorCell:
        """Add an actor that stands alone, and those of an agent's sub-agents; of what is here already, the cells it has.

        Raises:
            ValueError: something else has that name, or that of a sub-agent.
            AgentDown: the system has stopped.
        """
        rules = strategy if strategy is not None else ALONE
        with self._lock:
            self.refuse_if_closed()
            if self._known(child) is None and child.name in self._by_name:
                raise self._taken(child.name)
            below = self._below([child])
            begun = self._all_alone([child, *below], rules)
            cell = self._by_name[child.name] if child.name else begun[0]
        for each in begun:
            each.begin(0.0, nothing)
        return cell

    def _all_alone(self, children: Iterable[Child], strategy: OneForOne) -> list[ActorCell]:
        """Add what is not here yet, each without a group, and return the new cells; their names must be free."""
        begun: list[ActorCell] = []
        for child in children:
            if self._known(child) is None:
                budget = RunsInARow() if child.runner is not None and strategy is ALONE else None
                family = SupervisorCell(self._system, strategy, budget=budget, comes_back=child.runner is None)
                begun.append(self._enter(child, self._system, family))
                family.members.append(begun[-1])
        return begun

    def _below(self, children: Sequence[Child]) -> list[Child]:
        """Return the sub-agents of `children`, at any depth; raises `ValueError` if something else has the id of one."""
        found = children_below(children)
        for child in found:
            if self._known(child) is None and child.name in self._by_name:
                raise self._taken(child.name)
        return found

    def add_group(self, supervisor: Supervisor) -> SupervisorCell:
        """Add a supervisor and its children; the sub-agents of these stand alone.

        Raises:
            ValueError: something else has the name of the group, of a child, or of a sub-agent.
            AgentDown: the system has stopped.
        """
        with self._lock:
            self.refuse_if_closed()
            self._refuse_twin(supervisor)
            names, below = self._names_of(supervisor), self._below(list(supervisor.everyone()))
            family = self._family(supervisor, self._system, None, names | {child.name for child in below})
            begun = self._all_alone(below, ALONE)
        family.begin(0.0, nothing)
        for cell in begun:
            cell.begin(0.0, nothing)
        return family

    def _taken(self, name: str) -> ValueError:
        return ValueError(f"system {self._system!r} has an actor {name!r} already; stop it first, or take another name")

    def _known(self, child: Child) -> ActorCell | None:
        """Return the cell of an agent that was spawned before under its id, if the definitions are equal."""
        agent, before, cell = child.runner, self._agents.get(child.name), self._by_name.get(child.name)
        if agent is None or before is None or cell is None:
            return None
        if before is not agent and before.fingerprint() != agent.fingerprint():
            raise ValueError(
                f"system {self._system!r} has an agent {agent.id!r} already, and it is defined in another way; "
                "stop that one first, or take another id"
            )
        self._by_definition[agent] = cell
        return cell

    def _refuse_twin(self, supervisor: Supervisor) -> None:
        """Refuse a group whose name one has whose actors have not all stopped."""
        address = f"{self._system}/{supervisor.id}"
        if any(isinstance(unit, SupervisorCell) and unit.name == address for unit in self._units):
            raise ValueError(
                f"system {self._system!r} has a supervisor {supervisor.id!r} already; stop it first, or take another name"
            )

    def _names_of(self, supervisor: Supervisor) -> frozenset[str]:
        names = [child.name for child in supervisor.everyone() if child.name]
        taken = [name for name in names if name in self._by_name or names.count(name) > 1]
        if taken:
            raise ValueError(
                f"supervisor {supervisor.id!r}: system {self._system!r} would have two actors {taken[0]!r}; "
                "stop the other one first, or take another name"
            )
        return frozenset(names)

    def _family(
        self,
        supervisor: Supervisor,
        path: str,
        parent: SupervisorCell | None,
        claimed: frozenset[str],
        group: SupervisorCell | None = None,
    ) -> SupervisorCell:
        """Make the cells of a supervisor's children, none of which begins yet; under the lock."""
        family = SupervisorCell(f"{path}/{supervisor.id}", supervisor.strategy, parent=parent, events=self._events)
        group = family if group is None else group
        for child in supervisor.children:
            if isinstance(child, Supervisor):
                family.members.append(self._family(child, family.name, family, claimed, group))
            else:
                family.members.append(self._enter(child, family.name, family, claimed, group))
        return family

    def _enter(
        self,
        child: Child,
        path: str,
        family: SupervisorCell,
        claimed: frozenset[str] = frozenset(),
        group: SupervisorCell | None = None,
    ) -> ActorCell:
        name = child.name or self._free_name(getattr(child.actor, "__name__", "actor").lower(), claimed)
        cell = self._make(child, name, path, family)
        self._by_name[name] = cell
        if child.runner is not None:
            self._agents[name] = child.runner
            self._by_definition[child.runner] = cell
        unit = cell if group is None else group
        self._units[unit] = self._units.get(unit, 0) + 1
        cell.stopped.when_done(lambda: self._forget(name, unit))
        if self._entered is not None:
            self._entered(cell, child.runner)
        return cell

    def _of_runner(
        self,
        runner: Runner[object],
        path: str,
        supervisor: SupervisorCell | Callable[[], SupervisorCell],
        restart: Restart = "transient",
    ) -> ActorCell:
        return ActorCell(
            f"{path}/{runner.id}",
            self._maker(runner),
            mailbox=ROOM_FOR_RUNS,
            supervisor=supervisor,
            events=self._events,
            restart=restart,
        )

    def _make(self, child: Child, name: str, path: str, family: SupervisorCell) -> ActorCell:
        if child.runner is not None:
            return self._of_runner(child.runner, path, family, child.restart)
        address, make, mailbox = f"{path}/{name}", cast(Make, child.actor), child.mailbox
        limit, events = child.turn_timeout, self._events
        if limit is None:
            return ActorCell(address, make, mailbox=mailbox, supervisor=family, events=events, restart=child.restart)
        return LimitedCell(
            address,
            make,
            mailbox=mailbox,
            supervisor=family,
            events=events,
            restart=child.restart,
            limit=limit,
            give_up=self._give_up,
        )

    def _forget(self, name: str, unit: Unit) -> None:
        with self._lock:
            self._by_name.pop(name, None)
            self._agents.pop(name, None)
            self._units[unit] -= 1
            if not self._units[unit]:
                del self._units[unit]

    def _free_name(self, stem: str, claimed: frozenset[str]) -> str:
        numbers = self._numbers.setdefault(stem, count(1))
        tries = (f"{stem}-{number}" for number in numbers)
        return next(name for name in tries if name not in self._by_name and name not in claimed)

    # --- the end

    @property
    def closed(self) -> bool:
        """Whether the system stops, or has stopped."""
        return self._closed

    def refuse_if_closed(self) -> None:
        """Raise `AgentDown` if the system stops, unless the present code is part of a run that is under way here."""
        if self._closed and not self._is_inside_run():
            raise ActorDead(f"system {self._system!r} has stopped", actor=self._system)

    def close(self) -> bool:
        """Add nothing more but what runs under way need; whether this call closed it."""
        with self._lock:
            was, self._closed = self._closed, True
            return not was

    def stop_all(self) -> tuple[list[ActorCell], list[ActorCell]]:
        """Stop everything, what came last first, each after what it has to do.

        Returns:
            The cells of agents, which never block, and those of the users' own actors, in the order in which they stop.
        """
        with self._lock:  # others stop by themselves meanwhile, and go out of the tables
            unspawned = self._unspawned()
            agents = [*unspawned, *[cell for name, cell in self._by_name.items() if name in self._agents]]
            own = [cell for name, cell in self._by_name.items() if name not in self._agents]
        for cell in unspawned:
            cell.stop()
        for unit in reversed(self.units):
            unit.stop_then(nothing)
        return agents, own[::-1]


def children_below(children: Sequence[Child]) -> list[Child]:
    """Return how the runners inside of `children` are spawned; those that are children themselves are among them.

    Raises:
        ValueError: one has the name of a child that is no runner, or the id of one that is defined in another way.
    """
    named = {child.name: child.runner for child in children if child.name}
    found = below([child.runner for child in children if child.runner is not None])
    for runner in found:
        before = named.setdefault(runner.id, runner)
        if before is None or (before is not runner and before.fingerprint() != runner.fingerprint()):
            what = "an actor" if before is None else "an agent that is defined in another way"
            raise ValueError(f"sub-agent {runner.id!r} has the id of {what}; take another one")
    return [Child(runner) for runner in found]
