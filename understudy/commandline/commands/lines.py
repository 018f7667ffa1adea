"""Reads lines from standard input: at a terminal with a prompt and line editing, or from a pipe."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from understudy.commandline.report import UsageMistake


def decoded(given: str) -> str:
    """Decode as UTF-8 the bytes that the locale could not decode, which Python keeps as surrogates.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    return given.encode("utf-8", "surrogateescape").decode("utf-8")


class Lines:
    """Reads standard input.

    Args:
        out: the stream of the answers; if it is a terminal, the prompt is printed there and lines can be edited.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.interactive = sys.stdin.isatty()
        """Whether a person is typing."""
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 (input() edits lines once it is loaded)  # pyright: ignore[reportUnusedImport]

    def read(self, prompt: str) -> str | None:
        """Return the next line, or None at the end of the input. An interrupt is raised."""
        try:
            if self.interactive:
                with contextlib.redirect_stdout(self._out if self._out.isatty() else sys.stderr):
                    return decoded(input(prompt))
            line = decoded(sys.stdin.readline())
        except EOFError:
            return None
        except UnicodeDecodeError as error:
            raise UsageMistake(f"standard input is not text: {error}") from error
        return line.rstrip("\n") if line else None
