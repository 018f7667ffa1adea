"""The session that a caller gives to a run, and the values of it in the system's store: loaded before the first step,
stored at a pause and at the end.

Only runs that nobody around them shares a session with do this. A run keeps its own view from beginning to end, over its
pauses too; what others stored meanwhile it learns of at its commit, which wins and is told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from logging import ERROR, WARNING
from typing import TYPE_CHECKING, Protocol

from understudy.actors.run_view.log import NotSaved, Overwritten
from understudy.actors.run_view.view import RunView
from understudy.actors.stores.database import may_pass
from understudy.actors.stores.sessions import SessionChange, SessionCommit, Sessions
from understudy.diagnostics import emit
from understudy.errors import LeaseLost, StoreError, in_words
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.session import SessionState
from understudy.vocabulary.context.session_values import SessionOwner, SessionValues, copy_of, owner_of, owners
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.conversations import NO_USER

if TYPE_CHECKING:
    from understudy.actors.journal.run_journal import JournalPart
    from understudy.actors.stores.database import Sql
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


class StoredSession:
    """What a run knows of its values in the store.

    Attributes:
        versions: key -> the version of the value that the run began with or committed.
        unsaved: keys that it changed, and that the store failed to take.
    """

    __slots__ = ("unsaved", "versions")

    def __init__(self, versions: Mapping[str, int], unsaved: Iterable[str] = ()) -> None:
        self.versions = dict(versions)
        self.unsaved = set(unsaved)


class SessionHost(Protocol):
    """What keeps the run."""

    @property
    def app(self) -> str:
        """The name of the system."""
        ...

    @property
    def sessions(self) -> Sessions:
        """Where it keeps session values."""
        ...


class SessionRun(RunView, Protocol):
    """A run with a session of its own."""

    @property
    def session(self) -> SessionOverlay:
        """Its values, and what it changed of them since it began or went on."""
        ...

    @property
    def journal(self) -> JournalPart | None:
        """Its part in the journal of the store; None without a journal."""
        ...

    @property
    def stored(self) -> StoredSession | None:
        """What it knows of the store; None if there was nothing to know when it began."""
        ...


def load(run: SessionRun, host: SessionHost) -> tuple[StoredSession, dict[str, JsonValue]]:
    """Return what the store has for a new run: what the run knows of it, and the values.

    A value in whose place the caller gave another one is not known to the run, which does not see it.

    Raises:
        StoreError: the store failed.
    """
    try:
        found = host.sessions.load(_owners(host, run.options))
    except StoreError as error:
        words = f"run {run.run_id} cannot have the values of its session: {error}"
        raise StoreError(words, store=error.store) from error
    versions = {key: each.version for key, each in found.items() if run.session.shows_below(key, each.value)}
    return StoredSession(versions), {key: each.value for key, each in found.items() if each.is_there}


def has_to_save(run: SessionRun) -> bool:
    """Whether the run changed anything that the store may have to know."""
    return run.session.is_changed or (run.stored is not None and bool(run.stored.unsaved))


def save(run: SessionRun, host: SessionHost, *, yields: bool = False) -> StoredSession | None:
    """Store what the run changed, and tell of what it overwrote and what could not be stored. Blocks for the store.

    Args:
        run: whose session it is; nobody changes it meanwhile.
        host: what keeps the run.
        yields: leave what others changed unseen as it is: the run is over, and can tell no more.

    Returns:
        What the run knows of the store from now on.

    Raises:
        StoreError: the store failed, and the run has a journal and can wait.
    """
    before = run.stored or StoredSession({})
    changes, strange = _changes(run, host, before)
    if not changes and not strange:
        return run.stored
    known = StoredSession(before.versions, strange)
    try:
        also = None if run.journal is None else partial(_note_saved, run.journal, changes, yields)
        commits = host.sessions.commit(run.run_id, changes, yields=yields, also=also) if changes else ()
    except LeaseLost:
        return run.stored  # they go with the run, whose end here is refused too
    except Exception as error:  # whatever failed, a run that cannot wait has its ending
        if run.journal is not None and not yields and may_pass(error):
            raise
        known.unsaved.update(each.key for each in changes)
        _tell_not_saved(run, known.unsaved, _as_store_error(error, host.sessions))
        return known
    left = {each.key for each in commits if each.other_run_id and yields}
    known.unsaved |= left  # for the case that the run goes on, with a token that its error has
    known.versions.update({each.key: each.version for each in commits if each.key not in left})
    _tell_overwritten(run, commits, yields=yields)
    if strange:
        words = f"run {run.run_id}: {'; '.join(strange.values())}, which JSON cannot carry"
        _tell_not_saved(run, strange, StoreError(words, store=repr(host.sessions)))
    return known


def _owners(host: SessionHost, options: RunOptions) -> list[SessionOwner]:
    return owners(host.app, NO_USER if options.user_id is None else options.user_id, options.conversation_id)


def _changes(run: SessionRun, host: SessionHost, before: StoredSession) -> tuple[list[SessionChange], dict[str, str]]:
    """Return what the run changed that the store keeps; and what the store cannot keep, with the reasons."""
    values, removed = run.session.lasting_changes()
    values.update({key: run.session[key] for key in before.unsaved if key in run.session})
    found = _owners(host, run.options)
    changes, strange = list[SessionChange](), dict[str, str]()
    for key in {**values, **dict.fromkeys((*removed, *before.unsaved))}:
        owner = owner_of(key, found)
        if owner is None:
            continue
        value, is_removed = values.get(key), key not in values
        # Memory keeps any object, as it always did; the next reader is in this process.
        problem = "" if host.sessions.is_quick else not_json(value, f"session[{key!r}]")
        if problem:
            strange[key] = problem
        else:
            changes.append(SessionChange(owner, key, value, is_removed, before.versions.get(key, 0)))
    return changes, strange


def _note_saved(
    journal: JournalPart, changes: Iterable[SessionChange], yields: bool, sql: Sql, commits: Iterable[SessionCommit]
) -> None:
    versions = {each.key: each.version for each in commits if not (each.other_run_id and yields)}
    saved = {each.key: (versions[each.key], each.value, each.is_removed) for each in changes if each.key in versions}
    journal.note_saved(saved, sql)


def _as_store_error(error: Exception, sessions: Sessions) -> StoreError:
    if isinstance(error, StoreError):
        return error
    told = StoreError(f"{sessions!r} failed: {in_words(error)}", store=repr(sessions))
    told.__cause__ = error
    return told


def _tell_overwritten(run: SessionRun, commits: Iterable[SessionCommit], *, yields: bool) -> None:
    by_run = dict[str, list[str]]()
    for each in commits:
        if each.other_run_id:
            by_run.setdefault(each.other_run_id, []).append(each.key)
    for other, keys in by_run.items():
        if not yields:
            run.log.note(Overwritten(tuple(sorted(keys)), other))
        event = "session_values_dropped" if yields else "session_overwritten"
        text = "run %s: %d session values that it left are not stored, as run %s changed them meanwhile"
        if not yields:
            text = "run %s: %d session values that it stored replace those of run %s, which it had not seen"
        emit(WARNING, event, values_of_run(run.link) | {"other_run_id": other}, text, run.run_id, len(keys), other)


def _tell_not_saved(run: SessionRun, keys: Iterable[str], error: StoreError) -> None:
    told = tuple(sorted(keys))
    run.log.note(NotSaved(told, error))
    text = "run %s: %d session values could not be stored in %s"
    emit(ERROR, "session_not_saved", values_of_run(run.link), text, run.run_id, len(told), error.store, exc_info=error)
