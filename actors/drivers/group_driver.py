"""The driver of an orchestrator's run: begins the children that are due, and tells the machine what came of them.

It is an actor that only routes: it is woken when it is begun, when a child ends and when a retry is due, and holds no
thread in between.
"""

from __future__ import annotations

import time
from functools import partial
from sys import maxsize
from typing import assert_never, cast

from understudy.actors.cells.cell import Cell
from understudy.actors.run_view.errors import timed_out
from understudy.actors.runs.group_children import Inside
from understudy.actors.runs.group_record import GroupRunRecord, Woken
from understudy.actors.runs.ownership import Stale
from understudy.errors import UnderstudyError
from understudy.orchestration.group.children import AwaitChildren, ChildOrder, RunChildren
from understudy.orchestration.group.group_run import GroupDone
from understudy.vocabulary.runs.outcomes import Complete

from .child_ends import (
    begin_child,
    cause_of,
    failure_of,
    is_to_repeat,
    is_wanted,
    skipped,
    stuck_child,
    tell,
    tell_end,
)
from .group_outcomes import end_done, end_failed, end_paused

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
            end_failed(record, epoch, error)
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
        stuck = stuck_child(record)
        if stuck is not None:
            record.host.endings.refuse(*stuck)

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
                return end_failed(record, epoch, error)
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
                    return end_paused(record, epoch, pauses)
                case GroupDone(outcome=outcome):
                    return end_done(record, epoch, outcome)
                case _:
                    assert_never(step)

    # --- beginning a child

    def _begin(self, order: ChildOrder) -> bool:
        """Begin a child, now or later; True if the machine was told something instead."""
        record, epoch, position = self._record, self._epoch, order.position
        if order.delay and position not in record.retries.due:
            record.wake_at(time.monotonic() + order.delay, position)
            return False
        try:
            if order.asks_when and not is_wanted(record, epoch, position):
                record.feed(epoch, skipped(position))
                return True
        except Exception as error:
            tell(record, epoch, failure_of(record, position, cause_of(error), may_retry=False))
            return True
        return not begin_child(record, epoch, order)

    # --- what came of a child

    def _is_to_repeat(self, inside: Inside) -> bool:
        outcome = cast("Complete[object]", inside.record.promise.get())
        return is_to_repeat(self._record, self._epoch, inside.fact.position, outcome.text)

    def _report(self, position: int) -> bool:
        """Tell the machine what came of a child; False if nothing did yet."""
        inside = self._record.children.get(position)
        if inside is None or not inside.record.promise.done:
            return False
        tell_end(self._record, self._epoch, inside, partial(self._is_to_repeat, inside))
        return True
