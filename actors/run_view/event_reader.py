"""Logs of runs told as events: of one run, or of it and those inside of it. Only a listener has events built."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Self, TypeAlias

from understudy.actors.threads.promise import Late, taken
from understudy.vocabulary.runs.events import Event

from .event_position import EventPosition, rest_of
from .log import RunLog
from .log_reader import LogReader, News

Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Returns a context manager that is open while a thread waits for an event; raises to refuse the wait."""


def events_of(
    log: RunLog,
    *,
    inner: bool = False,
    after: EventPosition | None = None,
    timeout: float | None = None,
    waiting: Waiting = nullcontext,
) -> EventIterator:
    """Iterate over the events of a run from the first one on; waits for those to come, and ends after the terminal one.

    Args:
        log: the run's.
        inner: whether to tell what happens in runs inside of it too.
        after: where the reader goes on; None to begin with the first event.
        timeout: seconds to wait for one event; None for no limit.
        waiting: called before each wait for an event.

    Raises:
        TimeoutError: no event came in that time. The run goes on, and so does the iterator if it is asked again.
        RunError: `waiting` refuses the wait.
    """
    events = _all_events(log, waiting, inner=inner, timeout=timeout)
    return EventIterator(log.run_id, events if after is None else rest_of(events, after), timeout)


class EventIterator:
    """The events of a run. For one thread at a time.

    Args:
        run_id: of the run.
        events: the events, and None each time that none came for `timeout` seconds.
        timeout: seconds to wait for one event; None for no limit.
    """

    __slots__ = ("__weakref__", "_events", "_run_id", "_timeout")

    def __init__(self, run_id: str, events: Generator[Event | None], timeout: float | None) -> None:
        self._run_id = run_id
        self._events = events
        self._timeout = timeout

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        if event is None:
            raise Late(f"run {self._run_id} told no event in {self._timeout:g} s and goes on")
        return event

    def close(self) -> None:
        """Stop reading.

        Raises:
            ValueError: another thread is reading.
        """
        self._events.close()


def _all_events(log: RunLog, waiting: Waiting, *, inner: bool, timeout: float | None) -> Generator[Event | None]:
    news: News = queue.SimpleQueue()
    outermost = LogReader(log, (log.runner_id,), news, inner=inner)
    try:
        yield from outermost.read()
        while not outermost.over:
            with waiting():
                reader = taken(news, timeout)
            if reader is None:
                yield None
            else:
                yield from reader.read()
    finally:
        outermost.close()
