"""The actor of a group's or workflow's run: begins the children that are due, and tells its machine what came of them.

Its turn never blocks and runs no code of users: functions of tasks, callbacks and the loading of a session are works. One is
under way at a time, and children that end meanwhile wait until it is over. The thread that ends a child takes the turn.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from understudy.actors.run_view.errors import timed_out
from understudy.actors.threads.pool import here, of_thread, run_next_here
from understudy.errors import UnderstudyError
from understudy.orchestration.group.children import ChildOrder
from understudy.orchestration.group.group_run import GroupDone
from understudy.orchestration.runs import events as e
from understudy.vocabulary.runs.outcomes import Complete, Outcome

from .child_ends import (
    asks_until,
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
from .group_children import Inside
from .group_record import GroupRunRecord
from .outcomes import end_done, end_failed, end_paused
from .ownership import Stale
from .turns import START, TIME_UP, RunMailbox, RunTurns
from .works import SAID, Events, RunWork

NEWS = "news"


class GroupRunActor(RunTurns, GroupRunRecord):
    """One run of a group or workflow, which its messages drive."""

    __slots__ = (
        "_is_told",
        "_is_woken",
        "_looks_at_all",
        "_orders",
        "_over",
        "_work",
        "mailbox",
    )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.mailbox = RunMailbox()
        self._work: GroupWork | None = None
        """The work under way."""
        self._over: deque[int] = deque()
        """Positions of children to look at."""
        self._orders: deque[int] = deque()
        """Positions of children to begin."""
        self._is_told = False
        """Whether the machine is to be asked what is due."""
        self._looks_at_all = False
        """Whether it is to be asked for all that is due, as at the beginning of a stay, and not only for what is new."""
        self._is_woken = False
        """Whether a message is on its way at which it looks for news."""

    # --- messages

    def child_ended(self, position: int) -> None:
        self.news.append(position)
        if not self._is_woken:  # one message is enough for children that end together
            self._is_woken = True
            (self.post if here() is None else self.hear)(NEWS)  # a caller's thread only posts

    def take_message(self, message: object) -> None:
        self.mailbox.context.copy().run(self._take, message)

    def time_is_up(self) -> None:
        self.watch(self.retries.look(time.monotonic()))
        self.take_message(TIME_UP)

    def _take(self, message: object) -> None:
        try:
            self.look(self.epoch)
            if self.left_error is not None:  # a child could not write, so nobody is told how it ended
                raise self.left_error
            if message is NEWS:
                self._is_woken = False  # before it looks: what comes after that wakes it again
            elif message is TIME_UP:
                self._is_told = True
            elif message is START:
                self._begin_stay()
            else:
                self._take_work(message)
            self._go_on()
        except Stale:
            pass  # a handler of log lines has ended the run
        except UnderstudyError as error:
            self._begin(Fail(self, error))
        except BaseException as cause:
            of_thread.after.append(partial(self.host.crashed, self, cause, self.epoch))

    def _begin_stay(self) -> None:
        """Look at all children, also those that began before a crash."""
        self._work = None
        self.news.clear()
        self._orders.clear()
        self.forget_unlaunched(self.epoch)
        self._over = deque(self.children)
        self._is_told = self._looks_at_all = True
        if self.has_session_to_load:
            self._begin(Open(self))

    # --- what is due

    def _go_on(self) -> None:
        """Do what there is to do, until a work is under way or only children can bring more."""
        deadline = self.scope.deadline
        if self._work is None and deadline is not None and time.monotonic() >= deadline:
            return self._begin(Fail(self, timed_out(self)))  # before a child's own error says so
        while self._work is None and self.phase == "running":
            if self._over:
                self._report(self._over.popleft())
            elif self._orders:
                self._begin_order(self._orders.popleft())
            elif self._is_told:
                self._take_due()
            elif self.news:
                self._over.extend([self.news.popleft() for _ in range(len(self.news))])
            else:
                return self._settle()
        return None

    def _settle(self) -> None:
        stuck = stuck_child(self)
        if stuck is not None:  # its own turn may wait for this one
            of_thread.after.append(partial(self.host.endings.refuse, *stuck))

    def _begin(self, work: GroupWork) -> None:
        if self.phase == "running":  # else it was ended while a line was written
            self._work = self.in_hand = work
            run_next_here(work)

    def _take_due(self) -> None:
        """Ask the machine what is due: children to begin, or the end of the run."""
        is_all, self._is_told, self._looks_at_all = self._looks_at_all, False, False
        again = [] if is_all else [order.position for order in self.due_again(self.epoch)]
        due = self.state.due(only_new=not is_all)
        if due and due[0].kind != "child":
            return self._begin(self._work_for(due[0].kind))
        new = [int(each.key) for each in due if int(each.key) not in self.children]
        for position in new:
            self._admit(position)
        self._orders.extend([*again, *new])
        if self.journal is not None:  # before a child begins, whose own rows need those of the run around it
            self._begin(Write(self))
        return None

    def _work_for(self, kind: str) -> GroupWork:
        match kind:
            case "finish":
                return Finish(self)
            case "ask":
                return Pause(self)
            case "fail":
                return Fail(self)
            case _:
                raise AssertionError(kind)

    def _admit(self, position: int) -> None:
        task = self.task_at(position)
        name = "" if task is None else task.name
        self.tell(e.ChildBegan(str(position), "", self.runner_at(position).id, name))

    # --- children

    def _begin_order(self, position: int) -> None:
        """Begin a child, now or later."""
        if position in self.children:
            return
        order = self.machine.order_of(position)
        if order.delay and position not in self.retries.due:
            moment = time.monotonic() + order.delay
            self.retries.set(moment, position)
            self.watch(moment)
        elif order.asks_when:
            self._begin(AskWhen(self, order))
        else:
            self._begin_now(order)

    def _begin_now(self, order: ChildOrder) -> None:
        """Begin a child, the last one of several on this thread."""
        if not begin_child(self, self.epoch, order, here=not self._orders):
            self._is_told = True

    def _report(self, position: int) -> None:
        """Take what came of a child, if it is over."""
        inside = self.children.get(position)
        if inside is None or not inside.record.promise.done:
            return
        error = inside.record.promise.error()
        ending = inside.record.promise.get() if error is None else error
        if self.workflow is not None and isinstance(ending, Complete) and asks_until(self, position):
            self._begin(AskUntil(self, inside, ending))
        else:
            self._take_end(inside, ending, _never)

    def _take_end(self, inside: Inside, ending: Outcome[object] | BaseException, again: Callable[[], bool]) -> None:
        self._is_told = True
        tell_end(self, self.epoch, inside, ending, again)

    def _take_work(self, work: object) -> None:
        if work is not self._work:
            return  # it was given up
        self._work = None
        if isinstance(work, AskWhen):
            self._take_when(work)
        elif isinstance(work, AskUntil):
            self._take_end(work.inside, work.outcome, work.answer)

    def _take_when(self, work: AskWhen) -> None:
        position = work.order.position
        if work.said:
            return self._begin_now(work.order)
        self._is_told = True
        if work.error is None:
            return self.feed(self.epoch, skipped(position))
        return tell(self, self.epoch, failure_of(self, position, cause_of(work.error), may_retry=False))

    # --- the end

    def let_go_of_works(self, cancels: bool) -> None:
        self._work = None

    def _dismiss(self, ending: Outcome[object] | BaseException) -> None:
        of_thread.after.append(partial(super()._dismiss, ending))  # the turn of a child may wait for this one


def _never() -> bool:
    return False


class GroupWork(RunWork[GroupRunActor]):
    """One work of a group's or workflow's run."""

    __slots__ = ()

    def failed(self, error: UnderstudyError) -> Events:
        end_failed(self.run, self.epoch, error)
        return ()


class Open(GroupWork):
    """Load the session."""

    __slots__ = ()

    def do(self) -> Events:
        self.run.load_session(self.epoch)
        return SAID


class Write(GroupWork):
    """Write what is new into the journal of the run."""

    __slots__ = ()

    def do(self) -> Events:
        self.run.write_journal(self.epoch)
        return SAID


class Ask(GroupWork):
    """Ask a function of a task."""

    __slots__ = ("error", "said")

    def __init__(self, run: GroupRunActor) -> None:
        super().__init__(run)
        self.said: bool | None = None
        self.error: Exception | None = None

    def do(self) -> Events:
        try:
            self.said = self.ask()
        except Exception as error:
            self.error = error
        return SAID

    @abstractmethod
    def ask(self) -> bool:
        """Ask the function."""

    def answer(self) -> bool:
        """Return what the function said; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.said is True


