"""Async tools: each call runs in an event loop of its own, on the thread that makes the call."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Any

from understudy.vocabulary.context.scope import Scope


def run_async(coroutine: Coroutine[Any, Any, object], scope: Scope) -> object:
    """Return what an async tool returns, in a loop of its own; cancelling the scope cancels its task."""
    import asyncio

    async def guarded() -> object:
        task = asyncio.ensure_future(coroutine)
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the tool returned in this very moment
                loop.call_soon_threadsafe(task.cancel)

        remove = scope.on_cancel_at_once(cancel)
        try:
            return await task
        finally:
            remove()

    return asyncio.run(guarded())
