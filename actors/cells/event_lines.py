"""System events as log lines. Dead letters, failures of actors and crashes of runs have lines with more in them elsewhere."""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING

from understudy.diagnostics import emit, log
from understudy.vocabulary.actors.system_events import (
    ActorBackedOff,
    ActorGivenUp,
    ActorRestarted,
    ActorStarted,
    ActorStopped,
    CircleRefused,
    Escalated,
    SystemEvent,
    WorkAbandoned,
    WorkOverdue,
)

LINES: dict[type[SystemEvent], tuple[int, str]] = {
    ActorStarted: (DEBUG, "actor_started"),
    ActorRestarted: (INFO, "actor_restarted"),
    ActorBackedOff: (INFO, "actor_backed_off"),
    ActorGivenUp: (WARNING, "actor_given_up"),
    ActorStopped: (DEBUG, "actor_stopped"),
    Escalated: (WARNING, "escalated"),
    WorkOverdue: (INFO, "work_overdue"),
    WorkAbandoned: (INFO, "work_abandoned"),
    CircleRefused: (INFO, "circle_refused"),
}
"""Class of an event -> the level and the name of its line."""


def is_logged(kind: type[SystemEvent]) -> bool:
    """Whether an event of this class has a line, and the logger takes it."""
    line = LINES.get(kind)
    return line is not None and log.isEnabledFor(line[0])


def write_line(event: SystemEvent) -> None:
    """Write the line of an event, if it has one."""
    line = LINES.get(type(event))
    if line is not None:
        level, name = line
        emit(level, name, {"actor": event.address, **_facts_of(event)})


def _facts_of(event: SystemEvent) -> dict[str, object]:
    match event:
        case ActorRestarted(epoch=epoch, restarts=restarts):
            return {"epoch": epoch, "restarts": restarts}
        case ActorBackedOff(seconds=seconds):
            return {"seconds": seconds}
        case ActorGivenUp(reason=reason) | Escalated(reason=reason):
            return {"error_type": type(reason).__name__}
        case ActorStopped(reason=reason) if reason is not None:
            return {"error_type": type(reason).__name__}
        case WorkOverdue(run_id=run_id, what=what, seconds=seconds):
            return {"run_id": run_id, "what": what, "seconds": seconds}
        case WorkAbandoned(run_id=run_id, what=what, seconds=seconds):
            named = {"run_id": run_id} if run_id else {}
            return {**named, "what": what, "seconds": seconds}
        case CircleRefused(path=path):
            return {"path": path}
        case _:
            return {}
