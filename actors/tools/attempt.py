"""The reply of one attempt at a tool call that may be made again."""

from __future__ import annotations

from typing import cast

from understudy.actors.threads.promise import Promise

from .tool_call import Executed, ToolCallTask


class Attempt(Promise[object]):
    """The reply of one attempt at a call that may have several; what it says is passed on to the reply of the call.

    Not so the failure of an attempt that was given up: mostly it fails of that, and another one is on its way.
    """

    __slots__ = ("_call", "_order")

    def __init__(self, order: ToolCallTask, call: Promise[object]) -> None:
        super().__init__()
        self._order = order
        self._call = call

    def finish(self, value: object, error: BaseException | None) -> bool:
        if not super().finish(value, error):
            return False
        failed = error is not None or cast(Executed, value)[0].is_error
        if not (failed and self._order.superseded):
            self._call.finish(value, error)
        return True

    @property
    def done(self) -> bool:
        return self._done or self._call.done
