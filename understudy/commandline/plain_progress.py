"""Progress of a run in plain lines, and the choice between plain lines (in a pipe) and live ones (on a terminal)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TextIO

from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    CompactionFailed,
    ContextCompacted,
    Event,
    RetryScheduled,
    SessionConflict,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)

from .event_words import (
    Names,
    Progress,
    Stopwatch,
    child_of,
    ending_of,
    retried,
    shown_compaction,
    shown_conflict,
    shown_progress,
    shown_retry,
)
from .live_progress import Live
from .report import one_line, shown_call


def progress_on(stream: TextIO, *, live: bool | None = None, shows_text: bool = False) -> Progress:
    """Return the progress display for `stream`: live if it is a terminal and rich is installed, else plain.

    With `shows_text` live lines show the model's text too, while it is written.
    """
    wanted = is_live(stream) if live is None else live and find_spec("rich") is not None
    return Live(stream, shows_text=shows_text) if wanted else Plain(stream)


def is_live(stream: TextIO) -> bool:
    """Whether progress on `stream` is live: it is a terminal, and rich is installed."""
    return stream.isatty() and find_spec("rich") is not None


class Quiet:
    """Shows nothing."""

    def see(self, event: Event) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class Plain:
    """One line for each start and end; lines of inner runs begin with the path to the run."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._watch = Stopwatch(clock)
        self._names = Names()

    def see(self, event: Event) -> None:
        """Print a line for a turn, a call, its progress or result, or the start or end of an inner run."""
        name = self._names.of(event)
        said = self._said(event, indent="" if name else "  ")
        if said:
            self._line(f"{name}: {said}" if name else said)

    def _said(self, event: Event, indent: str) -> str:
        match event:
            case TurnStarted(turn=turn):
                return f"turn {turn}: asking the model"
            case ToolStarted(call=call):
                self._watch.start(event.run_id, call.id)
                return f"{indent}call {shown_call(call)}"
            case ToolProgress(call=call):
                return f"{indent}{call.name}: {shown_progress(event)}"
            case ToolFinished(call=call, result=result):
                verb = "failed" if result.is_error else "gave"
                taken = self._watch.stop(event.run_id, call.id)
                return f"{indent}{call.name} {verb}, after {taken:.2f} s: {one_line(result.content)}"
            case RetryScheduled(what=what):
                who = retried(event)
                return f"{'' if what == 'task' else indent}{f'{who}: ' if who else ''}{shown_retry(event)}"
            case ChildStarted():
                self._watch.start(event.child_run_id)
                return f"{child_of(event)} begins"
            case ChildFinished():
                verb, rest = ending_of(event)
                return f"{child_of(event)} {verb}, after {self._watch.stop(event.child_run_id):.2f} s: {rest}"
            case ContextCompacted() | CompactionFailed():
                return f"{indent}{shown_compaction(event)}"
            case SessionConflict():
                return shown_conflict(event)
            case _:
                return ""

    def close(self) -> None:
        """Do nothing: lines stay."""

    def _line(self, text: str) -> None:
        try:
            self._stream.write(f"{text}\n")  # in one write: tools print to the same stream from their threads
            self._stream.flush()
        except OSError:  # a run does not fail because its progress cannot be shown
            give_up(self._stream)


def give_up(stream: TextIO) -> None:
    """Discard all further output of a stream: otherwise Python's flush at exit would print an error and fail."""
    with contextlib.suppress(OSError):  # the stream has no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
