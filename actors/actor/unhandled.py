"""Which messages that an actor did not handle are dead letters, and why they were not handled."""

from __future__ import annotations

from understudy.actors.cells.envelope import Envelope, Fate
from understudy.errors import MailboxFull
from understudy.vocabulary.actors.messages import Down
from understudy.vocabulary.actors.system_events import LostBecause

from .commands import Command, Timed
from .endpoint import ActorState


def is_dead_letter(envelope: Envelope, error: BaseException) -> bool:
    """Whether a message that was not handled is a user's, and nobody else sees to it."""
    message = envelope.message
    if type(message) is Timed:
        return isinstance(error, MailboxFull)  # other timers end with the object that set them
    return envelope.on_lost is None and type(message) is not Command and type(message) is not Down


def lost_because(fate: Fate, error: BaseException, state: ActorState) -> LostBecause:
    """Return why an actor in `state` did not handle a message that ended with `error`."""
    if fate is Fate.EXPIRED:
        return "expired"
    if fate is Fate.CANCELLED:
        return "cancelled"
    if isinstance(error, MailboxFull):
        return "mailbox_full"
    if state == "down":
        return "given_up"
    return "stopped" if error.__cause__ is None else "no_thread"
