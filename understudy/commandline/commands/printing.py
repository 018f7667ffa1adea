"""How commands print: an answer to standard output or a file, all else to standard error, and never an error of that."""

from __future__ import annotations

import contextlib
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from understudy.commandline.call_log import CallLog
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

if TYPE_CHECKING:
    from understudy.vocabulary.runs.outcomes import Outcome


class OutputFailed(Exception):
    """An answer cannot be printed, as on a disk that is full."""


def put(text: str, stream: TextIO, *, markdown: bool = False) -> None:
    """Print a text, if there is one, on a terminal without what would steer it; a reader who has gone is nobody's error.

    Args:
        text: what is printed.
        stream: where; on a terminal lines are wrapped between words.
        markdown: whether a terminal shows the text as Markdown. In a pipe it is printed as it is.

    Raises:
        OutputFailed: it cannot be printed.
    """
    try:
        if text:
            print(shown(text, stream, markdown=markdown) if stream.isatty() else text, file=stream, flush=True)
    except BrokenPipeError:  # the reader has gone, as `head` does
        give_up(stream)
    except OSError as error:
        give_up(stream)
        raise OutputFailed(f"the output cannot be written: {error.strerror}") from error


def write(text: str, into: str) -> None:
    """Write a text to a file, in place of one that is there.

    Raises:
        UsageMistake: it cannot be written.
    """
    try:
        Path(into).write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageMistake(f"-o {into}: the file cannot be written: {error.strerror}") from error


def warn(text: str) -> None:
    """Print a text to standard error, if that can be written."""
    with contextlib.suppress(OutputFailed):
        put(text, sys.stderr)


def shown(text: str, stream: TextIO, *, markdown: bool) -> str:
    """Return a text as a terminal shows it: as Markdown if it is that and rich is installed, and without what would steer it."""
    harmless = for_terminal(text)
    if not markdown or find_spec("rich") is None:
        return harmless
    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=stream)
    rendered = Markdown("", hyperlinks=False)
    # Text that looks like HTML is text, and a model's line ends are meant.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    rendered.parsed = parser.parse(_with_line_ends(harmless))
    with console.capture() as captured:
        console.print(rendered)
    return captured.get().rstrip("\n")


def _with_line_ends(text: str) -> str:
    """Return Markdown in which the lines of a paragraph stay lines."""
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
) -> int:
    """Print how a run ended, and return the exit status.

    Args:
        ended: the outcome, or the error.
        out: where the answer goes.
        json: whether a program reads it.
        log: the tool calls of the run.
        again: what `understudy resume TOKEN` must be given to find the run and its definition.
        seconds: how long it took, for a closing line of what it took; None for no such line.
        debug: whether an error is printed with its traceback.
        plain: whether an answer is printed as it is on a terminal too, and not as Markdown.

    Raises:
        OutputFailed: it cannot be printed.
    """
    if json:
        answer, aside = as_json(ended, log or CallLog(), again), ""
    else:
        answer, aside = for_people(ended, again)
    try:
        if debug and isinstance(ended, BaseException) and status_of(ended) == FAILED:
            warn("".join(traceback.format_exception(ended)))
        warn(aside)
        put(answer, out, markdown=not json and not plain)
        if seconds is not None and not json:
            warn(closing(ended, 0 if log is None else log.calls, seconds))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputFailed:
        if json:  # who cannot be told in JSON may still read the token of a run that waits
            warn(for_people(ended, again)[1])
        raise
    return status_of(ended)
