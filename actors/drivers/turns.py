"""What the actors of all runs share: their messages, the turn in which one is handled, and the end of the run.

A turn never blocks and runs no code of users. Works and runs inside post a message when they are over, on their own thread.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from math import inf
from threading import get_ident

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.log import RunLines, RunLogEntry, tell_late_driver
from understudy.actors.runs.ownership import RunDriver
from understudy.actors.runs.record import NO_CONTEXT, RunRecord
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.pool import here, run_next_here, start_next_thread, submit
from understudy.actors.threads.promise import Promise
from understudy.errors import UnderstudyError
from understudy.vocabulary.runs.handles import RunPhase
from understudy.vocabulary.runs.outcomes import Outcome

START, TIME_UP = "start", "time is up"


class End:
    """A message: end the run, or its stay here.

    Attributes:
        cancels: whether it comes from outside: the scope of the run is cancelled next, which gives its calls up.
        ended: whether this message ended it.
        error: what ending it raised.
        over: set when all that the end brings is done, for a thread that waits; None for one that has the turn itself.
    """

    __slots__ = ("cancels", "do", "ended", "error", "over")

    def __init__(self, do: Callable[[], bool], cancels: bool) -> None:
        self.do = do
        self.cancels = cancels
        self.ended = False
        self.error: BaseException | None = None
        self.over: Promise[None] | None = None


class RunMailbox:
    """The messages of a run's actor that wait, and its turn. Most never wait: who brings one takes the turn with it.

    Attributes:
        turn: held by the thread that has the turn, or for one that is about to have it.
        turn_on: the id of the thread that is at a message; 0 while none is.
        after: what is to be done when the turn is given back, because code of users may run there.
        lines: writes the log lines; None if nobody listens.
        is_cut: whether the run was ended from outside: its end waits for no line before it.
        context: the context variables of this stay, a copy of those that the run was begun with: what user code sets in one
            work, the next one sees.
    """

    __slots__ = ("_waiting", "after", "alarm", "alarm_at", "context", "is_cut", "lines", "turn", "turn_on")

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn_on = 0
        self._waiting: list[object] = []
        self.context = NO_CONTEXT
        self.lines: LineWriter | None = None
        self.is_cut = False
        self.after: list[Callable[[], object]] = []
        self.alarm: Alarm | None = None
        self.alarm_at = inf

    def put(self, message: object) -> bool:
        """Have a message wait, an end before all others; whether the caller must have a thread take the turn."""
        # First the message: a thread that has given the turn back looks for messages once more.
        if isinstance(message, End):
            self._waiting.insert(0, message)
        else:
            self._waiting.append(message)
        return self.turn.acquire(False)

    def take(self) -> object | None:
        """Return the next message; after None, for which there is none, the caller has the turn no more."""
        while not self._waiting:
            self.turn_on = 0
            self.turn.release()
            if not self._waiting or not self.turn.acquire(False):
                return None
        return self._waiting.pop(0)


class LineWriter:
    """Writes the log lines of a run in their order, one thread at a time, and none in a turn: a handler is code of users.

    It knows no run, so that a run that is over leaves no circle of references.
    """

    __slots__ = ("_lines", "_mailbox", "_waiting", "_writing", "run_id")

    def __init__(self, run_id: str, mailbox: RunMailbox, lines: RunLines) -> None:
        self.run_id = run_id
        self._mailbox = mailbox
        self._lines = lines
        self._waiting: deque[Callable[[], object]] = deque()
        self._writing = threading.Lock()

    def take(self, fact: RunLogEntry) -> None:
        """Write the line of a fact, or have it written when the turn is given back."""
        mailbox = self._mailbox
        if mailbox.turn_on != get_ident():
            self.add(partial(copy_context().run, self._lines.take, fact))
            self.write()
        elif mailbox.is_cut:  # a handler that blocks must not hold up an end from outside
            mailbox.after.append(partial(mailbox.context.copy().run, self._lines.take, fact))
        else:
            self.add(partial(mailbox.context.copy().run, self._lines.take, fact))

    def add(self, do: Callable[[], object]) -> None:
        """Have something done when the lines before it are written."""
        self._waiting.append(do)

    def write(self) -> None:
        """Do what waits, unless another thread is at it."""
        while self._waiting and self._writing.acquire(False):
            try:
                while self._waiting:
                    safely(self, self._waiting.popleft())
            finally:
                self._writing.release()


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
        """Begin, or go on after a crash; with `last` the calling thread has nothing more to do and may be used."""
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

    def give_to(self, driver: RunDriver, epoch: int) -> bool:
        is_given = super().give_to(driver, epoch)
        self.driver = None  # it is this object itself
        return is_given

    def refused(self, cause: RuntimeError) -> None:
        """Take the turn here, for it is short: no thread can be started."""
        self.run_turns()

    def writer_of(self, lines: RunLines) -> Callable[[RunLogEntry], object]:
        self.mailbox.context = self.started_in  # for a run that ends before it starts
        writer = self.mailbox.lines = LineWriter(self.run_id, self.mailbox, lines)
        return writer.take

    def lost_work(self, error: UnderstudyError, cause: BaseException) -> None:
        """End the run: a work has no thread, or cannot say what came of it."""
        error.__cause__ = cause
        if not self.host.endings.fail(self, error, self.epoch):
            tell_late_driver(self.link, cause)

    def run_turns(self) -> None:
        """Take the turn, which was promised to this thread."""
        message = self.mailbox.take()
        if message is not None:
            self._take_turn(message)

    def _take_turn(self, message: object) -> None:
        """Handle this message and those that wait; then, without the turn, do what the end of the run brings."""
        mailbox = self.mailbox
        after: list[Callable[[], object]] = []
        following: object | None = message
        thread = get_ident()
        while following is not None:
            mailbox.turn_on = thread
            try:
                self._handle(following)
            except BaseException as failure:  # a fault of the runtime's own: the run must not hang
                mailbox.after.append(partial(self.host.endings.cannot_go_on, self, failure, self.epoch))
            if mailbox.after:
                after += mailbox.after
                mailbox.after = []
            following = mailbox.take()
            if following is not None:
                start_next_thread()  # else the work for this thread would wait for all messages
        if mailbox.lines is not None:
            mailbox.lines.write()
        for each in after:
            safely(self, each)

    def _handle(self, message: object) -> None:
        if type(message) is End:
            self._handle_end(message)
        elif self.phase != "running":
            return
        elif message is TIME_UP:
            self.mailbox.alarm, self.mailbox.alarm_at = None, inf
            self.time_is_up()
        else:
            if message is START:  # a work that hangs has entered the context before
                self.mailbox.context = self.started_in.copy()
            self.take_message(message)

    # --- time

    def watch(self, moment: float) -> None:
        """Have a message come at a moment; one alarm for all works, for most are over long before."""
        mailbox = self.mailbox
        if moment < mailbox.alarm_at:
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
        do = partial(super().end, ending, phase, epoch=epoch, overdue=overdue, commit=commit, keep=keep)
        message = End(do, cancels=epoch is None)
        if self.mailbox.turn_on == get_ident():  # a handler of log lines ends it
            self._handle_end(message)
        elif here() is not None and self.mailbox.turn.acquire(False):
            self._take_turn(message)
            if message.cancels:
                start_next_thread()  # what this thread is at may go on for long
        else:
            self._wait_for(message)
        if message.error is not None:
            raise message.error
        return message.ended

    def _wait_for(self, message: End) -> None:
        """Have another thread end the run, or this one if it was to take the turn."""
        message.over = Promise()
        is_free, thread = self.mailbox.put(message), here()
        if thread is None:
            if is_free:
                submit(self)
        elif is_free or thread.next is self:
            if not is_free:
                thread.next = None  # it was this thread that was to take the turn
            self.run_turns()
            if message.cancels:
                start_next_thread()
        message.over.wait()

    def _handle_end(self, message: End) -> None:
        mailbox = self.mailbox
        mailbox.is_cut = message.cancels
        try:
            message.ended = message.do()
        except BaseException as error:
            message.error = error
        if message.ended:
            self._call_off_alarm()
            self.let_go_of_works(message.cancels)
        if message.over is not None:
            mailbox.after.append(partial(message.over.set, None))

    def complete(self, ending: Outcome[object] | BaseException) -> None:
        mailbox, do = self.mailbox, partial(super().complete, ending)
        if mailbox.lines is None or mailbox.is_cut:
            mailbox.after.append(do)
        else:
            mailbox.lines.add(do)

    def _call_off_alarm(self) -> None:
        if self.mailbox.alarm is not None:
            self.mailbox.alarm.call_off()
            self.mailbox.alarm = None
