"""What the command line shows while a run goes on: plain lines in a pipe, live ones on a terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TextIO

from understudy.events import Event, ToolFinished, ToolProgress, ToolStarted, TurnStarted
from understudy.messages import ToolCall

from .report import one_line, shown_call

if TYPE_CHECKING:
    from rich.console import RenderableType


class Progress(Protocol):
    """Shows the events of one run."""

    def see(self, event: Event) -> None:
        """Show an event, if it is one to show."""
        ...

    def close(self) -> None:
        """Take away what is not to stay. A second call does nothing."""
        ...


def progress_on(stream: TextIO, *, live: bool | None = None) -> Progress:
    """Return what shows progress on `stream`: live if it is a terminal and rich is installed, else plain."""
    wanted = stream.isatty() if live is None else live
    return Live(stream) if wanted and find_spec("rich") is not None else Plain(stream)


class Quiet:
    """Shows nothing."""

    def see(self, event: Event) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Stopwatch:
    """How long each tool call took. Ids are unique within a turn, which is as long as a call can last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}

    def start(self, call: ToolCall) -> None:
        self._began[call.id] = self._clock()

    def stop(self, call: ToolCall) -> float:
        now = self._clock()
        return now - self._began.pop(call.id, now)


def shown_progress(event: ToolProgress) -> str:
    """Return on one line how far a call is: its text, and how much of how much."""
    share = "" if event.done is None else _number(event.done)
    if event.total is not None:
        share = f"{share or '?'} of {_number(event.total)}"
    return one_line(" ".join([words for words in (event.text, share) if words]))


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}".rstrip("0").rstrip(".")


class Plain:
    """One line for each thing that begins or ends."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._watch = _Stopwatch(clock)

    def see(self, event: Event) -> None:
        """Print a line for a turn, a call, how far it is, or a result."""
        match event:
            case TurnStarted(turn=turn):
                self._line(f"turn {turn}: asking the model")
            case ToolStarted(call=call):
                self._watch.start(call)
                self._line(f"  call {shown_call(call)}")
            case ToolProgress(call=call):
                self._line(f"  {call.name}: {shown_progress(event)}")
            case ToolFinished(call=call, result=result):
                verb = "failed" if result.is_error else "gave"
                taken = self._watch.stop(call)
                self._line(f"  {call.name} {verb}, after {taken:.2f} s: {one_line(result.content)}")
            case _:
                pass

    def close(self) -> None:
        """Do nothing: lines stay."""

    def _line(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the run matters, not who watches it
            self._stream.write(f"{text}\n")  # at once: tools print to the same stream, from their threads
            self._stream.flush()


class Live:
    """A line for each call that ended, and below them what goes on at this moment."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._status = self._console.status("starting")
        self._status.start()
        self._watch = _Stopwatch(clock)
        self._turn = 0
        self._open: list[ToolCall] = []
        self._reached: dict[str, str] = {}
        """How far the calls are that said so, by their ids."""

    def see(self, event: Event) -> None:
        """Show a turn, a call, how far it is, or a result."""
        match event:
            case TurnStarted(turn=turn):
                self._turn = turn
            case ToolStarted(call=call):
                self._watch.start(call)
                self._open.append(call)
            case ToolProgress(call=call):
                self._reached[call.id] = shown_progress(event)
            case ToolFinished(call=call):
                self._reached.pop(call.id, None)
                self._open = [one for one in self._open if one.id != call.id]
                self._console.print(self._ended(event), no_wrap=True, overflow="ellipsis", crop=True)
            case _:
                return
        self._status.update(self._doing())

    def close(self) -> None:
        """Take the last line away; those of the calls stay."""
        self._status.stop()

    def _doing(self) -> RenderableType:
        from rich.text import Text  # text as it is: what a tool or model says is no markup

        calls = ", ".join([self._named(call) for call in self._open])
        return Text(f"turn {self._turn}: {'running ' + one_line(calls) if calls else 'asking the model'}", "dim")

    def _named(self, call: ToolCall) -> str:
        reached = self._reached.get(call.id)
        return call.name if reached is None else f"{call.name} ({reached})"

    def _ended(self, event: ToolFinished) -> RenderableType:
        from rich.text import Text

        taken = self._watch.stop(event.call)
        mark, style = ("✗", "red") if event.result.is_error else ("✓", "green")
        return Text.assemble(
            (f"{mark} ", style),
            (shown_call(event.call), "bold"),
            (f"  {taken:.2f} s  ", "dim"),
            one_line(event.result.content),
        )
