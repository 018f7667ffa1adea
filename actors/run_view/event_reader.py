"""Logs of runs told as events: of one run, or of it and those inside of it. Only a listener has events built."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from understudy.actors.threads.promise import Late, taken
from understudy.vocabulary.runs.events import Event

from .event_position import EventPosition, rest_of
from .log import RunLog
from .log_reader import LogReader, News

Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Returns what a thread is inside of while it waits for an event, or refuses the wait."""


def events_of(
    log: RunLog,
    *,
    inner: bool = False,
    after: EventPosition | None = None,
    timeout: float | None = None,
    waiting: Waiting = nullcontext,
) -> Iterator[Event]:
    """Iterate over the events of a run from the first one on; waits for those to come, and ends after the terminal one.

    Args:
        log: the run's.
        inner: whether to tell what happens in runs inside of it too.
        after: where the reader goes on; None to begin with the first event.
        timeout: seconds to wait for one event; None for no limit.
        waiting: called before each wait for an event.

    Raises:
        TimeoutError: no event came in that time. The run goes on.
        RunError: `waiting` refuses the wait.
    """
    events = _all_events(log, waiting, inner=inner, timeout=timeout)
    return events if after is None else rest_of(events, after)


def _all_events(log: RunLog, waiting: Waiting, *, inner: bool, timeout: float | None) -> Iterator[Event]:
    news: News = queue.SimpleQueue()
    outermost = LogReader(log, (log.runner_id,), news, inner=inner)
    try:
        yield from outermost.read()
        while not outermost.over:
            with waiting():
                reader = taken(news, timeout)
            if reader is None:
                raise Late(f"run {log.run_id} told no event in {timeout:g} s and goes on")
            yield from reader.read()
    finally:
        outermost.close()
