"""Runs the command in a pseudo-terminal: types for a person, and reads the screen."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 40.0  # Seconds: a start of the interpreter on a busy machine, and a few runs.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C comes from it
os.execv(sys.argv[1], sys.argv[1:])
"""
STEERING = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\r|\x07")


class Terminal:
    """A command whose three streams are one terminal."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self._end = end
        self._raw = b""
        self._read = 0
        """How much of the screen has been waited for."""

    @property
    def raw(self) -> str:
        """All that was printed, control sequences included."""
        return self._raw.decode(errors="replace")

    @property
    def screen(self) -> str:
        """The printed text without control sequences."""
        return STEERING.sub("", self.raw)

    @property
    def has_cursor(self) -> bool:
        """Whether the cursor is to be seen, which live lines hide while they are there."""
        return self._raw.rfind(b"\x1b[?25h") >= self._raw.rfind(b"\x1b[?25l")

    def wait_for(self, text: str) -> str:
        """Wait until a text is printed after the last awaited one, and return the output up to its end."""
        limit = time.monotonic() + LONGEST
        while (at := self.screen.find(text, self._read)) < 0:
            if not self._more(limit):
                raise AssertionError(f"{text!r} did not come; the screen: {self.screen!r}")
        before, self._read = self._read, at + len(text)
        return self.screen[before : self._read]

    def interrupt(self, text: str = "") -> None:
        """Press Ctrl-C at a prompt until a text comes, or until the command has ended.

        Between the prompt and its wait for keys CPython's readline takes note of a signal and waits on; the next one wakes
        it, and both together are one KeyboardInterrupt.
        """
        self.type("\x03")
        limit = time.monotonic() + LONGEST / 4
        while self._more(limit):
            if text and self.screen.find(text, self._read) >= 0:
                break
        else:
            if time.monotonic() >= limit:
                self.type("\x03")
        if text:
            self.wait_for(text)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._end, text.encode())

    def status(self) -> int:
        """Wait for the end of the command, and return its exit status."""
        limit = time.monotonic() + LONGEST
        while self._more(limit):
            pass
        return self.process.wait(LONGEST)

    def _more(self, limit: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], max(0.0, limit - time.monotonic()))
        if not ready:
            return False
        try:
            read = os.read(self._end, 4096)
        except OSError:  # as Linux says that the other side is closed
            return False
        self._raw += read
        return bool(read)


@contextmanager
def on_terminal(*argv: str, cwd: Path) -> Generator[Terminal]:
    """Start `understudy …` on a terminal of its own, and kill it in the end."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, Path(sys.executable).with_name("understudy"), *argv],
        cwd=cwd,
        env={**environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
