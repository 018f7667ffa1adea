"""Tells what a run's compaction has changed: as entries of its log, from which events and log lines are made."""

from __future__ import annotations

from understudy.actors.run_view.log import Compacted, Dropped, RunLog, RunLogEntry, Uncompacted
from understudy.errors import BadReply
from understudy.orchestration.agent.context_state import ContextChange, ContextState

BY = "compaction"
"""Who dropped a turn, where a callback's name stands otherwise."""


def note_changes(log: RunLog, context: ContextState, error: BaseException | None = None) -> list[RunLogEntry]:
    """Note all changes that were not told yet, under the lock of the run's record, and return them for their lines.

    Args:
        log: of the run.
        context: the part of its state that changed.
        error: why there is no summary, if a model call failed.
    """
    news, context.news = context.news, []
    facts = [_fact_of(change, error) for change in news]
    for fact in facts:
        log.note(fact, with_line=False)
    return facts


def _fact_of(change: ContextChange, error: BaseException | None) -> RunLogEntry:
    match change.kind:
        case "failed":
            why = BadReply(f"the conversation was not summed up: {change.problem}") if error is None else error
            return Uncompacted(why, change.usage)
        case "dropped":
            return Dropped(change.turn, change.text, BY)
        case _:
            return Compacted(change)
