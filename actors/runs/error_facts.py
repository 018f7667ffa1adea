"""What an error tells of the run that it ended: where it comes from, and what the run had until then."""

from __future__ import annotations

from typing import Protocol

from understudy.actors.actor.actor_cell import ActorCell
from understudy.errors import CircularAgentCall, DisallowedAgentCall, PlaceNote, UnderstudyError, place_note
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.ancestry import Ancestry


class EndedRun(Protocol):
    """A run that an error ended."""

    @property
    def ancestry(self) -> Ancestry:
        """The run itself, after those who wait for it."""
        ...

    @property
    def account(self) -> Account:
        """What the run drew from."""
        ...

    @property
    def runner_named(self) -> str:
        """Its runner, as people read it."""
        ...

    def tell_progress(self, error: UnderstudyError, *, from_inside: bool) -> None:
        """Write on the error what the run had until then; `from_inside` for the error of a run inside of this one."""
        ...


def describe(run: EndedRun, error: BaseException) -> None:
    """Write on an error which run it ended; call it when nobody drives the run any more, before its end is told.

    An error of a run inside of this one keeps its place. One object may end several runs, so nothing is added twice.
    """
    own = _path_of(run.ancestry)
    note = place_note(error)
    from_inside = note is not None and len(note.path) > len(own) and note.path[: len(own)] == own
    if isinstance(error, UnderstudyError):
        error.usage = run.account.spending.usage
        run.tell_progress(error, from_inside=from_inside)
        if not from_inside and not isinstance(error, (CircularAgentCall, DisallowedAgentCall)):
            error.path = own  # these two say by it who would wait for whom
    if not from_inside:
        _note_place(run, error, own, note)


def _path_of(ancestry: Ancestry) -> tuple[str, ...]:
    if len(ancestry) == 1:  # as of most runs
        return (ancestry[0].runner.id,)
    return tuple([link.runner.id for link in ancestry if not isinstance(link.runner, ActorCell)])


def _note_place(run: EndedRun, error: BaseException, path: tuple[str, ...], before: PlaceNote | None) -> None:
    if before is not None:
        error.__notes__.remove(before)
    if len(path) == 1 and repr(path[0]) in _message_of(error):
        return
    note = PlaceNote(f"{run.runner_named}, path {' > '.join(path)}" if len(path) > 1 else run.runner_named)
    note.path = path
    error.add_note(note)


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # it is made by code of a user's
        return ""
