"""What is shown while a run goes on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import count

import pytest

from understudy import RunFinished, ToolCall, ToolFinished, ToolProgress, ToolResult, ToolStarted, TurnStarted
from understudy.events import Event
from understudy.outcomes import Complete
from understudy.terminal import Live, Plain, progress_on

LOOK = ToolCall("c1", "look", {"sku": "[bold]A-113"})
BOOM = ToolCall("c2", "boom")

EVENTS: list[Event] = [
    TurnStarted(turn=1),
    ToolStarted(call=LOOK),
    ToolStarted(call=BOOM),
    ToolProgress(call=LOOK, text="[b]reading\nshelves", done=3, total=1200),
    ToolProgress(call=LOOK, text="", done=0.25),
    ToolProgress(call=BOOM, text="", total=2.5),
    ToolFinished(call=LOOK, result=ToolResult("c1", "[red]7\nof 9")),
    ToolFinished(call=BOOM, result=ToolResult("c2", "boom failed: \x1b[2J", is_error=True)),
    TurnStarted(turn=2),
    RunFinished(outcome=Complete(text="Seven.", output="Seven.")),
]


class Ticks:
    """A clock that goes half a second further each time it is read."""

    def __init__(self) -> None:
        self._ticks: Iterator[int] = count()

    def __call__(self) -> float:
        return next(self._ticks) / 2


def test_in_a_pipe_each_thing_that_happens_has_a_line() -> None:
    stream = io.StringIO()
    progress = Plain(stream, clock=Ticks())

    for event in EVENTS:
        progress.see(event)
    progress.close()

    assert stream.getvalue().splitlines() == [
        "turn 1: asking the model",
        "  call look(sku='[bold]A-113')",
        "  call boom()",
        "  look: [b]reading",
        "  look: 0.25",
        "  boom: ? of 2.5",
        "  look gave, after 1.00 s: [red]7",
        "  boom failed, after 1.00 s: boom failed: �[2J",
        "turn 2: asking the model",
    ]


def test_live_lines_show_the_same_and_nothing_of_it_is_markup() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, clock=Ticks())

    for event in EVENTS:
        progress.see(event)
    progress.close()
    progress.close()

    assert [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()] == [
        "✓ look(sku='[bold]A-113')  1.00 s  [red]7",
        "✗ boom()  1.00 s  boom failed: �[2J",
    ]


def test_a_pipe_gets_plain_lines_and_a_terminal_live_ones() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    live = progress_on(stream, live=True)
    live.close()

    assert isinstance(live, Live)
    assert isinstance(progress_on(stream), Plain)
