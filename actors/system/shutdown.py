"""The end of a system: runs end first, then actors stop, then subscribers hear the rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from understudy.actors.threads import cancel_hooks

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.cells.event_stream import EventStream

    from .directory import Directory
    from .pykka_registry import RegistryEntries
    from .run_manager import RunManager


def shut_down(
    name: str,
    runs: RunManager,
    actors: Directory,
    entries: RegistryEntries | None,
    events: EventStream,
    deadline: float,
) -> tuple[str, ...]:
    """End the runs and actors of a system whose directory is closed; blocks until a moment on the monotonic clock.

    Returns:
        The ids of runs that were cancelled, and the addresses of actors that did not stop in time.
    """
    runs.outage.is_stopping = True
    cancelled = _end_runs(name, runs, deadline)
    if entries is not None:
        entries.clear()
    hanging = _stop_actors(actors, deadline)
    late = max(deadline, time.monotonic() + cancel_hooks.AT_HAND)
    runs.late_saves.wait(late)
    runs.journaling.late_ends.wait(late)
    runs.journaling.late_ends.leave()
    runs.journaling.rest(late)
    events.finish(deadline)
    return (*cancelled, *[cell.address for cell in hanging])


def _end_runs(name: str, runs: RunManager, deadline: float) -> list[str]:
    """Wait for the runs in flight and cancel the rest; returns the ids of the runs that were cancelled."""
    while records := runs.in_flight():  # a run may have begun others meanwhile
        if not all(record.promise.wait(_left(deadline)) for record in records):
            break
    with cancel_hooks.Settling(max(cancel_hooks.AT_HAND, deadline - time.monotonic())):
        cancelled = runs.cancel_all(f"system {name!r} stopped", deadline)
    runs.rest()
    runs.executors.stop()
    runs.memories.stop()
    return cancelled


def _stop_actors(actors: Directory, deadline: float) -> list[ActorCell]:
    """Stop all actors, and return the users' own ones that hang."""
    agents, own = actors.stop_all()
    for cell in agents:
        cell.stopped.wait(_left(deadline))
    hanging = [cell for cell in own if not cell.stopped.wait(_left(deadline))]
    for cell in hanging:
        cell.stop()  # its turn to stop may not have come, behind another actor that hangs
        cell.lose_waiting()
    return hanging


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
