"""The runs inside of a run that an error ended: each is taken into the machine around it, before that is saved or goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import BudgetExceeded
from understudy.orchestration.group.children import ChildFailure, ChildResult
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .child_runs import saved_inner, unfinished
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.agent.run import AgentRun
    from understudy.orchestration.saving.machines import Machine
    from understudy.vocabulary.messages import ToolCall

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
