"""Logs of runs told as events: of one run, or of it and those inside of it. Only a listener has events built."""

from __future__ import annotations

import queue
from collections.abc import Iterator

from understudy.actors.threads.promise import Late, taken
from understudy.vocabulary.runs.events import Event

from .event_position import EventPosition, rest_of
from .log import RunLog
from .log_reader import LogReader, News


def events_of(
    log: RunLog, *, inner: bool = False, after: EventPosition | None = None, timeout: float | None = None
) -> Iterator[Event]:
    """Iterate over the events of a run from the first one on; waits for those to come, and ends after the terminal one.

    Args:
        log: the run's.
        inner: whether to tell what happens in runs inside of it too.
        after: where the reader goes on; None to begin with the first event.
        timeout: seconds to wait for one event; None for no limit.

    Raises:
        TimeoutError: no event came in that time. The run goes on.
    """
    for event in events_and_idle_times(log, inner=inner, after=after, idle=timeout):
        if event is None:
            raise Late(f"run {log.run_id} told no event in {timeout:g} s and goes on")
        yield event


def events_and_idle_times(
    log: RunLog, *, inner: bool = False, after: EventPosition | None = None, idle: float | None
) -> Iterator[Event | None]:
    """Iterate as `events_of` does, and yield None each time that no event came for `idle` seconds."""
    events = _all_events(log, inner=inner, idle=idle)
    return events if after is None else rest_of(events, after)


def _all_events(log: RunLog, *, inner: bool, idle: float | None) -> Iterator[Event | None]:
    news: News = queue.SimpleQueue()
    outermost = LogReader(log, (log.runner_id,), news, inner=inner)
    try:
        yield from outermost.read()
        while not outermost.over:
            reader = taken(news, idle)
            if reader is None:
                yield None
            else:
                yield from reader.read()
    finally:
        outermost.close()
