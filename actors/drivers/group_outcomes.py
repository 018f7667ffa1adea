"""The outcome of a group's or workflow's run, from its machine and from what its children came to; and how the run ends with it."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.ownership import Stale
from understudy.orchestration.agent.pauses import paused_by
from understudy.orchestration.graph.run import GraphRun
from understudy.vocabulary.context.budget import in_dollars
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, NeedsApproval, NeedsInput, Pause, stamp


def done_outcome(record: GroupRunRecord, outcome: Complete[str] | Incomplete) -> Complete[str] | Incomplete:
    """Return the outcome of a run that its machine has ended."""
    if isinstance(outcome, Incomplete) and not outcome.last_text:
        outcome = replace(outcome, last_text=_last_text(record))
    spending = record.account.spending
    told = replace(
        outcome,
        turns=record.turns,
        usage=spending.usage,
        cost_usd=in_dollars(spending.cost),
        children=record.outcomes.at_the_end(),
    )
    stamp(told, record.run_id, lasting(record.session), record.artifacts.snapshot())
    return told


def _last_text(record: GroupRunRecord) -> str:
    """Return what the first child that is incomplete said last."""
    endings = [record.endings[position] for position in sorted(record.endings)]
    return next((ending.last_text for ending in endings if isinstance(ending, Incomplete)), "")


def paused_outcome(record: GroupRunRecord, pauses: tuple[Pause, ...]) -> NeedsInput | NeedsApproval:
    """Return the outcome of a run that its machine has paused; it has no token yet."""
    spending = record.account.spending
    return replace(
        paused_by(pauses),
        run_id=record.run_id,
        agent_id=record.group.id,
        iterations=record.iterations,
        turns=record.turns,
        usage=spending.usage,
        cost_usd=in_dollars(spending.cost),
        session=lasting(record.session),
        artifacts=record.artifacts.snapshot(),
        tasks=record.machine.tasks if isinstance(record.machine, GraphRun) else {},
        children=record.outcomes.at_the_end(),
    )


# --- the end, for the work that holds `epoch`; callbacks hear of it first


def end_done(record: GroupRunRecord, epoch: int, outcome: Complete[str] | Incomplete) -> None:
    """End a run that its machine has ended."""
    record.lay_changes(epoch)
    told = done_outcome(record, outcome)
    record.tell_ending(epoch, told)
    record.end_children(epoch)
    record.host.endings.complete(record, told, epoch)


def end_paused(record: GroupRunRecord, epoch: int, pauses: tuple[Pause, ...]) -> None:
    """End the stay of a run that waits for a person."""
    paused = paused_outcome(record, pauses)
    record.tell_ending(epoch, paused)
    record.host.endings.park(record, paused, epoch)


def end_failed(record: GroupRunRecord, epoch: int, error: Exception) -> None:
    """End a run with an error."""
    with contextlib.suppress(Stale):  # the run has ended, or was taken over
        record.end_children(epoch)  # first: the number of the next event is stored with the run
        if record.group.callbacks and record.left_error is None:
            record.host.endings.give_token(record, error, epoch)  # first: callbacks see the error with it
        if record.left_error is None:
            record.tell_ending(epoch, error)
        record.host.endings.fail(record, error, epoch)
