"""Lines from standard input: of a person at a terminal, with a prompt and editing, or of a pipe."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO

from understudy.commandline.report import UsageMistake


def decoded(given: str) -> str:
    """Return text as it was meant: bytes that the locale could not decode, which Python keeps as halves of characters, are UTF-8.

    Raises:
        UnicodeDecodeError: they are not.
    """
    return given.encode("utf-8", "surrogateescape").decode("utf-8")


class Lines:
    """Reads standard input.

    Args:
        out: where the answers go; a prompt is printed there if it is a terminal, so that the line can be edited.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.interactive = sys.stdin.isatty()
        """Whether a person is typing."""
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 (input() edits lines once it is loaded)  # pyright: ignore[reportUnusedImport]

    def read(self, prompt: str) -> str | None:
        """Return the next line, or None if there is none. An interrupt is raised."""
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
