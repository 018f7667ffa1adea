"""Writes an output piece by piece, while the run goes on that it is of."""

from __future__ import annotations

from typing import TextIO

from .plain_progress import give_up


class OutputFailed(Exception):
    """An answer cannot be printed, for example because the disk is full."""


class PieceWriter:
    """Writes pieces of text, each at once. A problem of the output does not end the run: `check` raises it afterwards.

    Args:
        out: the stream. A reader that closes a pipe, as `head` does, is no problem.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.problem: OSError | None = None
        """Why a piece could not be written."""

    def write(self, text: str) -> None:
        """Write a piece."""
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            give_up(self._out)
        except OSError as error:
            give_up(self._out)
            self.problem = error

    def check(self) -> None:
        """Raise the problem of the output, if there was one.

        Raises:
            OutputFailed: a piece could not be written.
        """
        if self.problem is not None:
            raise OutputFailed(f"the output cannot be written: {self.problem.strerror}") from self.problem
