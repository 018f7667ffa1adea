"""What a system says of itself: figures of its actors and runs, readable whatever its actors are doing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Fate
from understudy.actors.cells.seated_cell import SeatedCell
from understudy.actors.stores.database import StoreFigures
from understudy.vocabulary.actors.system_events import LostBecause
from understudy.vocabulary.runs.handles import RunStatus
from understudy.vocabulary.runs.stored_runs import ParkedRun

if TYPE_CHECKING:
    from understudy.providers import LimitFigures

MANY_HUNG = 16  # Threads that never came back; from here on a new process is cheaper than more of them.


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorFigures:
    """One actor, at one moment."""

    address: str
    state: str
    """`starting`, `running`, `restarting`, `down` or `stopped`; of a tool or a memory, `running` or `stopped`, and of a
    memory `down` while no message has succeeded since it failed in too many conversations."""
    depth: int
    """Messages that wait."""
    high_water: int
    """The most that ever waited at once."""
    oldest_age: float
    """Seconds since the longest waiting message was sent."""
    handled: int
    failed: int
    expired: int
    """Messages whose deadline passed before they were handled."""
    dead: int
    """Messages that found no room, or no actor any more."""
    restarts: int
    epoch: int
    busy_for: float | None
    """Seconds it has been at the message in hand, or at the oldest one of several; None if it is at none."""
    hung: int = 0
    """Messages in hand that were given up: each holds a thread, and a seat if their number is limited."""
    seats: int | None = None
    """Of a tool or a memory: how many messages may be in hand at once; None for any number."""
    tools: tuple[ActorFigures, ...] = ()
    """Of an agent: the executors of its tools, one for each tool or toolset. Agents that share a tool share its cell."""
    memories: tuple[ActorFigures, ...] = ()
    """Of an agent: the actor of its memory, which it shares with the other agents that have this memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A system, at one moment."""

    ok: bool
    advice: str
    """What to do about it, in words; empty if it is well."""
    actors: tuple[ActorFigures, ...]
    runs: tuple[RunStatus, ...]
    """Runs in flight."""
    hung: int
    """Tool and model calls that were given up and have not come back; each holds a thread."""
    dead_letters: int
    """Messages to actors that nobody handled, since the system began."""
    dead_letters_by_reason: Mapping[LostBecause, int]
    """The same, for each reason there was."""
    events_lost: int
    """Events that found no room in the buffers of subscribers."""
    store: StoreFigures | None = None
    """The SQLite file of the system; None if it has none."""
    waits_for_store: float | None = None
    """Seconds for which runs have been waiting, because a store fails; None if none waits."""
    parked: tuple[ParkedRun, ...] = ()
    """Runs whose processes died, and with which this system could not go on when it tried the last time."""
    not_recovering: str = ""
    """Why a system with `recover="always"` takes over no run: it has not begun in this process, or rests after a fork. Else empty."""
    limits: tuple[LimitFigures, ...] = ()
    """The limits of model calls, of each key that this process uses: whatever system or function asks."""


def figures(
    cell: Cell, tools: Iterable[SeatedCell[Any]] = (), memories: Iterable[SeatedCell[Any]] = ()
) -> ActorFigures:
    """Read the figures of an actor, and of the tools and memories of its agent; takes no lock that a hanging actor could hold."""
    counts = cell.counts
    own = cell if isinstance(cell, ActorCell) else None
    busy = None if own is None else own.busy_since
    return ActorFigures(
        address=cell.address,
        state="running" if own is None else own.state,
        depth=cell.depth,
        high_water=cell.high_water,
        oldest_age=0.0 if own is None else own.oldest_age,
        handled=counts[Fate.HANDLED],
        failed=counts[Fate.FAILED],
        expired=counts[Fate.EXPIRED] + counts[Fate.CANCELLED],
        dead=counts[Fate.DEAD],
        restarts=0 if own is None else own.restarts,
        epoch=cell.epoch,
        busy_for=None if busy is None else time.monotonic() - busy,
        tools=tuple([_of_seated(each) for each in tools]),
        memories=tuple([_of_seated(each) for each in memories]),
    )


def _of_seated(cell: SeatedCell[Any]) -> ActorFigures:
    cell.give_up_hung()
    counts, busy = cell.counts, cell.busy_since
    return ActorFigures(
        address=cell.address,
        state=cell.state,
        depth=cell.depth,
        high_water=cell.high_water,
        oldest_age=cell.oldest_age,
        handled=counts[Fate.HANDLED],
        failed=counts[Fate.FAILED],
        expired=counts[Fate.EXPIRED] + counts[Fate.CANCELLED],
        dead=counts[Fate.DEAD],
        restarts=cell.restarts,
        epoch=cell.restarts,
        busy_for=None if busy is None else time.monotonic() - busy,
        hung=cell.hung,
        seats=cell.seats,
    )


def health_of(
    actors: Sequence[ActorFigures],
    runs: Sequence[RunStatus],
    hung: int,
    events: EventStream,
    store: StoreFigures | None,
    waits_for_store: float | None,
    parked: tuple[ParkedRun, ...],
    limits: tuple[LimitFigures, ...],
    not_recovering: str,
) -> Health:
    """Put the figures together and judge them."""
    lost = events.letters.counts()
    everyone = {each.address: each for actor in actors for each in (actor, *actor.tools, *actor.memories)}.values()
    down = [actor.address for actor in everyone if actor.state == "down"]
    held = [actor.address for actor in everyone if actor.seats is not None and actor.hung >= actor.seats]
    advice: list[str] = []
    if hung > MANY_HUNG:
        advice.append(f"recycle this process: {hung} calls never came back")
    if down:
        advice.append(f"given up after too many failures: {', '.join(down)}")
    if held:
        advice.append(f"held by calls that never came back, so that every other call is refused: {', '.join(held)}")
    if waits_for_store is not None:
        advice.append(f"see to the store: runs have been waiting for it for {waits_for_store:.1f} s")
    return Health(
        ok=not advice,
        advice="; ".join(advice),
        actors=tuple(actors),
        runs=tuple(runs),
        hung=hung,
        dead_letters=sum(lost.values()),
        dead_letters_by_reason=lost,
        events_lost=events.lost,
        store=store,
        waits_for_store=waits_for_store,
        parked=parked,
        limits=limits,
        not_recovering=not_recovering,
    )


def tree_of(name: str, health: Health) -> str:
    """Draw a system as lines of text: its actors, and below each agent its runs, its tools and its memory."""
    lines = [name]
    for actor in health.actors:
        lines.append(f"  {_line(name, actor)}")
        # In a group, an agent's address is more than its id.
        runs = [run for run in health.runs if actor.address.endswith(f"/{run.agent_id}")]
        lines += [f"    {run.run_id}: {run.doing}" for run in runs]
        lines += [f"    {_line(name, below)}" for below in (*actor.tools, *actor.memories)]
    return "\n".join(lines)


def _line(system: str, actor: ActorFigures) -> str:
    busy = "" if actor.busy_for is None else f", busy for {actor.busy_for:.1f} s"
    hung = f", {actor.hung} hung" if actor.hung else ""
    return (
        f"{actor.address.removeprefix(system + '/')}: {actor.state}, {actor.depth} waiting, "
        f"{actor.handled} handled, {actor.failed} failed, {actor.restarts} restarts{busy}{hung}"
    )
