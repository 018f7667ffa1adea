"""Waits of code for a run that is not over: for its end, or for its next event. A wait that could never end is refused."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from understudy.actors.waiting.graph import callers_here, graph
from understudy.errors import CircularAgentCall, RunError
from understudy.vocabulary.context.ancestry import Ancestry, circular

from .record import RunRecord

NO_WAIT = nullcontext()


def waiting_for(record: RunRecord, timeout: float | None) -> AbstractContextManager[None]:
    """Return what a thread is inside of while it waits for a run, which must not be over.

    Args:
        record: the run's.
        timeout: the longest wait, in seconds; with 0 the code only looks, which is allowed anywhere.

    Raises:
        CircularAgentCall: the run can end only after the code that would wait; raised when the wait begins.
        RunError: the run is of the process that this one was forked from.
    """
    refuse_run_of_parent(record)
    callers = callers_here()
    if not callers or (timeout is not None and timeout <= 0):
        return NO_WAIT
    return _in_graph(callers, record)


def refuse_run_of_parent(record: RunRecord) -> None:
    """Refuse a wait for a run that is under way in another process.

    Raises:
        RunError: the run is of the process that this one was forked from.
    """
    if record.host.is_of_parent:
        raise RunError(
            f"run {record.run_id} goes on in the process that this one was forked from: its result and its events come there alone",
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
