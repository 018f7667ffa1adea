"""The runs inside of a group's or workflow's run: how each begins, and what the run around it is told of its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from understudy.actors.run_view.log import Retried
from understudy.errors import CircularAgentCall, had_its_retries
from understudy.orchestration.definitions.workflow import Task
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.children import ChildFailure, ChildOrder
from understudy.orchestration.journal.places import place_of_child
from understudy.orchestration.runs import events as e
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.ancestry import circular
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .child_runs import begun, changes_of, continued, refuse_call, saved_inner, unfinished
from .group_children import ChildEnd, Inside
from .group_record import GroupRunRecord
from .record import RunRecord

T = TypeVar("T")


# --- the beginning


def begin_child(record: GroupRunRecord, epoch: int, order: ChildOrder, *, here: bool = False) -> bool:
    """Begin a child now; False if it failed instead, of which the machine is told.

    Args:
        record: the run around it.
        epoch: of its stay.
        order: which child, and with what.
        here: whether the calling thread has nothing more to do, and may be used for the child.

    Raises:
        Stale: the run is over, or in other hands.
    """
    position = order.position
    try:
        inside = record.join(epoch, position, _prepared(record, order))
    except Exception as error:
        tell(record, epoch, failure_of(record, position, error, begun=False))
        return False
    inside.record.promise.when_done(inside.ended)
    record.log.begin_child(inside.fact)  # first: the child may ask its model before this run is cancelled
    try:
        record.host.launch(inside.record, last=here)
    except Exception as error:
        record.log.end_child(inside.fact, error)
        tell(record, epoch, failure_of(record, position, error, begun=False))
        return False
    record.launched(epoch, inside)
    return True


def _prepared(record: GroupRunRecord, order: ChildOrder) -> RunRecord:
    runner, place = record.runner_at(order.position), place_of_child(order.position)
    refuse_call(record, runner)
    if order.paused is not None:
        return continued(record, runner, order.paused, record.scope, place)
    return begun(record, runner, order.input, place, conversation_id=record.options.conversation_id)


# --- the functions of a task


def is_wanted(record: GroupRunRecord, epoch: int, position: int) -> bool:
    """Ask the task's own function whether it is to run."""
    task, machine = record.task_at(position), record.machine
    assert task is not None
    assert isinstance(machine, GraphRun)
    if not callable(task.when):
        return True
    record.begin_step(epoch, f"asking when of task {task.name}")
    return _answered(f"when of task {task.name!r}", task.when, machine.tasks)


def asks_until(record: GroupRunRecord, position: int) -> bool:
    """Whether the task has a function that says if it runs once more."""
    task = record.task_at(position)
    return task is not None and callable(task.until)


def is_to_repeat(record: GroupRunRecord, epoch: int, position: int, text: str) -> bool:
    """Ask the task's own function, if it has one, whether it is to run once more."""
    task = record.task_at(position)
    if task is None or not callable(task.until):
        return False
    record.begin_step(epoch, f"asking until of task {task.name}")
    return not _answered(f"until of task {task.name!r}", task.until, text)


class FunctionExit(Exception):
    """A task's own function raised `SystemExit` or the like: the failure of its task, and no crash of the run.

    Attributes:
        cause: what it raised.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


def cause_of(error: Exception) -> BaseException:
    """Return what a task's own function raised."""
    return error.cause if isinstance(error, FunctionExit) else error


def _answered(where: str, function: Callable[[T], object], given: T) -> bool:
    """Return the answer of a task's own function, which must be a bool: nearly every other value would count as true."""
    try:
        answer = function(given)
    except Exception:
        raise
    except BaseException as cause:
        raise FunctionExit(cause) from cause
    if not isinstance(answer, bool):
        raise WrongReturn(f"{where} must return True or False, and returned {found_instead(answer)}")
    return answer


def skipped(position: int) -> ChildEnd:
    """Return what is told of a child that is not wanted."""
    return ChildEnd(position, None, (e.ChildSkipped(str(position)),))


# --- the end


def tell_end(
    record: GroupRunRecord,
    epoch: int,
    inside: Inside,
    ending: Outcome[object] | BaseException,
    again: Callable[[], bool],
) -> None:
    """Tell the machine how a child ended or paused.

    Args:
        record: the run around it.
        epoch: of its stay.
        inside: the child.
        ending: its outcome or error.
        again: whether the task runs once more, asked if the child is complete; it may raise.
    """
    position, child = inside.fact.position, inside.record
    if not isinstance(ending, BaseException):
        try:
            end = _end_of(record, position, child, ending, again)
            record.feed(epoch, end)
        except Exception as failure:
            end = failure_of(record, position, cause_of(failure), may_retry=False)
            record.feed(epoch, end)
    else:
        stopped = _stopped(record, position, child, ending) if child.way_on(ending) == "limit" else None
        end = stopped or failure_of(record, position, ending, child=child, begun=child.has_begun)
        record.feed(epoch, end)
    record.log.end_child(inside.fact, ending)
    _note_retry(record, end)