class AskWhen(Ask):
    """Ask the function of a task whether it is to run."""

    __slots__ = ("order",)

    def __init__(self, run: GroupRunActor, order: ChildOrder) -> None:
        super().__init__(run)
        self.order = order

    def ask(self) -> bool:
        return is_wanted(self.run, self.epoch, self.order.position)


class AskUntil(Ask):
    """Ask the function of a task whether it is to run once more."""

    __slots__ = ("inside", "outcome")

    def __init__(self, run: GroupRunActor, inside: Inside, outcome: Complete[object]) -> None:
        super().__init__(run)
        self.inside = inside
        self.outcome = outcome

    def ask(self) -> bool:
        return is_to_repeat(self.run, self.epoch, self.inside.fact.position, self.outcome.text)


class Finish(GroupWork):
    """Tell callbacks of the outcome, and end the run."""

    __slots__ = ()

    def do(self) -> Events:
        step = self.run.machine.next_step(only_new=True)
        assert isinstance(step, GroupDone), "the events say that it is done"
        end_done(self.run, self.epoch, step.outcome)
        return ()


class Pause(GroupWork):
    """Tell callbacks that the run waits for a person, and end its stay here."""

    __slots__ = ()

    def do(self) -> Events:
        end_paused(self.run, self.epoch, self.run.pauses)
        return ()


class Fail(GroupWork):
    """End the run with an error: what its machine says, or its time."""

    __slots__ = ("error",)

    def __init__(self, run: GroupRunActor, error: Exception | None = None) -> None:
        super().__init__(run)
        self.error = error

    def do(self) -> Events:
        end_failed(self.run, self.epoch, self.error or self._of_machine())
        return ()

    def _of_machine(self) -> Exception:
        try:
            self.run.machine.next_step(only_new=True)
        except Exception as error:
            return error
        raise AssertionError("the events say that the run has failed")
