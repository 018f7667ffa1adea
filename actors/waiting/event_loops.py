"""How a coroutine waits for a future: its event loop goes on meanwhile, and the wait stands in the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from .awaited import Awaited
from .graph import callers_here, graph

if TYPE_CHECKING:
    import asyncio


class Awaitable(Protocol):
    """A future that tells of its end."""

    def add_done_callback(self, callback: Callable[[Any], object]) -> None: ...


def until_done(future: Awaitable, awaits: Callable[[], Awaited]) -> Generator[Any, None, None]:
    """Suspend the present coroutine until `future` is done; a cancelled task does not cancel it.

    Raises:
        CircularAgentCall: this is inside of a run or an actor, and the wait closes a cycle, now or later.
        RuntimeError: no asyncio event loop runs in this thread.
    """
    import asyncio  # here, because most programs have no event loop

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("`await` needs an event loop of asyncio; elsewhere, result() waits") from None
    waiter: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(lambda _: _wake(loop, waiter))
    callers = callers_here()
    if not callers:
        return (yield from waiter)
    with graph.waiting(callers, awaits(), partial(_wake, loop, waiter)):
        return (yield from waiter)


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], error: BaseException | None = None) -> None:
    """Have the coroutine go on, from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
        loop.call_soon_threadsafe(_settle, waiter, error)


def _settle(waiter: asyncio.Future[None], error: BaseException | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
