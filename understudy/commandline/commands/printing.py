"""Prints for the commands: answers to standard output or a file, and everything else to standard error."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import traceback
from importlib.util import find_spec
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from understudy.commandline.call_log import CallLog
from understudy.commandline.event_words import Display
from understudy.commandline.piece_writer import OutputFailed
from understudy.commandline.plain_progress import give_up
from understudy.commandline.report import (
    FAILED,
    INTERRUPTED,
    SPEC,
    UsageMistake,
    as_json,
    closing,
    for_people,
    for_terminal,
    status_of,
)
from understudy.diagnostics import emit
from understudy.log_output import configure_logging

if TYPE_CHECKING:
    from understudy.vocabulary.runs.outcomes import Outcome


def put(text: str, stream: TextIO, *, markdown: bool = False) -> None:
    """Print a text unless it is empty. A terminal gets no control sequences; a closed pipe is not an error.

    Args:
        text: the text.
        stream: the stream; on a terminal lines are wrapped between words.
        markdown: whether a terminal shows the text as Markdown; a pipe gets it unchanged.

    Raises:
        OutputFailed: the text cannot be printed.
    """
    try:
        if text:
            print(shown(text, stream, markdown=markdown) if stream.isatty() else text, file=stream, flush=True)
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        give_up(stream)
    except OSError as error:
        give_up(stream)
        raise OutputFailed(f"the output cannot be written: {error.strerror}") from error


def write(text: str, into: str) -> None:
    """Write a text to a file; an existing file is replaced.

    Raises:
        UsageMistake: the file cannot be written.
    """
    try:
        whole = text if text.endswith("\n") else f"{text}\n"
        Path(into).write_text(whole, encoding="utf-8", errors="understudy.json")
    except OSError as error:
        raise UsageMistake(f"-o {into}: the file cannot be written: {error.strerror}") from error


_as_log_lines = False
"""Whether a program reads standard error, line by line."""


def print_as_log_lines(wanted: bool) -> None:
    """Choose whether standard error has log lines only, as JSON, or the texts of a command as they are."""
    global _as_log_lines
    _as_log_lines = wanted
    if wanted:
        configure_logging("json")


def warn(text: str) -> None:
    """Print a text to standard error, as a log line if a program reads them; a failure to print is ignored."""
    if _as_log_lines:
        if text:
            emit(WARNING, "notice", {}, text.strip("\n"))
        return
    with contextlib.suppress(OutputFailed):
        put(text, sys.stderr)


def for_prints() -> TextIO:
    """Return the stream for the prints of tools, which must not mix with the answer: that may be JSON for a program."""
    return cast(TextIO, _PrintedLines()) if _as_log_lines else sys.stderr


class _PrintedLines(io.TextIOBase):
    """Makes a log line of each line that is printed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the text: several tools may print at once."""
        self._text = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._text = (self._text + text).split("\n")
        for line in filter(str.strip, lines):
            emit(INFO, "printed", {}, line)
        return len(text)


def shown(text: str, stream: TextIO, *, markdown: bool) -> str:
    """Return a text for a terminal: without control sequences, rendered as Markdown if wanted and rich is installed."""
    harmless = for_terminal(text)
    if not markdown or find_spec("rich") is None:
        return harmless
    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=stream)
    rendered = Markdown("", hyperlinks=False)
    # HTML is shown as text, and a model's line ends are kept.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    rendered.parsed = parser.parse(_with_line_ends(harmless))
    with console.capture() as captured:
        console.print(rendered)
    return captured.get().rstrip("\n")


def _with_line_ends(text: str) -> str:
    """Return Markdown that keeps the line ends of a paragraph."""
    lines, fenced = text.split("\n"), False
    for number, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        if line.strip() and not fenced and not line.lstrip().startswith(("```", "|", "#")):
            lines[number] = f"{line.rstrip()}  "
    return "\n".join(lines)


def tell(
    ended: Outcome[object] | BaseException,
    out: TextIO,
    *,
    json: bool,
    log: CallLog | None = None,
    again: str = SPEC,
    seconds: float | None = None,
    debug: bool = False,
    plain: bool = False,
    display: Display | None = None,
) -> int:
    """Print how a run ended, and return the exit status.

    Args:
        ended: the outcome, or the error.
        out: the stream of the answer.
        json: whether to print JSON for a program.
        log: the tool calls of the run.
        again: arguments that `understudy resume TOKEN` needs to find the run and its definition.
        seconds: duration of the run, for a closing line with its costs; None prints no such line.
        debug: whether an error is printed with its traceback.
        plain: whether a terminal too gets the answer unchanged, and not as Markdown.
        display: has shown the run, and maybe the answer.

    Raises:
        OutputFailed: the answer cannot be printed.
    """
    if json:
        answer, aside = as_json(ended, log or CallLog(), again), ""
    else:
        answer, aside = for_people(ended, again)
    try:
        if display is not None:
            answer, aside = display.settle(answer, aside)
        if debug and isinstance(ended, BaseException) and status_of(ended) == FAILED:
            warn("".join(traceback.format_exception(ended)))
        warn(aside)
        put(answer, out, markdown=not json and not plain)
        if display is not None:
            display.check()
        if seconds is not None and not json:
            warn(closing(ended, 0 if log is None else log.calls, seconds))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputFailed:
        if json:  # a reader who gets no JSON still needs the token of a paused run
            warn(for_people(ended, again)[1])
        raise
    return status_of(ended)