def _end_of(
    record: GroupRunRecord, position: int, child: RunRecord, outcome: Outcome[object], again: Callable[[], bool]
) -> ChildEnd:
    """Return what is told of a child that did not fail."""
    place = str(position)
    if isinstance(outcome, Incomplete):
        error = unfinished(child, outcome)
        end = _stopped(record, position, child, error, is_incomplete=True) or failure_of(record, position, error)
        end.ending = outcome
        return end
    if not isinstance(outcome, Complete):
        return ChildEnd(position, outcome, (e.ChildPaused(place, saved_inner(child), outcome.pauses),))
    done = e.ChildDone(
        place,
        outcome.text,
        outcome.combined_text,
        outcome.iterations,
        outcome.usage,
        outcome.turns,
        again(),
        _told(child.session),
    )
    changes = changes_of(record.session, child) if record.shares_session else None
    return ChildEnd(position, outcome, (done,), changes=changes)


def _told(session: SessionOverlay) -> e.Changes | None:
    """Return what a child changed of its session, as events have it; None for nothing."""
    if not session.is_changed:
        return None
    values, removed = session.lasting_changes()
    return e.Changes(values, tuple(removed))


def _stopped(
    record: GroupRunRecord, position: int, child: RunRecord, error: BaseException, *, is_incomplete: bool = False
) -> ChildEnd | None:
    """Return what is told of a child that reached a limit or is incomplete, and can go on; None if it is to fail instead."""
    machine = record.machine
    if not (is_incomplete or child.is_at_limit()):
        return None
    if isinstance(machine, GraphRun) and machine.wants_retry(position) and _may_pass(record, position, error):
        return None
    try:
        saved = saved_inner(child)
    except (TypeError, ValueError):  # JSON cannot hold a value of its session
        return None
    failure = ChildFailure.of(error)
    limited = e.ChildLimited(str(position), saved, failure.kind, failure.message)
    return ChildEnd(position, error, (limited,), error if isinstance(error, Exception) else None)


def failure_of(
    record: GroupRunRecord,
    position: int,
    error: BaseException,
    *,
    may_retry: bool = True,
    child: RunRecord | None = None,
    begun: bool = True,
) -> ChildEnd:
    """Return what is told of a child that failed; takes one of the retries of the run if the child is run again."""
    if child is not None and child.way_on(error) == "again" and child.goes_on_after(error):
        record.stopped[position] = child
    # It had not begun, or did not go on, and may do so another time.
    is_refused = not begun and record.way_on(error) == "again"
    again = may_retry and _is_retried(record, position, error)
    # What a child that goes on changed comes with its end.
    changes = None if child is None or again or position in record.stopped else changes_of(record.session, child)
    place, failure = str(position), ChildFailure.of(error)
    told = None if changes is None else _told(changes)
    events: list[e.RunEvent] = [e.ChildFailed(place, failure.kind, failure.message, again, told)]
    stopped = record.stopped.pop(position, None) if again else None
    if stopped is not None:  # the next attempt goes on from the error, and does nothing twice
        with suppress(TypeError, ValueError):  # JSON cannot hold a value of its session, and it begins anew
            events.append(e.ChildKept(place, saved_inner(stopped)))
    if is_refused and not again:
        events.append(e.ChildRefused(place))
    given = error if isinstance(error, Exception) else None
    return ChildEnd(position, error, tuple(events), given, changes, retried=error if again else None)


def _is_retried(record: GroupRunRecord, position: int, error: BaseException) -> bool:
    machine = record.machine
    if not isinstance(machine, GraphRun) or not machine.wants_retry(position) or had_its_retries(error):
        return False
    return _may_pass(record, position, error) and record.scope.take_retry(error)


def _may_pass(record: GroupRunRecord, position: int, error: BaseException) -> bool:
    """Whether another run of the child's task may succeed after this error, as the task says."""
    task: Task | None = record.task_at(position)
    return task is not None and task.may_retry(error)


def tell(record: GroupRunRecord, epoch: int, end: ChildEnd) -> None:
    """Tell the machine of a child that did not begin, or did not come to its end."""
    record.feed(epoch, end)
    _note_retry(record, end)


def _note_retry(record: GroupRunRecord, end: ChildEnd) -> None:
    """Note that a task is run again, if it is."""
    if end.retried is None:
        return
    position, machine, task = end.position, record.machine, record.task_at(end.position)
    if task is None or not isinstance(machine, GraphRun) or not machine.expects(position):
        return  # expected no more: the others decided meanwhile
    failed, wait, runner = machine.state.children[position].attempts, machine.delay_of(position), task.runner.id
    record.log.note(
        Retried(
            what="task",
            attempt=failed,
            wait=wait,
            error=end.retried,
            task=task.name,
            position=position,
            runner_id=runner,
        )
    )


# --- children that wait for the run around them


def stuck_child(record: GroupRunRecord) -> tuple[RunRecord, CircularAgentCall] | None:
    """Return a child that waits for this run and the error to end it with, if no other child may still end.

    Both would wait for ever. Call it when there is nothing more to do.
    """
    way = record.waits.settle()
    for inside in record.children.values() if way else ():
        if inside.record.link is way[1]:
            error = circular(*[link.runner.id for link in (*way[1:], way[1])])
            error.run_id = inside.record.run_id
            record.host.tell_refused(inside.record.runner, error)
            return inside.record, error
    return None
