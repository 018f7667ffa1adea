"""Progress on a terminal: a line for each finished call and run, and below them a live line for each active run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from understudy.vocabulary.messages import ToolCall
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    CompactionFailed,
    ContextCompacted,
    Event,
    RetryScheduled,
    RunFinished,
    SessionConflict,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDropped,
    TurnFinished,
    TurnStarted,
)

from .event_words import (
    Names,
    Stopwatch,
    child_of,
    ending_of,
    retried,
    shown_compaction,
    shown_conflict,
    shown_progress,
    shown_retry,
)
from .report import for_terminal, one_line, shown_call
from .turn_text import NOT_THE_ANSWER, TurnText, is_of_outermost, taken_back

if TYPE_CHECKING:
    from rich.text import Text

MARKS = {"gave": ("✓", "green"), "stopped": ("‖", "yellow"), "failed": ("✗", "red"), "again": ("↻", "yellow")}
"""Verb of an ending -> mark and colour. A run that stopped may continue later."""

MOST = 8  # Lines of active runs; more would push the finished ones off the screen.
LEAST_TEXT = 3  # Lines of the text that is being written, on the smallest terminal.


@dataclass(slots=True)
class _AtWork:
    """An active run, which waits for its model or its tools."""

    path: tuple[str, ...]
    name: str
    turn: int | None
    """None before the first turn, in a resumed run that starts with calls of an earlier turn."""
    open: list[ToolCall] = field(default_factory=list[ToolCall])
    reached: dict[str, str] = field(default_factory=dict[str, str])
    """The latest progress of each call, by the call's id."""

    def said(self) -> str:
        calls = ", ".join([self._named(call) for call in self.open])
        turn = "" if self.turn is None else f"turn {self.turn}: "
        doing = f"{turn}{'running ' + one_line(calls) if calls else 'asking the model'}"
        return f"{self.name}: {doing}" if self.name else doing

    def _named(self, call: ToolCall) -> str:
        reached = self.reached.get(call.id)
        return call.name if reached is None else f"{call.name} ({reached})"


class _Drawn:
    """The live lines as rich draws them, some times a second and on its own thread: long texts are wrapped only then."""

    def __init__(self, draw: Callable[[], Text]) -> None:
        self._draw = draw

    def __rich__(self) -> Text:
        return self._draw()


