"""Shows a run on both standard streams: its progress, the text of its model as it is written, and its end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TextIO, TypeAlias, cast

from understudy.commandline.call_log import CallLog
from understudy.commandline.event_words import Display, Progress
from understudy.commandline.piece_writer import PieceWriter
from understudy.commandline.plain_progress import Quiet, is_live, progress_on
from understudy.commandline.turn_text import is_of_outermost
from understudy.commandline.written_text import WrittenText
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.front_ends.event_json import event_json
from understudy.orchestration.front_ends.sse import json_text
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.events import Event, RunFailed, RunFinished, TextDelta
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


def is_certain(runner: Runner[object]) -> bool:
    """Whether the first text of the runner's model is its answer, unless the run fails.

    So it is of an agent without tools and sub-agents, whose answer nobody judges or replaces. A server's own tools, which
    `settings.extra` may ask for, can end a turn before the answer.
    """
    if not isinstance(runner, Agent) or runner.tools_by_name or runner.settings.extra:
        return False
    judged = runner.criteria or runner.output_type is not None or runner.restart_on
    return not judged and not any(_may_replace(callback) for callback in runner.callbacks)


def _may_replace(callback: AgentCallback) -> bool:
    """Whether a callback sees turns or errors: it may put another text in their place."""
    own = type(callback)
    return own.after_model_call is not AgentCallback.after_model_call or own.on_error is not AgentCallback.on_error


Ended: TypeAlias = "Outcome[object] | BaseException"


class EventLines:
    """Prints each event of a run and of those inside as a line of JSON. The last line is the run's end.

    Args:
        out: the stream.
        without_vain_token: returns how a run ended without a token that nobody can use.
    """

    def __init__(self, out: TextIO, without_vain_token: Callable[[Ended], Ended]) -> None:
        self._lines = PieceWriter(out)
        self._without_vain_token = without_vain_token
        self._is_over = False

    def see(self, event: Event) -> None:
        if isinstance(event, (RunFinished, RunFailed)):
            event, self._is_over = self._with_useful_token(event), True
        self._lines.write(f"{json_text(event_json(event))}\n")

    def close(self) -> None:
        """Do nothing: lines stay."""

    def settle(self, answer: str, aside: str) -> tuple[str, str]:
        """Return nothing to print, unless no reader got the run's end: then people are told."""
        return "", "" if self._is_over and self._lines.problem is None else aside

    def check(self) -> None:
        self._lines.check()

    def _with_useful_token(self, event: RunFinished | RunFailed) -> RunFinished | RunFailed:
        if isinstance(event, RunFinished):
            return replace(event, outcome=cast("Outcome[object]", self._without_vain_token(event.outcome)))
        self._without_vain_token(event.error)
        return event
