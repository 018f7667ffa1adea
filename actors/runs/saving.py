"""A paused run's record as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.run_view.event_count import next_seq
from understudy.vocabulary.context.overlays import lasting

from .record import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.saving.saved_run import SavedRun


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
