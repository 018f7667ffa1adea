"""The events that tell each fact of a run's log."""

from __future__ import annotations

from typing import TypedDict

from understudy.orchestration.agent.context_state import ContextChange
from understudy.vocabulary.messages import ModelTurn, ToolCall
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    CompactionFailed,
    ContextCompacted,
    ConversationDiverged,
    Event,
    RetryScheduled,
    RunFailed,
    RunFinished,
    SessionConflict,
    SessionNotSaved,
    SessionOverwritten,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDropped,
    TurnFinished,
    TurnStarted,
)
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput

from .log import (
    ChildBegan,
    ChildEnded,
    Compacted,
    Conflict,
    Delegated,
    Diverged,
    Dropped,
    Finished,
    NotSaved,
    Overwritten,
    Retried,
    RunLogEntry,
    Uncompacted,
)
from .progress import Report
from .shown_turn import ShownTurn

ENDINGS = (BaseException, Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput)


def is_late(fact: RunLogEntry, under_way: set[str]) -> bool:
    """Whether a fact is of a call that has its result: it was given up, and does not know it yet.

    Args:
        fact: what was noted next.
        under_way: ids of the calls that have begun and not ended; kept up to date here.
    """
    match fact:
        case ToolCall(id=call_id):
            under_way.add(call_id)
        case Finished(call=ToolCall(id=call_id)):
            under_way.discard(call_id)
        case Report(call=ToolCall(id=call_id)) | Delegated(call_id=call_id) | Retried(call=ToolCall(id=call_id)):
            return call_id not in under_way
        case _:
            pass
    return False


class About(TypedDict):
    """What every event says."""

    run_id: str
    path: tuple[str, ...]
    parent_run_id: str | None
    seq: int
    time: float


def is_told(fact: RunLogEntry) -> bool:
    """Whether `event_of` makes an event of a fact, which has a number then. A journal counts them at each step."""
    return not isinstance(fact, (Delegated, MoreTurns, ShownTurn))


def event_of(fact: RunLogEntry, about: About, duration: float = 0.0, attempts: int = 1) -> Event | None:
    """Return the event that tells a fact; None if there is none.

    Args:
        fact: what was noted.
        about: what every event says.
        duration: seconds that what ends with the fact took.
        attempts: requests that the model's client sent, of a turn; of a turn that was shown, the attempt shown.
    """
    match fact:
        case ChildBegan() | ChildEnded():
            return _of_child(fact, about, duration)
        case Delegated() | ShownTurn() | MoreTurns():
            return None  # the run of a call has been told; deltas have no number; nobody watches a turn
        case Conflict(keys):
            return SessionConflict(keys=keys, **about)
        case Overwritten(keys, other):
            return SessionOverwritten(keys=keys, other_run_id=other, **about)
        case NotSaved(keys, error):
            return SessionNotSaved(keys=keys, error=error, **about)
        case Dropped(turn, text, by, attempt):
            return TurnDropped(turn=turn, text=text, by=by, attempt=attempt or attempts, **about)
        case Compacted(change):
            return _of_compaction(change, about)
        case Uncompacted(error, usage):
            return CompactionFailed(error=error, usage=usage, **about)
        case Diverged():
            return ConversationDiverged(messages=int(fact), **about)
        case int():
            return TurnStarted(turn=fact, **about)
        case ToolCall():
            return ToolStarted(call=fact, **about)
        case Report(call, text, done, total):
            return ToolProgress(call=call, text=text, done=done, total=total, **about)
        case (int() as turn, ModelTurn() as response):
            return TurnFinished(turn=turn, response=response, duration=duration, attempts=attempts, **about)
        case Retried():
            return _retry(fact, about)
        case Finished(call, result, error, duration, attempts):
            return ToolFinished(
                call=call,
                result=result,
                error=error,
                duration=duration,
                attempts=attempts,
                **about,
            )
        case BaseException():
            return RunFailed(error=fact, duration=duration, **about)
        case _:
            return RunFinished(outcome=fact, duration=duration, **about)


def _of_compaction(change: ContextChange, about: About) -> Event:
    return ContextCompacted(
        how="summarized" if change.kind == "summarized" else "pruned",
        messages_before=change.messages_before,
        messages_after=change.messages_after,
        tokens_before=change.tokens_before,
        tokens_after=change.tokens_after,
        pruned=change.pruned,
        usage=change.usage,
        **about,
    )


def _retry(fact: Retried, about: About) -> Event:
    return RetryScheduled(
        what=fact.what,
        attempt=fact.attempt,
        wait=fact.wait,
        error=fact.error,
        turn=fact.turn,
        call=fact.call,
        task=fact.task,
        position=fact.position,
        runner_id=fact.runner_id,
        **about,
    )


def _of_child(fact: ChildBegan | ChildEnded, about: About, duration: float) -> Event:
    child = fact if isinstance(fact, ChildBegan) else fact.child
    position, runner_id, child_run_id, task = child.position, child.runner_id, child.run_id, child.task
    if isinstance(fact, ChildBegan):
        return ChildStarted(
            position=position,
            runner_id=runner_id,
            child_run_id=child_run_id,
            task=task,
            **about,
        )
    return ChildFinished(
        position=position,
        runner_id=runner_id,
        child_run_id=child_run_id,
        task=task,
        outcome=None if isinstance(fact.ending, BaseException) else fact.ending,
        error=fact.ending if isinstance(fact.ending, BaseException) else None,
        duration=duration,
        **about,
    )
