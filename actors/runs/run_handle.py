"""The handle of a run in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from understudy.actors.run_view.event_position import EventPosition
from understudy.actors.run_view.event_reader import events_of
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.promise import Late, Promise
from understudy.actors.waiting.base_future import BaseFuture
from understudy.actors.waiting.graph import callers_here, graph
from understudy.actors.waiting.members import Droppable
from understudy.errors import CircularAgentCall
from understudy.vocabulary.checks import checked_plain, checked_wait
from understudy.vocabulary.context.ancestry import Link
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
        if not reply.done and not self._wait_in_line(reply, timeout):
            status = self._record.status()
            raise Late(f"run {self.run_id} is not done after {timeout:g} s and goes on: {status.doing}")
        return reply

    def _wait_in_line(self, reply: Promise[Outcome[object]], timeout: float | None) -> bool:
        callers = callers_here()
        if not callers or (timeout is not None and timeout <= 0):  # to look is not to wait
            return reply.wait(timeout)
        record = self._record
        try:
            with graph.waiting(callers, record.link):
                return reply.wait(timeout)
        except CircularAgentCall as error:
            record.host.events.refused(record.cell.address, error)
            raise

    def done(self) -> bool:
        return self._record.promise.done

    def running(self) -> bool:
        return not self._record.promise.done

    def cancelled(self) -> bool:
        return self._record.phase == "cancelled"

    def cancel(self) -> bool:
        with cancel_hooks.Settling(cancel_hooks.AT_HAND):
            return not self.done() and self._record.host.endings.cancel(self._record, kept=True)

    def drop(self) -> None:
        """Cancel the run because nobody wants what comes of it: it cannot be resumed."""
        with cancel_hooks.Settling(cancel_hooks.AT_HAND):
            if not self.done():
                self._record.host.endings.cancel(self._record)

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
        return events_of(self._record.log, inner=inner, after=position, timeout=timeout)

    def status(self) -> RunStatus:
        return self._record.status()

    def future(self) -> Future[Outcome[object]]:
        from concurrent.futures import Future

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
