"""Crashes of runs: the runner's actor fails, and the run goes on in another stay, or ends."""

from __future__ import annotations

from collections.abc import Callable
from logging import WARNING
from typing import TYPE_CHECKING

from understudy.actors.run_view.errors import named, safely
from understudy.actors.run_view.log import tell_late_work
from understudy.actors.runs.record import RunRecord
from understudy.diagnostics import emit
from understudy.errors import AgentCrashed, UnderstudyError, had_its_retries, in_words
from understudy.vocabulary.actors.system_events import RunCrashed
from understudy.vocabulary.checks import WrongReturn
from understudy.vocabulary.context.run_values import values_of_run

if TYPE_CHECKING:
    from understudy.actors.cells.event_stream import EventStream
    from understudy.actors.runs.host import RunEndings

POISON = 3  # Crashes after which the run itself is taken for the cause.


class RunCrashes:
    """Decides how a run goes on that crashed. Safe to use from any thread.

    Args:
        events: where crashes are told.
        endings: ends the runs that do not go on.
        begin: has a run go on from an epoch.
    """

    def __init__(
        self,
        events: EventStream,
        endings: RunEndings[RunRecord],
        begin: Callable[[RunRecord, int], object],
    ) -> None:
        self._events = events
        self._endings = endings
        self._begin = begin

    def handle(self, record: RunRecord, cause: BaseException, epoch: int) -> None:
        """Fail the runner's actor, and let the run go on from its record, or end it.

        A value of a wrong type, which user code returned, ends the run at once: it would be returned again. The actor is
        not at fault then.
        """
        wrong = isinstance(cause, WrongReturn)
        crashes, successor = 0, None
        with record.lock:
            if record.is_held_at(epoch):
                record.crashes += (cause,)
                crashes = len(record.crashes)
                successor = record.take_over(epoch) if not wrong and _may_go_on(record, cause) else None
        if not crashes:  # the run is over or in other hands, so nobody else hears of it
            return tell_late_work(record.link, cause)
        safely(record, self._tell, record, cause, crashes, successor is None)
        if not wrong:
            safely(record, record.fail_agent, cause)
        if successor is not None:
            text = "run %s: it failed here, and goes on"
            emit(WARNING, "run_crashed", values_of_run(record.link), text, record.run_id, exc_info=cause)
            self._begin(record, successor)
        elif crashes < POISON and isinstance(cause, UnderstudyError):
            # An error that `restart_on` names, and no retry is left: it ends the run like any other error.
            self._endings.fail(record, cause, epoch)
        else:
            self._endings.fail(record, _poison(record, cause, crashes), epoch)

    def _tell(self, record: RunRecord, cause: BaseException, crashes: int, poison: bool) -> None:
        if self._events.wants(RunCrashed):
            address = record.cell.address
            self._events.publish(
                RunCrashed(address=address, run_id=record.run_id, error=cause, crashes=crashes, poison=poison)
            )


def _may_go_on(record: RunRecord, cause: BaseException) -> bool:
    """Whether a run goes on after a crash; if so, takes one of its retries."""
    had_enough = len(record.crashes) >= POISON or (had_its_retries(cause) and not record.fails_runner(cause))
    return not had_enough and record.scope.take_retry(cause)


def _poison(record: RunRecord, cause: BaseException, crashes: int) -> AgentCrashed:
    """Make the error of a run that crashed for the last time."""
    times = "once" if crashes == 1 else f"{crashes} times"
    error = AgentCrashed(
        f"{named(record.runner)} failed {times} in run {record.run_id}, the last time of {in_words(cause)}",
        actor=record.runner.id,
        causes=record.crashes,
    )
    error.__cause__ = cause
    error.retries_used_up = True
    return error
