"""The handle of a run in flight."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Self

from understudy.actors.run_view.event_count import next_seq
from understudy.actors.run_view.event_position import EventPosition
from understudy.actors.run_view.event_reader import events_of
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.promise import Late, Promise
from understudy.actors.waiting.base_future import BaseFuture
from understudy.actors.waiting.graph import callers_here, graph
from understudy.actors.waiting.members import Droppable
from understudy.errors import CircularAgentCall, RunError
from understudy.vocabulary.checks import checked_plain, checked_wait
from understudy.vocabulary.context.ancestry import Ancestry, Link, circular
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.handles import RunHandle, RunStatus
from understudy.vocabulary.runs.outcomes import Outcome

from .record import RunRecord

if TYPE_CHECKING:
    from concurrent.futures import Future


class Handle(RunHandle[object], BaseFuture[Outcome[object]], Droppable):
    """What `submit` returns; it knows one record, and holds nothing of its own."""

    __slots__ = ("_record",)

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    @property
    def run_id(self) -> str:
        return self._record.run_id

    def result(self, timeout: float | None = None) -> Outcome[object]:
        reply = self._wait(timeout)
        return reply.get()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._wait(timeout).error()

    def _wait(self, timeout: float | None) -> Promise[Outcome[object]]:
        reply = self._record.promise
        if timeout is not None:
            checked_wait("result", timeout)
        if reply.done:
            return reply
        with waiting_for(self._record, timeout):
            is_done = reply.wait(timeout)
        if not is_done:
            status = self._record.status()
            raise Late(f"run {self.run_id} is not done after {timeout:g} s and goes on: {status.doing}")
        return reply

    def done(self) -> bool:
        return self._record.promise.done

    def running(self) -> bool:
        return not self._record.promise.done

    def cancelled(self) -> bool:
        return self._record.phase == "cancelled"

    def cancel(self) -> bool:
        with cancel_hooks.Settling(cancel_hooks.AT_HAND):
            return self._is_of_here() and self._record.host.endings.cancel(self._record, kept=True)

    def drop(self) -> None:
        """Cancel the run because nobody wants what comes of it: it cannot be resumed."""
        with cancel_hooks.Settling(cancel_hooks.AT_HAND):
            if self._is_of_here():
                self._record.host.endings.cancel(self._record)

    def _is_of_here(self) -> bool:
        """Whether the run is under way, in this process and not in the parent that it was forked from."""
        return not (self.done() or self._record.host.is_of_parent)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        checked_plain("a done callback", callback)
        self._record.promise.when_done(lambda: callback(self))

    def events(
        self, *, inner: bool = False, after: int | str | None = None, timeout: float | None = None
    ) -> Iterator[Event]:
        position = EventPosition.of(after)
        if position is not None and inner:
            raise ValueError("after= is a place among the events of one run: it does not go with inner=True")
        if timeout is not None:
            checked_wait("events", timeout)
        if not self.done():
            refuse_run_of_parent(self._record)
        elif position is not None:
            position.check(next_seq(self._record.log, is_inner=False) - 1)
        waiting = partial(waiting_for, self._record, timeout)
        return events_of(self._record.log, inner=inner, after=position, timeout=timeout, waiting=waiting)

    def status(self) -> RunStatus:
        return self._record.status()

    def future(self) -> Future[Outcome[object]]:
        from concurrent.futures import Future

        if not self.done():
            refuse_run_of_parent(self._record)
        future: Future[Outcome[object]] = Future()
        future.set_running_or_notify_cancel()

        def copy(_: object) -> None:
            error = self._record.promise.error()
            if error is None:
                future.set_result(self._record.promise.get())
            else:
                future.set_exception(error)

        self.add_done_callback(copy)
        return future

    def awaited(self) -> Link:
        return self._record.link

    @property
    def origin(self) -> str:
        return self._record.run_id

    def __repr__(self) -> str:
        return f"RunHandle({self.run_id!r}, {self._record.phase})"


# --- waits of code for a run that is not over: for its end, or for its next event


def waiting_for(record: RunRecord, timeout: float | None) -> AbstractContextManager[None]:
    """Return a context manager that is open while a thread waits for a run; the run must not be over.

    Args:
        record: the run's.
        timeout: the longest wait, in seconds; 0 is a look and no wait, and allowed anywhere.

    Raises:
        CircularAgentCall: the run waits for the code that would wait for it; raised when the context manager is entered.
        RunError: the run is of the process that this one was forked from.
    """
    refuse_run_of_parent(record)
    callers = callers_here()
    if not callers or (timeout is not None and timeout <= 0):
        return nullcontext()
    return _in_graph(callers, record)


def refuse_run_of_parent(record: RunRecord) -> None:
    """Refuse a wait for a run that is under way in another process.

    Raises:
        RunError: the run is of the process that this one was forked from.
    """
    if record.host.is_of_parent:
        raise RunError(
            f"run {record.run_id} goes on in the process that this one was forked from; only that process gets its result and its events",
            run_id=record.run_id,
        )


@contextmanager
def _in_graph(callers: Ancestry, record: RunRecord) -> Generator[None]:
    try:
        with graph.waiting(callers, record.link):
            yield
    except CircularAgentCall as error:
        record.host.events.refused(record.cell.address, error)
        raise


def wait_for_stored(run_id: str, seconds: float) -> None:
    """Wait before the next look at a run in the store, which another system drives.

    Raises:
        CircularAgentCall: the code that waits is part of that run.
    """
    callers = callers_here()
    for position, link in enumerate(callers):
        if link.run_id == run_id:
            raise circular(*[each.runner.id for each in (callers[-1], *callers[position:])])
    time.sleep(seconds)
