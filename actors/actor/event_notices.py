"""The system events about one actor. Each is built only if somebody subscribed to its class."""

from __future__ import annotations

from understudy.actors.cells.dead_letters import type_name
from understudy.actors.cells.event_stream import EventStream, is_logged, write_line
from understudy.vocabulary.actors.system_events import (
    ActorBackedOff,
    ActorFailed,
    ActorGivenUp,
    ActorRestarted,
    ActorStarted,
    ActorStopped,
)

from .endpoint import OwnedCell


def tell_begun(cell: OwnedCell, restarts: int, *, again: bool, with_line: bool) -> None:
    """Tell that the actor has its first object, or `again` a new one; without its line if the caller holds a lock."""
    if again and cell.events.wants(ActorRestarted):
        cell.events.publish(ActorRestarted(address=cell.address, epoch=cell.epoch, restarts=restarts))
    elif not again and cell.events.wants(ActorStarted):
        tell = cell.events.publish if with_line else cell.events.pass_on
        tell(ActorStarted(address=cell.address))


def write_start(address: str) -> None:
    """Write the line of an actor that was begun without it."""
    if is_logged(ActorStarted):
        write_line(ActorStarted(address=address))


def tell_failed(cell: OwnedCell, cause: BaseException, message: object) -> None:
    """Tell that the actor failed, at `message` if it is not None."""
    if cell.events.wants(ActorFailed):
        name = "" if message is None else type_name(message)
        cell.events.publish(ActorFailed(address=cell.address, error=cause, message_type=name))


def tell_delay(events: EventStream, address: str, seconds: float) -> None:
    """Tell that an actor or a group is restarted only after `seconds`, if there are any."""
    if seconds > 0 and events.wants(ActorBackedOff):
        events.publish(ActorBackedOff(address=address, seconds=seconds))


def tell_given_up(cell: OwnedCell, cause: BaseException) -> None:
    """Tell that the actor is down."""
    if cell.events.wants(ActorGivenUp):
        cell.events.publish(ActorGivenUp(address=cell.address, reason=cause))


def tell_stopped(cell: OwnedCell, cause: BaseException | None) -> None:
    """Tell that the actor has stopped for good."""
    if cell.events.wants(ActorStopped):
        cell.events.publish(ActorStopped(address=cell.address, reason=cause))
