"""The session that a caller gives to a run: the run begins with its values, and a dict or `SessionState` is updated at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.session import SessionState
from understudy.vocabulary.context.session_values import SessionValues, copy_of

from .stored_session import SessionRun

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.vocabulary.messages import JsonValue


def values_of(given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the values with which a run begins: copies, for the caller may change its own ones meanwhile."""
    if type(given) is SessionOverlay:  # of the run around it, which does not change these values while this one runs
        return dict(given)
    values = given.snapshot() if isinstance(given, SessionState) else dict(given)
    return {key: copy_of(value) for key, value in values.items()}


def is_updated(given: Mapping[str, JsonValue] | None) -> bool:
    """Whether the caller's object gets the changes of the run; a subclass of `dict` may do anything when it is written to."""
    return isinstance(given, SessionState) or type(given) is dict


def hand_back(session: SessionOverlay, given: Mapping[str, JsonValue]) -> None:
    """Write the changes of a run into the caller's object."""
    changes, removed = session.lasting_changes()
    if isinstance(given, SessionState):
        given.apply(changes, removed)
    elif isinstance(given, dict):
        given.update(changes)
        for key in removed:
            given.pop(key, None)


def options_to_go_on(run: SessionRun, deps: object, session: Mapping[str, JsonValue] | None) -> RunOptions:
    """Return the options with which a paused run goes on; `session` has values that the caller gives it now."""
    given = run.options.session if session is None else session
    if session is None and not is_updated(given):
        given = SessionValues(run.session)
    return replace(run.options, session=given, deps=deps)


def follow_session(run: SessionRun, before: SessionRun) -> None:
    """Lay the values that a run had before its pause under those that the caller gives it now."""
    given = run.options.session
    if given is before.options.session:  # the caller's own: it has the changes of the run, and may have changed since
        stored = () if run.stored is None else run.stored.versions
        run.session.lay_under({key: before.session[key] for key in stored if key in before.session})
        run.session.take_temporary(before.session)
    else:
        run.session.lay_under(dict(before.session))
        run.session.take_temporary(before.session, hidden=given or ())
