"""Where a run of a store stands: read from what the store has of it, and from whether its process lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from understudy.actors.stores.runs import MAX_TAKEOVERS, user_of
from understudy.vocabulary.runs.stored_runs import StoredRunPhase, StoredRunStatus

from .run_list import PauseHead, RunEntry, RunHead, fields_of


def standing(entry: RunEntry, lives: Callable[[str], bool], now: float) -> StoredRunStatus:
    """Return where a run stands.

    Args:
        entry: what the store has of it.
        lives: whether the process of a name lives.
        now: seconds since 1970.
    """
    if entry.head is not None and entry.head.state != "over":
        return _journaled(entry.head, lives)
    pause = entry.waits
    if pause is not None:
        return _waiting(entry, pause, now)
    return _over(entry)


def _journaled(head: RunHead, lives: Callable[[str], bool]) -> StoredRunStatus:
    phase: StoredRunPhase = "left"
    reason = ""
    if head.state == "parked":
        phase, reason = "cannot_go_on", head.ending
    elif lives(head.owner):
        phase = "under_way"
    elif head.takeovers >= MAX_TAKEOVERS:
        phase, reason = "cannot_go_on", f"{head.takeovers} processes died while they drove it"
    return _of_head(head, phase, reason, head.created_at)


def _of_head(head: RunHead, phase: StoredRunPhase, reason: str, since: float | None) -> StoredRunStatus:
    return StoredRunStatus(
        run_id=head.run_id,
        system=head.app,
        runner_id=head.runner_id,
        phase=phase,
        reason=reason,
        since=since,
        takeovers=head.takeovers,
        user_id=head.user_id,
        conversation_id=head.conversation_id,
        cancel_requested=head.cancel_requested is not None and phase != "over",
    )


def _waiting(entry: RunEntry, pause: PauseHead, now: float) -> StoredRunStatus:
    told = fields_of(pause.payload)
    is_leased = pause.leased_until is not None and pause.leased_until > now  # a worker does one turn of it
    user = told.get("user_id")
    return StoredRunStatus(
        run_id=entry.run_id,
        system=entry.app,
        runner_id=cast(str, told.get("runner_id") or ""),
        phase="under_way" if is_leased else "waiting",
        reason=entry.head.ending if entry.head is not None else "",
        since=_began(entry) if is_leased else pause.put_at,
        takeovers=0 if entry.head is None else entry.head.takeovers,
        user_id=None if user is None else user_of(cast(str, user)),
        conversation_id=cast("str | None", told.get("conversation_id")),
        by_error=told.get("by_error") is True,
    )


def _began(entry: RunEntry) -> float | None:
    return None if entry.head is None else entry.head.created_at


def _over(entry: RunEntry) -> StoredRunStatus:
    if entry.head is not None:
        return _of_head(entry.head, "over", entry.head.ending, entry.head.ended_at)
    return StoredRunStatus(run_id=entry.run_id, system=entry.app, runner_id="", phase="over")
