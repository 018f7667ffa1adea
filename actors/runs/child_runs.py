"""Runs inside of a run: whether they may begin, how they begin or go on, and what the run around them gets of them.

A run inside that pauses is kept as text. Those that are under way when an error ends the run around them are taken into its
machine, before that is saved or goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.actors.run_view.errors import named
from understudy.actors.run_view.event_count import next_seq
from understudy.actors.waiting.graph import graph
from understudy.errors import BudgetExceeded, CircularAgentCall, UnfinishedRun
from understudy.orchestration.definitions.port import RunOptions
from understudy.orchestration.group.children import ChildFailure, ChildResult
from understudy.vocabulary.context.ancestry import check_hops, check_permits
from understudy.vocabulary.context.overlays import SessionOverlay, lasting
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .error_facts import describe
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.agent.run import AgentRun
    from understudy.orchestration.agent.state import PausedChild
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.machines import Machine
    from understudy.orchestration.saving.saved_run import SavedRun
    from understudy.vocabulary.messages import ToolCall


def save(record: RunRecord) -> str:
    """Return a paused run as text, without its `deps`: the caller that resumes it gives them again.

    Raises:
        TypeError: JSON cannot hold a value of the session.
    """
    return saved_run(record).to_json()


def saved_run(record: RunRecord) -> SavedRun:
    """Return what `save` returns the text of."""
    from understudy.orchestration.saving.saved_run import SavedRun

    record.prepare_to_go_on()
    return SavedRun(
        run_id=record.run_id,
        runner_id=record.runner.id,
        input=record.input_text,
        machine=record.saved_machine(),
        session=lasting(record.session),
        seen=dict(record.stored.versions) if record.stored is not None else {},
        unsaved=tuple(sorted(record.stored.unsaved)) if record.stored is not None else (),
        user_id=record.options.user_id,
        conversation_id=record.options.conversation_id,
        by_error=record.by_error,
        own_history=record.options.history is not None,
        artifacts=tuple(record.artifacts.snapshot().values()),
        # A run that others wait for is saved before it pauses, which is one event more; one inside of a run, after that.
        unfed=record.unfed_turn,
        events=next_seq(record.log, is_inner=record.is_inner)
        + (0 if record.is_inner or record.is_between_turns else 1),
        of_map=record.options.of_map,
        keeps_events=record.keeps_events,
    )


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


PATIENCE = 5.0  # Seconds for the end of a child that another thread is at; it takes microseconds.


def take_child(
    machine: Machine, position: int, child: RunRecord, endings: dict[int, Outcome[object] | BaseException]
) -> bool:
    """Tell a group's machine how a child stands that was under way when the group's run ended; whether it is done.

    Args:
        machine: expects a report about the child.
        position: the child's position.
        child: the child's run; it is ended if it is still under way.
        endings: gets the outcome of a child that ended by itself.
    """
    error = _ended(child)
    if error is None:
        endings[position] = outcome = child.promise.get()
        return _take_outcome(machine, position, child, outcome)
    failure, given = ChildFailure.of(error), error if isinstance(error, Exception) else None
    how = child.way_on(error)
    if how == "never" or (how == "limit" and not child.goes_on_after(error)):
        machine.child_failed(position, failure, given)
    elif how == "limit":
        machine.child_at_limit(position, saved_inner(child), failure, given)
    elif child.goes_on_after(error):  # else it had not begun, and begins anew
        machine.child_kept(position, saved_inner(child))
    return False


def _take_outcome(machine: Machine, position: int, child: RunRecord, outcome: Outcome[object]) -> bool:
    match outcome:
        case Complete():
            machine.child_done(position, ChildResult.of(outcome, *child.session.lasting_changes()))
            return True
        case Incomplete():
            error = unfinished(child, outcome)
            machine.child_at_limit(position, saved_inner(child), ChildFailure.of(error), error)
        case _:
            machine.child_paused(position, saved_inner(child), outcome.pauses)
    return False


def take_delegated(machine: AgentRun, call: ToolCall, child: RunRecord) -> Outcome[object] | None:
    """Tell an agent's machine how the run of a sub-agent stands whose call is pending.

    Returns:
        The outcome, if the run ended by itself and the call has a result or pauses by it; nothing is told then.
    """
    error = _ended(child)
    if error is None and not isinstance(child.promise.get(), Incomplete):
        return child.promise.get()
    ends_run = machine.spec.raises(call.name) or (isinstance(error, BudgetExceeded) and error.inherited)
    if (ends_run and is_stopped(child)) or (error is not None and child.way_on(error) == "again" and is_stopped(child)):
        machine.child_stopped(call.id, saved_inner(child))
    else:
        machine.cut_off([call.id])
    return None


def is_stopped(child: RunRecord) -> bool:
    """Whether a run that is over did not come to its end, and can go on."""
    if not child.promise.done:
        return False
    error = child.promise.error()
    return isinstance(child.promise.get(), Incomplete) if error is None else child.goes_on_after(error)


def _ended(child: RunRecord) -> BaseException | None:
    """End a run inside of one that has ended, if it is under way; returns the error that it ended with.

    Raises:
        RuntimeError: another thread does not come to the end of it.
    """
    child.host.endings.cancel(child, "the run it was a part of is over")
    if not child.promise.wait(PATIENCE):
        raise RuntimeError(f"run {child.run_id} does not end")
    return child.promise.error()
