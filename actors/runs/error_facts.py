"""What an error tells of the run that it ended: where it comes from, and what the run had until then."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING

from understudy.actors.actor.actor_cell import ActorCell
from understudy.errors import CircularAgentCall, DisallowedAgentCall, PlaceNote, UnderstudyError, place_note
from understudy.orchestration.agent.outcome import messages_so_far
from understudy.vocabulary.context.session import lasting
from understudy.vocabulary.models import name_of
from understudy.vocabulary.runs.outcomes import Outcome

from .agent_record import AgentRunRecord
from .group_record import GroupRunRecord

if TYPE_CHECKING:
    from .record import RunRecord


def describe(record: RunRecord, error: BaseException) -> None:
    """Write on an error which run it ended; call it when nobody drives the run any more, before its end is told.

    An error of a run inside of this one keeps its place. One object may end several runs, so nothing is added twice.
    """
    own = tuple([link.runner.id for link in record.ancestry if not isinstance(link.runner, ActorCell)])
    note = place_note(error)
    came_from_inside = note is not None and len(note.path) > len(own) and note.path[: len(own)] == own
    if isinstance(error, UnderstudyError):
        _tell_what_there_was(record, error, came_from_inside)
        if not came_from_inside and not isinstance(error, (CircularAgentCall, DisallowedAgentCall)):
            error.path = own  # these two say by it who would wait for whom
    if not came_from_inside:
        _note_place(record, error, own, note)


def _tell_what_there_was(record: RunRecord, error: UnderstudyError, came_from_inside: bool) -> None:
    error.usage = record.account.spending.usage
    if isinstance(record, GroupRunRecord):
        error.children = _children(record, error, came_from_inside)
    elif not came_from_inside:
        error.children = ()
    if isinstance(record, AgentRunRecord):
        error.messages = () if record.machine is None else messages_so_far(record.machine.state)
        error.session = lasting(record.session)
    elif not came_from_inside:  # a group says nothing itself
        error.messages = ()
        error.session = lasting(record.session)


def _children(
    record: GroupRunRecord, error: UnderstudyError, came_from_inside: bool
) -> list[Outcome[object] | BaseException]:
    """Return how the runs inside of a group ended; a copy of the error has those inside of the group that it came from."""
    from .child_runs import children_so_far  # it describes the errors of runs inside

    inner = copy.copy(error) if came_from_inside and error.children else error
    return [inner if child is error else child for child in children_so_far(record)]


def _note_place(record: RunRecord, error: BaseException, path: tuple[str, ...], before: PlaceNote | None) -> None:
    if before is not None:
        error.__notes__.remove(before)
    id = record.runner.id
    who = f"agent {id!r} ({name_of(record.agent.current_model)})" if isinstance(record, AgentRunRecord) else repr(id)
    if len(path) > 1:
        who = f"{who}, path {' > '.join(path)}"
    elif repr(id) in _message_of(error):
        return
    note = PlaceNote(who)
    note.path = path
    error.add_note(note)


def _message_of(error: BaseException) -> str:
    with contextlib.suppress(BaseException):  # it is made by code of a user's
        return str(error)
    return ""
