"""How commands print: an answer to standard output or a file, all else to standard error, and never an error of that."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from understudy.calllog import CallLog
from understudy.report import INTERRUPTED, SPEC, UsageMistake, as_json, for_people, for_terminal, status_of
from understudy.terminal import give_up

if TYPE_CHECKING:
    from understudy.outcomes import Outcome


class OutputFailed(Exception):
    """An answer cannot be printed, as on a disk that is full."""


def put(text: str, stream: TextIO) -> None:
    """Print a text, if there is one, on a terminal without what would steer it; a reader who has gone is nobody's error.

    Raises:
        OutputFailed: it cannot be printed.
    """
    try:
        if text:
            print(for_terminal(text) if stream.isatty() else text, file=stream, flush=True)
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


def tell(
    ended: Outcome[object] | BaseException, out: TextIO, *, json: bool, log: CallLog | None = None, again: str = SPEC
) -> int:
    """Print how a run ended, and return the exit status.

    Args:
        ended: the outcome, or the error.
        out: where the answer goes.
        json: whether a program reads it.
        log: the tool calls of the run.
        again: what `understudy resume TOKEN` must be given to find the run and its definition.

    Raises:
        OutputFailed: it cannot be printed.
    """
    if json:
        answer, aside = as_json(ended, log or CallLog(), again), ""
    else:
        answer, aside = for_people(ended, again)
    try:
        warn(aside)
        put(answer, out)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputFailed:
        if json:  # who cannot be told in JSON may still read the token of a run that waits
            warn(for_people(ended, again)[1])
        raise
    return status_of(ended)
