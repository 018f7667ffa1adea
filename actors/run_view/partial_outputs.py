"""The answer of a typed agent as far as the model has written it, for a reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from understudy.vocabulary.runs.events import Event, PartialOutput, TextDelta, ToolCallDelta

STEPS = 16
"""A text is read again when it has grown by one part in so many: the work of all readings stays in proportion to its length."""


class PartialOutputs:
    """Reads the answer of one attempt at a turn as it grows.

    Args:
        read: parses the beginning of an answer; raises `Unfit` where there is nothing to show yet.
        tool: the tool by which the model answers; empty if it answers by text.
    """

    __slots__ = ("_last", "_read", "_read_at", "_text", "_tool")

    def __init__(self, read: Callable[[str], object], tool: str) -> None:
        self._read = read
        self._tool = tool
        self._text = ""
        self._read_at = 0
        """How long the text was when it was read last."""
        self._last: object = None

    def after(self, delta: Event) -> Iterator[PartialOutput]:
        """Yield the answer as it is with a delta, if that shows something new."""
        if not isinstance(delta, TextDelta | ToolCallDelta) or not self._is_of_answer(delta):
            return
        self._text += delta.text
        if len(self._text) - self._read_at <= len(self._text) // STEPS:
            return
        self._read_at = len(self._text)
        try:
            output = self._read(self._text)
            is_new = self._last is None or bool(output != self._last)
        except KeyboardInterrupt:
            if threading.current_thread() is threading.main_thread():
                raise  # somebody pressed Ctrl-C
            return
        except BaseException:  # a user's validator must not end the loop of a reader: the run judges the whole answer
            return
        if is_new:
            self._last = output
            yield PartialOutput(
                output=output,
                turn=delta.turn,
                attempt=delta.attempt,
                offset=delta.offset + len(delta.text),
                run_id=delta.run_id,
                seq=delta.seq,
                path=delta.path,
                parent_run_id=delta.parent_run_id,
                time=delta.time,
            )

    def _is_of_answer(self, delta: TextDelta | ToolCallDelta) -> bool:
        return delta.name == self._tool if isinstance(delta, ToolCallDelta) else not self._tool