class Live:
    """Live lines of rich; texts of tools and models are never read as markup.

    Args:
        stream: the terminal.
        clock: measures calls and runs.
        shows_text: whether the last lines of the model's text are shown while it is written. The answer is not kept: it
            is printed when the run is over. A text that is not the answer stays.
    """

    def __init__(
        self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic, shows_text: bool = False
    ) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._status = self._console.status("starting")
        self._status.start()
        self._watch = Stopwatch(clock)
        self._names = Names()
        self._at_work: dict[str, _AtWork] = {}
        self._text = TurnText() if shows_text else None
        self._lines: tuple[str, ...] = ()
        """Those of the active runs, for the thread that draws them."""

    def see(self, event: Event) -> None:
        """Show a turn, a call, its progress or result, or the start or end of an inner run."""
        self._status.start()  # starts again after `close` if the run continues; otherwise has no effect
        name = self._names.of(event)
        match event:
            case ToolFinished(call=call, result=result):
                taken = self._watch.stop(event.run_id, call.id)
                self._ended(
                    "failed" if result.is_error else "gave", name, shown_call(call), taken, one_line(result.content)
                )
            case RetryScheduled():
                who = retried(event)
                self._ended("again", name, who, None, f"{': ' if who else ''}{shown_retry(event)}")
            case ChildStarted():
                self._watch.start(event.child_run_id)
            case ChildFinished():
                verb, rest = ending_of(event)
                taken = self._watch.stop(event.child_run_id)
                self._ended(verb, name, child_of(event), taken, rest)
                self._at_work.pop(event.child_run_id, None)
            case ContextCompacted() | CompactionFailed():
                verb = "failed" if isinstance(event, CompactionFailed) else "again"
                self._ended(verb, name, "", None, shown_compaction(event))
            case SessionConflict():
                self._ended("failed", name, "", None, shown_conflict(event))
            case _:
                pass
        if self._work(event, name):
            self._lines = tuple(self.at_work())
            self._status.update(self.doing)
        if self._written(event):
            self._status.update(_Drawn(lambda: self.doing))

    def close(self) -> None:
        """Remove the lines of active runs until the next event; lines of finished ones stay, and a text without its end."""
        self._keep_text()
        self._status.stop()

    def _written(self, event: Event) -> bool:
        """Take the text of the outermost run's turn; return whether it changed."""
        text = self._text
        if text is None or not is_of_outermost(event):
            return False
        match event:
            case TextDelta():
                return bool(text.add(event))
            case TurnFinished(response=response) if response.tool_calls:
                self._keep_text()
            case TurnStarted():
                self._keep_text(NOT_THE_ANSWER)
            case TurnDropped(by=by):
                self._keep_text(taken_back(by))
            case RunFinished():  # its text is printed as the answer
                text.clear()
            case _:
                return False
        return True

    def _keep_text(self, mark: str = "") -> None:
        """Print the text, which is not the answer, above the live lines, and the mark below it."""
        from rich.text import Text

        if self._text is None or not self._text.shown:
            return
        shown = for_terminal(self._text.shown).strip("\n")
        self._console.print(Text(f"{shown}\n{mark}" if mark else shown))
        self._text.clear()

    def _work(self, event: Event, name: str) -> bool:
        """Update the active runs; return whether anything changed."""
        run = self._at_work.get(event.run_id)
        match event:
            case TurnStarted(turn=turn):
                self._at_work[event.run_id] = _AtWork(event.path, name, turn)
            case TurnFinished(response=response) if run is not None and not response.tool_calls:
                del self._at_work[event.run_id]
            case ToolStarted(call=call):
                self._watch.start(event.run_id, call.id)
                self._at_work.setdefault(event.run_id, _AtWork(event.path, name, None)).open.append(call)
            case ToolProgress(call=call) if run is not None:
                run.reached[call.id] = shown_progress(event)
            case ToolFinished(call=call) if run is not None:
                run.reached.pop(call.id, None)
                run.open = [one for one in run.open if one.id != call.id]
                if not run.open:
                    self._forget_below(event.path)
            case ChildFinished():
                pass
            case _:
                return False
        return True

    def _forget_below(self, path: tuple[str, ...]) -> None:
        """Forget the inner runs of an agent's calls: an abandoned one sends no event at its end."""
        deep = len(path)
        self._at_work = {
            run_id: run for run_id, run in self._at_work.items() if len(run.path) <= deep or run.path[:deep] != path
        }

    def at_work(self) -> list[str]:
        """Return the lines of the active runs."""
        lines = [run.said() for run in self._at_work.values()]
        if len(lines) > MOST:
            lines[MOST - 1 :] = [f"and {len(lines) - MOST + 1} more"]
        return lines

    @property
    def doing(self) -> Text:
        """The live lines: those of the active runs, and the end of the text that is being written."""
        from rich.text import Text  # plain text: texts of tools and models must not be read as markup

        lines, shown = self._lines, "" if self._text is None else self._text.shown
        doing = Text("\n".join(lines) or "between runs", "dim")
        if shown:
            doing = Text("").append_text(doing).append("\n").append_text(self._last_lines(shown, len(lines)))
        return doing

    def _last_lines(self, shown: str, taken: int) -> Text:
        """Return the last lines of the text, as many as fit below `taken` others."""
        from rich.text import Text

        most, width = max(LEAST_TEXT, self._console.height - taken - 3), max(10, self._console.width - 4)
        end = shown.rstrip("\n")[-most * width :]  # these lines have no more characters
        return Text("\n").join(Text(for_terminal(end)).wrap(self._console, width)[-most:])

    def _ended(self, verb: str, name: str, what: str, taken: float | None, rest: str) -> None:
        from rich.text import Text

        mark, style = MARKS[verb]
        text = Text.assemble(
            (f"{mark} ", style),
            (f"{name}: " if name else "", "dim"),
            (what, "bold"),
            ("" if taken is None else f"  {taken:.2f} s  ", "dim"),
            rest,
        )
        self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
