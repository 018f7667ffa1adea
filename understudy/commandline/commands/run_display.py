"""Shows a run on both standard streams: its progress, the text of its model as it is written, and its end."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TextIO

from understudy.commandline.call_log import CallLog
from understudy.commandline.certain_answers import is_certain
from understudy.commandline.event_lines import EventLines
from understudy.commandline.event_words import Display, Progress
from understudy.commandline.plain_progress import Quiet, is_live, progress_on
from understudy.commandline.turn_text import is_of_outermost
from understudy.commandline.written_text import WrittenText
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.runs.events import Event, TextDelta
from understudy.vocabulary.runs.outcomes import Outcome

from .printing import tell, warn
from .waiting import repeated, without_vain_token


class RunDisplay:
    """Shows one run to people. Progress and text do not stand in one line.

    Args:
        progress: shows what happens in the run, on standard error.
        text: writes the model's text to standard output; None if `progress` shows it, or nobody does.
    """

    def __init__(self, progress: Progress, text: WrittenText | None = None) -> None:
        self._progress = progress
        self._text = text

    def see(self, event: Event) -> None:
        text = self._text
        if text is None:
            self._progress.see(event)
        elif not is_of_outermost(event):
            text.break_line()
            self._progress.see(event)
        else:
            if isinstance(event, TextDelta):
                self._progress.close()  # live lines would overwrite the text
            text.see(event)
            if not text.is_open:
                self._progress.see(event)

    def close(self) -> None:
        self._progress.close()

    def settle(self, answer: str, aside: str) -> tuple[str, str]:
        return (answer if self._text is None else self._text.settle(answer)), aside

    def check(self) -> None:
        if self._text is not None:
            self._text.check()


def display_of(
    runner: Runner[object], arguments: argparse.Namespace, out: TextIO, *, has_progress: bool = True
) -> Display:
    """Return the display for a run of `runner`. It shows progress if `has_progress` and no option forbids it."""
    if arguments.events:
        return EventLines(out, partial(without_vain_token, arguments=arguments))
    if arguments.json:
        return RunDisplay(Quiet())
    has_progress = has_progress and not arguments.log
    shows_text = arguments.stream is not False
    has_live_lines = has_progress and is_live(sys.stderr)
    written = shows_text and _is_written(runner, arguments, out, has_live_lines=has_live_lines)
    text = WrittenText(out, warn) if written else None
    if not has_progress:
        return RunDisplay(Quiet(), text)
    return RunDisplay(progress_on(sys.stderr, shows_text=shows_text and text is None), text)


def _is_written(runner: Runner[object], arguments: argparse.Namespace, out: TextIO, *, has_live_lines: bool) -> bool:
    """Whether the text is written to standard output while it comes.

    A terminal gets all of it, unless live lines show it there, or log lines would stand in the middle of it. A program
    gets what is certain to be the answer.
    """
    if out.isatty():
        return not has_live_lines and not (arguments.log and sys.stderr.isatty())
    return bool(arguments.stream) or is_certain(runner)


def tell_end(
    ended: Outcome[object] | BaseException,
    arguments: argparse.Namespace,
    out: TextIO,
    log: CallLog,
    seconds: float,
    display: Display | None,
) -> int:
    """Print how a run of a command ended, and return the exit status.

    Args:
        ended: the outcome, or the error.
        arguments: of the command.
        out: the stream of the answer.
        log: the tool calls of the run.
        seconds: how long the run took.
        display: has shown the run; None if it did not begin.
    """
    is_read_by_program = arguments.log == "json" or arguments.events
    return tell(
        without_vain_token(ended, arguments),
        out,
        json=arguments.json,
        log=log,
        again=repeated(arguments),
        seconds=None if is_read_by_program else seconds,
        debug=arguments.debug,
        plain=arguments.plain or arguments.rehearse,  # a rehearsal's text is not Markdown
        display=display,
    )
