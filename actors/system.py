"""`ActorSystem`: the actors of one application part, and the default one of each process."""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, overload

from understudy.errors import AgentDown
from understudy.messages import Part
from understudy.messaging import Mailbox
from understudy.orchestration.supervision import OneForOne
from understudy.orchestration.supervisors import Child, Supervisor

from .actor import Actor
from .actorcell import ActorCell
from .agents import AgentActor, StartRun
from .cell import Cell
from .commands import nothing
from .family import Family, Member
from .health import Health, health_of, tree_of
from .record import Record
from .ref import ActorRef, SupervisorRef
from .runs import Runs
from .shell import forget_shells

if TYPE_CHECKING:
    from understudy.orchestration import Agent
    from understudy.orchestration.port import Answer, ResumeOptions, RunOptions

M = TypeVar("M")


class ActorSystem:
    """Agents as actors, and their runs. Safe to use from any thread.

    A run uses the system it is called inside of, else the one passed as `system=`, else the default one, which comes
    into being at the first run of each process. Nothing needs to be stopped: all threads are daemons.

    Args:
        name: names the system in addresses and errors.
    """

    def __init__(self, name: str = "understudy") -> None:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"a system's name must be a string that is not empty, got {name!r}")
        self.name = name
        self._stopped = False
        self.start_afresh()
        _systems.add(self)

    def start_afresh(self) -> None:
        """Make everything that holds a lock, a thread or a run; again in a forked child, where the parent's stay the parent's."""
        self._lock = threading.Lock()
        """Guards the directory and the end."""
        # By object, not by id: two definitions may bear one id, and a cell goes when its definition is gone.
        self._cells: weakref.WeakKeyDictionary[Agent[object], Cell] = weakref.WeakKeyDictionary()
        self._actors: dict[str, ActorCell] = {}
        """Actors of the user's by name, in the order in which they were spawned."""
        self._numbers: dict[str, Iterator[int]] = {}
        """Stem of a name -> what to try next behind it."""
        self._units: list[ActorCell | Family] = []
        """What was spawned: actors that stand alone, and groups."""
        # Ids are unique over processes without a random number per run.
        self._runs = Runs(f"{self.name}-{secrets.token_hex(4)}", self._start_run)

    def leave_to_parent(self) -> None:
        """Say in a forked child, of every actor that was spawned before, that it is the parent's; before `start_afresh`."""
        for unit in self._units:
            _leave_to_parent(unit)

    def prepare(self, agent: Agent[object], input: str | Sequence[Part], options: RunOptions) -> Record:
        """Make the record of a new run; nothing happens before `launch`."""
        return self._runs.prepare(agent, self._cell(agent), input, options)

    def prepare_again(self, agent: Agent[object], token: str, answer: Answer, options: ResumeOptions) -> Record:
        """Use up a token and make the record with which its run goes on; nothing happens before `launch`."""
        self._refuse_if_stopped()
        return self._runs.go_on(agent, token, answer, options)

    def launch(self, record: Record) -> None:
        """Start a run that was prepared; returns at once."""
        self._runs.launch(record)

    def _cell(self, agent: Agent[object]) -> Cell:
        cell = self._cells.get(agent)
        if cell is not None and not self._stopped:
            return cell
        with self._lock:
            self._refuse_if_stopped()
            cell = self._cells.get(agent)
            if cell is None:
                cell = self._cells[agent] = Cell(f"{self.name}/{agent.id}", lambda: AgentActor(self._runs))
            return cell

    # --- actors of the user's

    @overload
    def spawn(
        self,
        actor: Callable[[], Actor[M]],
        *,
        name: str | None = None,
        mailbox: Mailbox | None = None,
        strategy: OneForOne | None = None,
    ) -> ActorRef[M]: ...
    @overload
    def spawn(self, actor: Supervisor) -> SupervisorRef: ...
    def spawn(
        self,
        actor: Callable[[], Actor[M]] | Supervisor,
        *,
        name: str | None = None,
        mailbox: Mailbox | None = None,
        strategy: OneForOne | None = None,
    ) -> ActorRef[M] | SupervisorRef:
        """Start an actor, or a supervisor with its children, and return its reference at once.

        Actors start on threads of their own, the children of a supervisor one after another.

        Args:
            actor: the class, or a function that makes the object, called again for each restart; or a supervisor.
            name: unique in the system; made from the class's name if not given.
            mailbox: how many messages may wait, and what happens to one more.
            strategy: how many failures of the actor are borne before it is given up.

        Raises:
            ValueError: an actor of that name is there already.
            AgentDown: the system has stopped.
        """
        if isinstance(actor, Supervisor):
            if name is not None or mailbox is not None or strategy is not None:
                raise TypeError("a supervisor has its name and strategy itself, and its children their mailboxes")
            return self._spawn_group(actor)
        alone = Family(self.name, strategy if strategy is not None else OneForOne())
        child = Child(actor, name or "", mailbox=mailbox if mailbox is not None else Mailbox())
        with self._lock:
            self._refuse_if_stopped()
            cell = self._add(child, self.name, alone)
            self._units.append(cell)
        cell.stopped.when_done(lambda: self._units.remove(cell))
        cell.begin(0.0, nothing)
        return ActorRef(cell)

    def _spawn_group(self, supervisor: Supervisor) -> SupervisorRef:
        with self._lock:
            self._refuse_if_stopped()
            family = self._family(supervisor, self.name, None)
            self._units.append(family)
        family.begin(0.0, nothing)
        return SupervisorRef(family)

    def _family(self, supervisor: Supervisor, path: str, parent: Family | None) -> Family:
        """Make the cells of a supervisor's children, none of which starts yet; under the lock."""
        taken = sorted({c.name for c in supervisor.children if isinstance(c, Child)} & self._actors.keys())
        if taken:
            raise ValueError(f"supervisor {supervisor.id!r}: system {self.name!r} has an actor {taken[0]!r} already")
        family = Family(f"{path}/{supervisor.id}", supervisor.strategy, parent=parent)
        for child in supervisor.children:
            if isinstance(child, Supervisor):
                family.members.append(self._family(child, family.name, family))
            else:
                family.members.append(self._add(child, family.name, family))
        return family

    def _add(self, child: Child, path: str, family: Family) -> ActorCell:
        name = child.name or self._free_name(getattr(child.actor, "__name__", "actor").lower())
        if name in self._actors:
            raise ValueError(f"system {self.name!r} has an actor {name!r} already; stop it first, or take another name")
        cell = ActorCell(f"{path}/{name}", child.actor, mailbox=child.mailbox, family=family, restart=child.restart)
        if not family.members and family.name == self.name:
            family.members.append(cell)
        self._actors[name] = cell
        cell.stopped.when_done(lambda: self._actors.pop(name, None))
        return cell

    def find(self, name: str) -> ActorRef[object]:
        """Return the reference of the actor `name`.

        Raises:
            KeyError: there is none; the message names those there are.
        """
        cell = self._actors.get(name)
        if cell is None:
            raise KeyError(f"system {self.name!r} has no actor {name!r}; it has: {', '.join(self._actors) or 'none'}")
        return ActorRef(cell)

    def _free_name(self, stem: str) -> str:
        numbers = self._numbers.setdefault(stem, count(1))
        return next(name for n in numbers if (name := f"{stem}-{n}") not in self._actors)

    def health(self) -> Health:
        """Return figures of all actors and runs; waits for nothing, whatever they are doing."""
        cells: list[Cell] = [*self._cells.values(), *self._actors.values()]
        return health_of(cells, [record.status() for record in self._runs.in_flight()], self._runs.hung())

    def tree(self) -> str:
        """Return who runs, as lines of text."""
        return tree_of(self.name, self.health())

    # --- what runs need

    def _start_run(self, record: Record) -> None:
        record.started_in.run(_inside.set, self)
        # The system lane: a burst of runs is bounded by whoever sends it, not by the agent's bookkeeping.
        record.cell.tell(StartRun(record), system=True, on_lost=record.lost)

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            raise AgentDown(f"system {self.name!r} has stopped", actor=self.name)

    def stop(self, timeout: float = 10.0) -> tuple[str, ...]:
        """Refuse new work, let runs end and actors stop for up to `timeout` seconds in all, and give up on the rest.

        Runs come first, then the actors, the last one spawned first. A second call does nothing.

        Returns:
            The addresses of the actors that did not stop in time; each still holds a thread.
        """
        with self._lock:
            if self._stopped:
                return ()
            self._stopped = True
            cells = list(self._cells.values())
        deadline = time.monotonic() + timeout
        for record in self._runs.in_flight():
            record.reply.wait(max(0.0, deadline - time.monotonic()))
        self._runs.cancel_all(f"system {self.name!r} stopped")
        for cell in cells:
            cell.stop()
        actors = list(reversed(self._actors.values()))
        for unit in reversed(self._units.copy()):
            unit.stop_then(nothing)
        return tuple([a.address for a in actors if not a.stopped.wait(max(0.0, deadline - time.monotonic()))])

    @property
    def in_flight(self) -> int:
        """How many runs are under way."""
        return len(self._runs.in_flight())

    @property
    def hung(self) -> int:
        """How many tool calls and model calls were given up and have not come back; each holds a thread."""
        return self._runs.hung()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0 if error is not None else 10.0)

    def __repr__(self) -> str:
        return f"ActorSystem({self.name!r})"


_systems: weakref.WeakSet[ActorSystem] = weakref.WeakSet()
_default: ActorSystem | None = None
_default_lock = threading.Lock()
_inside: ContextVar[ActorSystem | None] = ContextVar("understudy_system", default=None)


def current_system() -> ActorSystem:
    """Return the system this code runs inside of, else the process's default one, made at the first call."""
    inside = _inside.get()
    if inside is not None:
        return inside
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = ActorSystem()
    return _default


def _leave_to_parent(unit: Member) -> None:
    if isinstance(unit, ActorCell):
        unit.stay_in_parent()
    elif isinstance(unit, Family):
        unit.cause = AgentDown(f"{unit.name} belongs to the process that forked this one", actor=unit.name)
        for member in unit.members:
            _leave_to_parent(member)


def _begin_anew_in_child() -> None:
    """Forget what belongs to the parent: its threads do not exist here, and its runs stay its own."""
    global _default_lock
    _default_lock = threading.Lock()
    forget_shells()
    for system in list(_systems):
        system.leave_to_parent()
        system.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_in_child)
