"""Writes the model's text to standard output, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from understudy.vocabulary.runs.events import Event, TextDelta, TurnDropped, TurnFinished, TurnStarted

from .piece_writer import PieceWriter
from .report import for_terminal
from .turn_text import NOT_THE_ANSWER, TurnText, taken_back


class WrittenText:
    """Writes the text of one run's turns as it comes, and marks a text that is not the answer.

    Args:
        out: the stream; a terminal gets no control sequences, and the marks too.
        warn: prints the marks if `out` is a pipe.
    """

    def __init__(self, out: TextIO, warn: Callable[[str], None]) -> None:
        self._out = PieceWriter(out)
        self._warn = warn
        self._is_terminal = out.isatty()
        self._text = TurnText()

    @property
    def is_open(self) -> bool:
        """Whether the last line has a text that may go on."""
        return bool(self._text.shown)

    def see(self, event: Event) -> None:
        """Write what an event of the outermost run adds, or end the text."""
        match event:
            case TextDelta():
                self._write(self._text.add(event))
            case TurnFinished(response=response) if response.tool_calls:
                self._end()  # a text beside calls stands, and is not the answer
            case TurnStarted():
                self._end(NOT_THE_ANSWER)
            case TurnDropped(by=by):
                self._end(taken_back(by))
            case _:
                pass

    def break_line(self) -> None:
        """Begin a new line on a terminal, where a line of progress comes next."""
        if self.is_open and self._is_terminal:
            self._write("\n")

    def settle(self, answer: str) -> str:
        """End the text, and return what is left to print of the answer: nothing, if the text is its beginning."""
        shown = self._text.shown
        if not shown or not answer.startswith(shown):
            self._end()
            return answer
        self._write(answer[len(shown) :])
        self._end()
        return ""

    def check(self) -> None:
        """Raise `OutputFailed` if a piece could not be written."""
        self._out.check()

    def _end(self, mark: str = "") -> None:
        if self.is_open:
            self._write("\n")
            if mark and self._is_terminal:
                self._write(f"{mark}\n")
            elif mark:
                self._warn(mark)
        self._text.clear()

    def _write(self, text: str) -> None:
        if text:
            self._out.write(for_terminal(text) if self._is_terminal else text)
