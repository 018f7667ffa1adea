"""The driver of an orchestrator's run: begins the children that are due, and tells the machine what came of them.

It is an actor that only routes: it is woken when it is begun, when a child ends and when a retry is due, and holds no
thread in between.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from sys import maxsize
from typing import TypeVar, assert_never

from understudy.actors.cells.cell import Cell
from understudy.actors.run_view.errors import timed_out
from understudy.actors.run_view.log import Retried
from understudy.actors.runs.child_runs import begun, changes_of, continued, refuse_call, saved_inner, unfinished
from understudy.actors.runs.group_children import Inside
from understudy.actors.runs.group_record import GroupRunRecord, Woken
from understudy.actors.runs.ownership import Stale
from understudy.actors.runs.record import RunRecord
from understudy.errors import UnderstudyError, had_its_retries
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.children import AwaitChildren, ChildFailure, ChildOrder, ChildResult, RunChildren
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.journal.places import place_of_child
from understudy.orchestration.saving.machines import Machine
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.ancestry import circular
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Outcome

from .group_outcomes import done_outcome, paused_outcome

T = TypeVar("T")
ALL = "all"
NEWS = "news"


class GroupDriver(Woken):
    """Drives `record` for as long as it holds `epoch`."""

    __slots__ = ("_cell", "_context", "_epoch", "_record", "_woken", "returned")

    def __init__(self, record: GroupRunRecord, epoch: int) -> None:
        self._record = record
        self._epoch = epoch
        self._context = record.started_in.copy()
        self._cell = Cell(f"{record.group.id}/{record.run_id}", lambda: self, self, capacity=maxsize)
        self._woken = False
        """Whether a message is on its way at which it looks for news."""
        self.returned = True

    def begin(self, *, last: bool) -> None:
        """Look at all children, also those that an earlier driver began."""
        self._tell(ALL)

    def wake(self) -> None:
        if not self._woken:  # one message is enough for children that end together
            self._woken = True
            self._tell(NEWS)

    def _tell(self, message: str) -> None:
        self._cell.tell(message, context=self._context, on_lost=self._record.lost)

    def on_receive(self, message: object) -> None:
        """Look at the children, and do what is due."""
        record, epoch = self._record, self._epoch
        self.returned = False
        self._woken = False  # before it looks: what comes after that wakes it again
        try:
            self._look(all_of_them=message == ALL)
        except Stale:
            pass  # the run has ended, or another driver has it: this one has nothing more to do
        except UnderstudyError as error:
            self._fail(error)
        except BaseException as cause:
            record.host.crashed(record, cause, epoch)
        finally:
            self.returned = True

    def _look(self, *, all_of_them: bool) -> None:
        record = self._record
        record.look(self._epoch)  # first: only the driver that holds the run may take its news
        deadline = record.scope.deadline
        if deadline is not None and time.monotonic() >= deadline:  # before a child's own error says so
            raise timed_out(record)
        if record.left_error is not None:  # a child could not write, so nobody is told how it ended
            raise record.left_error
        if all_of_them:
            record.load_session(self._epoch)
        ended = self._all_children() if all_of_them else self._news()
        told = [position for position in ended if self._report(position)]
        if told or all_of_them or record.retries.due:
            self._go_on(all_of_them=all_of_them)
        self._refuse_stuck()

    def _refuse_stuck(self) -> None:
        """End a child that waits for this run, if no other child may still end: both would wait for ever."""
        way = self._record.waits.settle()
        for inside in self._record.children.values() if way else ():
            if inside.record.link is way[1]:
                error = circular(*[link.runner.id for link in (*way[1:], way[1])])
                error.run_id = inside.record.run_id
                self._record.host.tell_refused(inside.record.runner, error)
                return self._record.host.endings.refuse(inside.record, error)

    def _news(self) -> list[int]:
        news = self._record.news
        return [news.popleft() for _ in range(len(news))]

    def _all_children(self) -> list[int]:
        """Return the positions of all children, without those that an earlier driver prepared and did not launch."""
        record = self._record
        self._news()
        record.forget_unlaunched(self._epoch)
        return list(record.children)

    # --- what to do next

    def _go_on(self, *, all_of_them: bool) -> None:
        """Begin what is due, or end the run."""
        record, epoch = self._record, self._epoch
        while True:
            try:
                step = record.next_step(epoch, only_new=not all_of_them)
            except Exception as error:
                self._fail(error)
                return None
            if isinstance(step, RunChildren):
                record.write_journal(epoch)  # before a child begins, whose own rows need those of the run around it
            match step:
                case RunChildren(children=orders):
                    due = [*record.due_again(epoch), *orders] if not all_of_them else orders
                    told = [self._begin(order) for order in due if order.position not in record.children]
                    if not any(told):
                        return None
                    all_of_them = False
                case AwaitChildren(pauses=pauses):
                    paused = paused_outcome(record, pauses)
                    record.tell_ending(epoch, paused)
                    return record.host.endings.park(record, paused, epoch)
                case GroupDone(outcome=outcome):
                    return self._complete(outcome)
                case _:
                    assert_never(step)

    def _complete(self, outcome: Complete[str] | Incomplete) -> None:
        record = self._record
        record.lay_changes(self._epoch)
        told = done_outcome(record, outcome)
        record.tell_ending(self._epoch, told)
        record.end_children(self._epoch)
        record.host.endings.complete(record, told, self._epoch)

    def _fail(self, error: Exception) -> None:
        """End the run with an error, after its callbacks have heard of it."""
        record = self._record
        with contextlib.suppress(Stale):  # the run has ended, or another driver has it
            record.end_children(self._epoch)  # first: the number of the next event is stored with the run
            if record.group.callbacks and record.left_error is None:
                record.host.endings.give_token(record, error, self._epoch)  # first: callbacks see the error with it
            if record.left_error is None:
                record.tell_ending(self._epoch, error)
            record.host.endings.fail(record, error, self._epoch)

    # --- beginning a child

    def _begin(self, order: ChildOrder) -> bool:
        """Begin a child, now or later; True if the machine was told something instead."""
        record, position = self._record, order.position
        if order.delay and position not in record.retries.due:
            record.wake_at(time.monotonic() + order.delay, position)
            return False
        try:
            if order.asks_when and not self._is_wanted(position):
                self._feed(position, lambda machine: _graph(machine).child_skipped(position))
                return True
        except Exception as error:
            self._failed(position, _cause(error), may_retry=False)
            return True
        try:
            inside = record.join(self._epoch, position, self._prepared(order))
        except Exception as error:
            self._tell_retry(position, self._failed(position, error, begun=False))
            return True
        inside.record.promise.when_done(inside.ended)
        record.log.begin_child(inside.fact)  # first: the child may ask its model before this run is cancelled
        try:
            record.host.launch(inside.record)
        except Exception as error:
            record.log.end_child(inside.fact, error)
            self._tell_retry(position, self._failed(position, error, begun=False))
            return True
        record.launched(self._epoch, inside)
        return False

    def _prepared(self, order: ChildOrder) -> RunRecord:
        record, runner = self._record, self._record.runner_at(order.position)
        refuse_call(record, runner)
        place = place_of_child(order.position)
        if order.paused is not None:
            return continued(record, runner, order.paused, record.scope, place)
        return begun(record, runner, order.input, place, conversation_id=record.options.conversation_id)

    def _is_wanted(self, position: int) -> bool:
        """Ask the task's own function whether it is to run."""
        task = self._record.task_at(position)
        assert task is not None
        if not callable(task.when):
            return True
        self._record.begin_step(self._epoch, f"asking when of task {task.name}")
        return _answered(f"when of task {task.name!r}", task.when, _graph(self._record.machine).tasks)

    def _is_to_repeat(self, position: int, text: str) -> bool:
        """Ask the task's own function whether it is to run once more."""
        task = self._record.task_at(position)
        if task is None or not callable(task.until):
            return False
        self._record.begin_step(self._epoch, f"asking until of task {task.name}")
        return not _answered(f"until of task {task.name!r}", task.until, text)

    # --- what came of a child

    def _report(self, position: int) -> bool:
        """Tell the machine what came of a child; False if nothing did yet."""
        inside = self._record.children.get(position)
        if inside is None or not inside.record.promise.done:
            return False
        error, again = inside.record.promise.error(), None
        if error is None:
            again = self._ended(position, inside, inside.record.promise.get())
        elif inside.record.way_on(error) != "limit" or not self._stopped(position, inside.record, error):
            again = self._failed(position, error, child=inside.record, begun=inside.record.has_begun)
        self._record.log.end_child(inside.fact, inside.record.promise.get() if error is None else error)
        self._tell_retry(position, again)
        return True

    def _ended(self, position: int, inside: Inside, outcome: Outcome[object]) -> BaseException | None:
        """Tell the machine of a child that did not fail; returns the error after which the child is run again, or None."""
        child = inside.record
        if isinstance(outcome, Incomplete):
            error, retried = unfinished(child, outcome), None
            if not self._stopped(position, child, error, is_incomplete=True):
                retried = self._failed(position, error)
            self._record.endings[position] = outcome
            return retried
        try:
            self._record.endings[position] = outcome  # first: a thread that ends the run now reads it
            if isinstance(outcome, Complete):
                result = ChildResult.of(outcome, *child.session.lasting_changes())
                again = self._is_to_repeat(position, outcome.text)
                self._feed(position, partial(_done, position, result, again), changes_of(self._record.session, child))
            else:
                saved, pauses = saved_inner(child), outcome.pauses
                self._feed(position, lambda machine: machine.child_paused(position, saved, pauses))
        except Exception as error:
            self._failed(position, _cause(error), may_retry=False)
        return None

    def _stopped(self, position: int, child: RunRecord, error: BaseException, *, is_incomplete: bool = False) -> bool:
        """Keep a child that reached a limit or is incomplete, so that it can go on; False if it is to fail instead."""
        machine = self._record.machine
        if not (is_incomplete or child.is_at_limit()):
            return False
        if isinstance(machine, GraphRun) and machine.wants_retry(position) and self._may_pass(position, error):
            return False
        try:
            saved = saved_inner(child)
        except (TypeError, ValueError):  # JSON cannot hold a value of its session
            return False
        failure, given = ChildFailure.of(error), error if isinstance(error, Exception) else None
        self._feed(position, lambda machine: machine.child_at_limit(position, saved, failure, given))
        self._record.endings[position] = error
        return True

    def _failed(
        self,
        position: int,
        error: BaseException,
        *,
        may_retry: bool = True,
        child: RunRecord | None = None,
        begun: bool = True,
    ) -> BaseException | None:
        """Tell the machine that a child failed; returns the error if the child is run again."""
        if child is not None and child.way_on(error) == "again" and child.goes_on_after(error):
            self._record.stopped[position] = child
        failed = _Failure(position, ChildFailure.of(error), error if isinstance(error, Exception) else None)
        failed.is_refused = not begun and self._record.way_on(error) == "again"
        machine = self._record.machine
        self._record.endings[position] = error  # counts when the machine has the child as failed
        if not isinstance(machine, GraphRun):
            self._feed(position, failed.tell)
            return None
        final = not may_retry or not machine.wants_retry(position) or had_its_retries(error)
        final = final or not self._may_pass(position, error)
        again = not final and self._record.scope.take_retry(error)
        if again:
            self._record.stopped.pop(position, None)  # the next attempt is another run
        failed.may_retry = again
        self._feed(position, failed.tell)
        return error if again else None

    def _tell_retry(self, position: int, error: BaseException | None) -> None:
        """Note that a task is run again, if it is."""
        machine, task = self._record.machine, self._record.task_at(position)
        if error is None or task is None or not isinstance(machine, GraphRun) or not machine.expects(position):
            return  # expected no more: the others decided meanwhile
        failed, wait, runner = machine.state.children[position].attempts, machine.delay_of(position), task.runner.id
        fact = Retried(
            what="task", attempt=failed, wait=wait, error=error, task=task.name, position=position, runner_id=runner
        )
        self._record.log.note(fact)

    def _may_pass(self, position: int, error: BaseException) -> bool:
        """Whether another run of the child's task may succeed after this error, as the task says."""
        task = self._record.task_at(position)
        return task is not None and task.may_retry(error)

    def _feed(self, position: int, do: Callable[[Machine], object], overlay: SessionOverlay | None = None) -> None:
        self._record.feed(self._epoch, position, do, overlay)


@dataclass(slots=True)
class _Failure:
    """What the machine is told of a child that failed."""

    position: int
    failure: ChildFailure
    error: Exception | None
    is_refused: bool = False
    """Whether it had not begun, or did not go on, and may do so another time."""
    may_retry: bool = False

    def tell(self, machine: Machine) -> None:
        before = machine.state.children[self.position].paused
        if isinstance(machine, GraphRun):
            machine.child_failed(self.position, self.failure, self.error, may_retry=self.may_retry)
        else:
            machine.child_failed(self.position, self.failure, self.error)
        if self.is_refused and not self.may_retry:
            machine.child_refused(self.position, before)


def _done(position: int, result: ChildResult, again: bool, machine: Machine) -> None:
    if isinstance(machine, GraphRun):
        machine.child_done(position, result, again=again)
    else:
        machine.child_done(position, result)


class FunctionExit(Exception):
    """A task's own function raised `SystemExit` or the like: the failure of its task, and no fault of the driver.

    Attributes:
        cause: what it raised.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


def _cause(error: Exception) -> BaseException:
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


def _graph(machine: Machine) -> GraphRun:
    assert isinstance(machine, GraphRun)
    return machine
