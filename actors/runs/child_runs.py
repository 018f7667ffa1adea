"""Runs inside of a run: whether they may begin, how they begin or go on, and what the run around them gets of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.actors.run_view.errors import named
from understudy.actors.waiting.graph import graph
from understudy.errors import CircularAgentCall, UnfinishedRun
from understudy.orchestration.definitions.port import RunOptions
from understudy.vocabulary.context.ancestry import check_hops, check_permits
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Incomplete

from .error_facts import describe
from .record import RunRecord
from .saving import saved_run

if TYPE_CHECKING:
    from understudy.orchestration.agent.state import PausedChild
    from understudy.orchestration.definitions.runner import Runner


def refuse_call(outer: RunRecord, runner: Runner[object]) -> None:
    """Refuse a run of `runner` that `outer` would wait for, if it may not begin.

    Raises:
        CircularAgentCall: the runner would wait for itself.
        DisallowedAgentCall: a sub-agent above does not allow it.
        RunError: too many runs would wait for one another, or have begun one another.
    """
    try:
        graph.check(outer.ancestry, runner)
    except CircularAgentCall as error:
        outer.host.tell_refused(runner, error)
        raise
    check_permits(runner)
    check_hops(runner, outer.host.max_hops)


def begun(
    outer: RunRecord,
    runner: Runner[object],
    input: str | Sequence[Part],
    place: str,
    *,
    conversation_id: str | None = None,
) -> RunRecord:
    """Return the record of a new run, which sees the session of the run around it and writes to one of its own.

    Args:
        outer: the run around it.
        runner: whose run it is.
        input: what it is to do.
        place: where it is in the run around it; the journal knows it by that.
        conversation_id: the conversation that its agent's memory knows.
    """
    given = outer.options
    options = RunOptions(session=outer.session, user_id=given.user_id, deps=given.deps, conversation_id=conversation_id)
    return _part_of(outer, outer.host.prepare(runner, input, options), place)


def continued(outer: RunRecord, runner: Runner[object], paused: PausedChild, scope: Scope, place: str) -> RunRecord:
    """Return the record with which a paused run goes on, and has the answers.

    Args:
        outer: the run around it.
        runner: whose run it is.
        paused: the run as text, and the answers.
        scope: what the run is a part of.
        place: where it is in the run around it.
    """
    from understudy.orchestration.saving.saved_run import SavedRun

    saved = SavedRun.from_json(paused.saved)
    began = saved.began_with
    seen = {key: value for key, value in outer.session.items() if key not in began}
    seen.update({key: value[0] for key, value in began.items() if value})
    below = replace(saved, session=seen)
    # Its definition is part of that of the run around it, which was compared, or adopted, when that one was loaded.
    child = outer.host.load(
        below,
        runner,
        outer.options.deps,
        Scope(None, time.monotonic, parent=scope),
        adopt=True,
    )
    child.session.changes.update(saved.session)
    child.session.removed = frozenset(saved.removed)
    if paused.answers:
        child.log.note_settled(child.respond(paused.answers))
    elif not saved.under_way:  # it stood at a limit that is raised now, or it was stopped
        child.retry_failed()
    return _part_of(outer, child, place)


def _part_of(outer: RunRecord, child: RunRecord, place: str) -> RunRecord:
    if outer.journal is not None:
        child.journal = outer.journal.inside(place, child.account)
    child.is_inner = True
    child.streams = outer.streams
    child.in_resumed = outer.is_resumed
    child.caller_calls = outer.caller_calls
    child.ancestry = (*outer.ancestry, child.link)
    return child


def changes_of(session: SessionOverlay, child: RunRecord) -> SessionOverlay:
    """Return what the child changed, as changes to the session of the run around it."""
    overlay = SessionOverlay(session, child.session.below)
    overlay.changes.update(child.session.changes)
    overlay.removed = child.session.removed
    return overlay


def saved_inner(child: RunRecord) -> str:
    """Return a paused child as text: of the session only what it changed, for the rest belongs to the run around it."""
    changes, removed = child.session.lasting_changes()
    began = child.session.began_with()
    return replace(saved_run(child), session=changes, removed=tuple(sorted(removed)), began_with=began).to_json()


def unfinished(child: RunRecord, outcome: Incomplete) -> UnfinishedRun:
    """Make the error of a child that stopped short of its end."""
    error = UnfinishedRun(
        f"{named(child.runner)} stopped, as {outcome.completion_reason}; it said last: {outcome.last_text}",
        run_id=child.run_id,
    )
    describe(child, error)
    return error
