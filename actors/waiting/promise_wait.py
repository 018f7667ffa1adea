"""How a thread waits for the promise of a future that is made of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from understudy.actors.threads.promise import Late, Promise
from understudy.vocabulary.context.ancestry import Ancestry
from understudy.vocabulary.context.scope import current_scope

from .awaited import Awaited, unseen
from .graph import callers_here, graph

UNSEEN = "a future of Pykka is not done, and whether it waits for this one cannot be seen"


def waited(promise: Promise[Any], awaits: Callable[[], Awaited], timeout: float | None) -> bool:
    """Wait up to `timeout` seconds for `promise`, which depends on what `awaits()` returns; return whether it is done.

    Raises:
        CircularAgentCall: this is inside of a run or an actor, and the wait closes a cycle, now or later.
        Late: the deadline of the run around this wait is over, and a cycle through a future of Pykka cannot be excluded.
    """
    if promise.done or (timeout is not None and timeout <= 0):  # to look is not to wait
        return promise.wait(timeout)
    callers, left = callers_here(), _until_deadline()
    if left is None or (timeout is not None and timeout <= left) or not unseen(awaits()):
        return _wait(promise, callers, awaits, timeout)
    if _wait(promise, callers, awaits, left):
        return True
    if unseen(awaits()):
        raise Late(f"the deadline of the run is over: {UNSEEN}")
    return _wait(promise, callers, awaits, None if timeout is None else timeout - left)


def _until_deadline() -> float | None:
    scope = current_scope()
    return None if scope is None else scope.remaining()


def _wait(promise: Promise[Any], callers: Ancestry, awaits: Callable[[], Awaited], timeout: float | None) -> bool:
    """Wait; inside of a run or an actor, woken also when the wait has come to close a cycle."""
    if not callers:  # outside, or after the end of the run
        return promise.wait(timeout)
    woken: Promise[None] = Promise()
    wake = partial(woken.set, None)
    with graph.waiting(callers, awaits(), woken.fail):
        promise.when_done(wake, first=True)  # a loser may be slow to cancel
        try:
            if woken.wait(timeout):
                woken.get()
        finally:
            promise.forget(wake)
    return promise.done
