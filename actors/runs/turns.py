"""What the actors of all runs share: their messages, the turn in which one is handled, and the end of the run.

A turn never blocks and runs no code of users. Works and runs inside post a message when they are over, on their own thread.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from math import inf
from threading import get_ident

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.log import RunLines, RunLogEntry, tell_late_work
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.pool import of_thread, run_next_here, start_next_thread, submit
from understudy.diagnostics import held_here
from understudy.errors import UnderstudyError
from understudy.vocabulary.runs.handles import RunPhase
from understudy.vocabulary.runs.outcomes import Outcome

from .ownership import InHand
from .record import NO_CONTEXT, RunRecord

START, TIME_UP = "start", "time is up"


class RunMailbox:
    """The messages of a run's actor that wait, and its turn. Most never wait: who brings one takes the turn with it.

    Attributes:
        turn: held by the thread that has the turn, or for one that is about to have it.
        state: held while a message is handled, and let go of while a line of the log is written: a handler of the host's may
            block, or end the run. Who ends the run takes it for a moment; later messages are dropped.
        held_by: the id of the thread that holds it at a message; 0 while none does.
        ended_by: the id of the thread that has ended the run, or its stay; 0 before that.
        context: the context variables of this stay, copied from those that the run was begun with. The next work sees what user
            code sets in a work.
    """

    __slots__ = ("_waiting", "alarm", "alarm_at", "context", "ended_by", "held_by", "state", "turn")

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.state = threading.Lock()
        self.held_by = self.ended_by = 0
        self._waiting: list[object] = []
        self.context = NO_CONTEXT
        self.alarm: Alarm | None = None
        self.alarm_at = inf

    def put(self, message: object) -> bool:
        """Have a message wait; whether the caller must have a thread take the turn."""
        # First the message: a thread that has given the turn back looks for messages once more.
        self._waiting.append(message)
        return self.turn.acquire(False)

    def take(self) -> object | None:
        """Return the next message; after None, for which there is none, the caller has the turn no more."""
        while not self._waiting:
            self.turn.release()
            if not self._waiting or not self.turn.acquire(False):
                return None
        return self._waiting.pop(0)

    def let_go(self) -> None:
        """Let others end the run: this thread, which is at a message, writes a line."""
        self.held_by = 0
        self.state.release()

    def take_back(self) -> None:
        """Go on with the message, or with what the end left of it."""
        self.state.acquire()
        self.held_by = get_ident()


class RunTurns(RunRecord):
    """The part of a run's actor that is the same for agents and groups.

    It stands before the record among the bases of an actor, has no slots of its own, and the actor makes the mailbox.
    """

    __slots__ = ()

    mailbox: RunMailbox

    # --- what each kind of run has of its own

    @abstractmethod
    def take_message(self, message: object) -> None:
        """Handle a message of a run that goes on: START, or what came of a work."""

    @abstractmethod
    def time_is_up(self) -> None:
        """Do what the time says, and watch for the next moment."""

    @abstractmethod
    def let_go_of_works(self, cancels: bool) -> None:
        """Wait for works no longer, for the run has ended; `cancels` says whether its scope is cancelled next."""

    # --- messages

    def begin(self, *, last: bool) -> None:
        if self.mailbox.put(START):
            (run_next_here if last else submit)(self)

    def hear(self, message: object) -> None:
        """Take a message from a thread that has done its work: it takes the actor's turn, if nobody has it."""
        if self.mailbox.turn.acquire(False):  # a named argument takes twice as long
            self._take_turn(message)
        elif self.mailbox.put(message):  # it was given back in this very moment
            self.run_turns()

    def post(self, message: object) -> None:
        """Take a message from a thread that has more to do, or waits for the run: another one takes the turn."""
        if self.mailbox.put(message):
            submit(self)

    def refused(self, cause: RuntimeError) -> None:
        """Take the turn here, for it is short: no thread can be started."""
        self.run_turns()

    def writer_of(self, lines: RunLines) -> Callable[[RunLogEntry], object]:
        self.mailbox.context = self.started_in  # for a run that ends before it starts
        return partial(_write_line, self.mailbox, lines)

    def lost_work(self, error: UnderstudyError, cause: BaseException) -> None:
        """End the run: a work has no thread, or cannot say what came of it."""
        error.__cause__ = cause
        if not self.host.endings.fail(self, error, self.epoch):
            tell_late_work(self.link, cause)

    def run_turns(self) -> None:
        """Take the turn, which was promised to this thread."""
        message = self.mailbox.take()
        if message is not None:
            self._take_turn(message)

    def _take_turn(self, message: object) -> None:
        """Handle this message and those that wait; then, without the turn, do what the end of the run brings."""
        mailbox, thread = self.mailbox, get_ident()
        held, outer = held_here.locks, of_thread.after
        after = of_thread.after = []
        following: object | None = message
        while following is not None:
            with mailbox.state:
                mailbox.held_by, held_here.locks = thread, (*held, mailbox)
                try:
                    if self.phase == "running":
                        if following is START or following is TIME_UP:
                            self._note_time(following)
                        if following is not TIME_UP:
                            self.take_message(following)
                except BaseException as failure:  # a fault of the runtime's own: the run must not hang
                    after.append(partial(self.host.endings.cannot_go_on, self, failure, self.epoch))
                mailbox.held_by, held_here.locks = 0, held
            following = mailbox.take()
            if following is not None:
                start_next_thread()  # else the work for this thread would wait for all messages
        of_thread.after = outer
        for each in after:
            safely(self, each)

    def _note_time(self, message: object) -> None:
        """Take a message that says what time it is: that of a new stay, or that something is due."""
        if message is START:  # a work that hangs has entered the context before
            self.mailbox.context = self.started_in.copy()
        else:
            self.mailbox.alarm, self.mailbox.alarm_at = None, inf
            self.time_is_up()

    # --- time

    def watch(self, moment: float) -> None:
        """Have a message come at a moment; one alarm for all works, for most are over long before."""
        mailbox = self.mailbox
        if moment < mailbox.alarm_at and self.phase == "running":
            if mailbox.alarm is not None:
                mailbox.alarm.call_off()
            mailbox.alarm_at = moment
            mailbox.alarm = ring_at(moment, partial(self.hear, TIME_UP))

    # --- the end

    def end(
        self,
        ending: Outcome[object] | BaseException,
        phase: RunPhase,
        *,
        epoch: int | None = None,
        overdue: float | None = None,
        commit: Callable[[], object] | None = None,
        keep: Callable[[], object] | None = None,
    ) -> bool:
        end = partial(super().end, ending, phase, epoch=epoch, overdue=overdue, commit=commit, keep=keep)
        if self.mailbox.held_by == get_ident():  # what this thread does in its turn ends it
            return self._end(end, cancels=epoch is None)
        outer = of_thread.after
        after = of_thread.after = []
        try:
            return self._end(end, cancels=epoch is None)
        finally:
            of_thread.after = outer
            for each in after:
                safely(self, each)
            if epoch is None:
                start_next_thread()  # what this thread is at may go on for long

    def _end(self, end: Callable[[], bool], *, cancels: bool) -> bool:
        """End the run; `cancels` says whether its scope is cancelled next, which gives its calls up."""
        is_ended = end()
        if is_ended:
            if self.mailbox.alarm is not None:
                self._call_off_alarm()
            self.let_go_of_works(cancels)
        return is_ended

    def _stop(
        self,
        phase: RunPhase,
        epoch: int | None,
        overdue: float | None,
        commit: Callable[[], object] | None,
        *,
        keeps: bool,
    ) -> tuple[str, InHand | None] | None:
        mailbox = self.mailbox
        stop = partial(super()._stop, phase, epoch, overdue, commit, keeps=keeps)
        if mailbox.held_by == get_ident():
            stopped = stop()
        else:
            with mailbox.state:  # a Ctrl-C may come here
                stopped = stop()
        if stopped is not None:
            mailbox.ended_by = get_ident()
        return stopped

    def complete(self, ending: Outcome[object] | BaseException) -> None:
        of_thread.after.append(partial(super().complete, ending))

    def _call_off_alarm(self) -> None:
        alarm, self.mailbox.alarm = self.mailbox.alarm, None
        if alarm is not None:
            alarm.call_off()


def _write_line(mailbox: RunMailbox, lines: RunLines, fact: RunLogEntry) -> None:
    """Write the line of a fact with the context variables of the run, which a turn and an end have not entered."""
    if get_ident() in (mailbox.held_by, mailbox.ended_by):
        mailbox.context.copy().run(lines.take, fact)
    else:
        lines.take(fact)
