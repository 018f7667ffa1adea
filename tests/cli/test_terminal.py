"""What is shown while a run goes on."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import count

import pytest

import understudy as us
from understudy import RunFinished, ToolCall, ToolFinished, ToolProgress, ToolResult, ToolStarted, TurnStarted
from understudy.commandline.commands.printing import put
from understudy.commandline.live_progress import MOST, Live
from understudy.commandline.plain_progress import Plain, progress_on
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.outcomes import Complete

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


def plainly(events: Iterable[Event]) -> list[str]:
    """Return the lines that events have in a pipe."""
    stream = io.StringIO()
    progress = Plain(stream, clock=Ticks())
    for event in events:
        progress.see(event)
    progress.close()
    return stream.getvalue().splitlines()


def kept(stream: io.StringIO) -> list[str]:
    """Return the lines that stay on a terminal when live ones are gone."""
    return [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]


def test_in_a_pipe_each_thing_that_happens_has_a_line() -> None:
    assert plainly(EVENTS) == [
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

    assert kept(stream) == [
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


REPORT, PANEL, CLERK = ("report",), ("report", "panel"), ("report", "panel", "clerk")
NESTED: list[Event] = [
    us.ChildStarted(path=REPORT, run_id="r1", position=0, runner_id="panel", child_run_id="r2", task="gather"),
    us.ChildStarted(path=PANEL, run_id="r2", position=0, runner_id="clerk", child_run_id="r3"),
    us.ChildStarted(path=PANEL, run_id="r2", position=1, runner_id="clerk", child_run_id="r4"),
    TurnStarted(path=CLERK, run_id="r3", turn=1),
    TurnStarted(path=CLERK, run_id="r4", turn=1),
    ToolStarted(path=CLERK, run_id="r3", call=LOOK),
    ToolStarted(path=CLERK, run_id="r4", call=LOOK),
    ToolProgress(path=CLERK, run_id="r4", call=LOOK, text="reading"),
    ToolFinished(path=CLERK, run_id="r3", call=LOOK, result=ToolResult("c1", "7")),
    us.ChildFinished(
        path=PANEL,
        run_id="r2",
        position=0,
        runner_id="clerk",
        child_run_id="r3",
        outcome=Complete(text="A\nB", output=""),
    ),
    us.ChildFinished(
        path=PANEL, run_id="r2", position=1, runner_id="clerk", child_run_id="r4", error=us.RateLimited("slow down")
    ),
    us.SessionConflict(path=PANEL, run_id="r2", keys=("x", "y")),
    us.ChildFinished(
        path=REPORT,
        run_id="r1",
        position=0,
        runner_id="panel",
        child_run_id="r2",
        task="gather",
        outcome=us.NeedsInput(question="Which?", completion_reason="it waits for an answer to: Which?"),
    ),
    RunFinished(path=REPORT, run_id="r1", outcome=us.NeedsInput(question="Which?")),
]


def test_a_compaction_and_its_failure_are_told_on_a_line_each() -> None:
    compacted = us.ContextCompacted(
        how="summarized", messages_before=40, messages_after=9, tokens_before=7100, tokens_after=2300, path=("clerk",)
    )
    failed = us.CompactionFailed(error=us.RateLimited("slow down"), path=("clerk",))

    assert plainly([compacted, failed]) == [
        "  conversation summed up: about 7,100 -> 2,300 tokens",
        "  the conversation was not summed up: RateLimited: slow down",
    ]


def test_runs_inside_are_named_by_the_way_to_them() -> None:
    assert plainly(NESTED) == [
        "report: task gather (panel) begins",
        "report > panel: clerk begins",
        "report > panel: clerk begins",
        "report > panel > clerk: turn 1: asking the model",
        "report > panel > clerk #2: turn 1: asking the model",
        "report > panel > clerk: call look(sku='[bold]A-113')",
        "report > panel > clerk #2: call look(sku='[bold]A-113')",
        "report > panel > clerk #2: look: reading",
        "report > panel > clerk: look gave, after 1.00 s: 7",
        "report > panel: clerk gave, after 2.50 s: A",
        "report > panel: clerk failed, after 2.50 s: RateLimited: slow down",
        "report > panel: session keys left in different ways: x, y",
        "report: task gather (panel) stopped, after 4.00 s: it waits for an answer to: Which?",
    ]


def test_a_run_is_named_by_the_numbers_of_those_around_it() -> None:
    each, panel = ("report",), ("report", "panel")
    events: list[Event] = [
        *[us.ChildStarted(path=each, run_id="r", position=0, runner_id="panel", child_run_id=f"p{n}") for n in "12"],
        *[
            us.ChildStarted(path=panel, run_id=f"p{n}", position=0, runner_id="clerk", child_run_id=f"c{n}")
            for n in "12"
        ],
        *[us.TurnStarted(path=(*panel, "clerk"), run_id=f"c{n}", turn=1) for n in "21"],
    ]

    assert plainly(events)[2:] == [
        "report > panel: clerk begins",
        "report > panel #2: clerk begins",
        "report > panel #2 > clerk: turn 1: asking the model",
        "report > panel > clerk: turn 1: asking the model",
    ]


def test_each_run_that_is_at_work_has_a_live_line() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, clock=Ticks())

    shown: list[list[str]] = []
    for event in NESTED:
        progress.see(event)
        shown.append(progress.at_work())
    progress.close()

    assert shown[7] == [
        "report > panel > clerk: turn 1: running look",
        "report > panel > clerk #2: turn 1: running look (reading)",
    ]
    assert shown[9] == ["report > panel > clerk #2: turn 1: running look (reading)"]
    assert shown[-1] == []
    assert kept(stream) == [
        "✓ report > panel > clerk: look(sku='[bold]A-113')  1.00 s  7",
        "✓ report > panel: clerk  2.50 s  A",
        "✗ report > panel: clerk  2.50 s  RateLimited: slow down",
        "✗ report > panel: session keys left in different ways: x, y",
        "‖ report: task gather (panel)  4.00 s  it waits for an answer to: Which?",
    ]


def test_a_sub_agent_that_was_given_up_has_no_line_any_more() -> None:
    pytest.importorskip("rich")
    progress = Live(io.StringIO(), clock=Ticks())
    lead = ("lead",)

    progress.see(TurnStarted(path=lead, run_id="r1", turn=1))
    progress.see(ToolStarted(path=lead, run_id="r1", call=BOOM))
    progress.see(TurnStarted(path=("lead", "slow"), run_id="r2", turn=1))
    before = progress.at_work()
    progress.see(ToolFinished(path=lead, run_id="r1", call=BOOM, result=ToolResult("c2", "late", is_error=True)))
    progress.close()

    assert before == ["turn 1: running boom", "lead > slow: turn 1: asking the model"]
    assert progress.at_work() == ["turn 1: asking the model"]


def test_a_run_that_goes_on_with_calls_of_an_earlier_turn_has_a_line_too() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, clock=Ticks())

    progress.see(ToolStarted(path=("lead",), run_id="r1", call=LOOK))
    began = progress.at_work()
    progress.see(ToolFinished(path=("lead",), run_id="r1", call=LOOK, result=ToolResult("c1", "7")))
    progress.see(TurnStarted(path=("lead",), run_id="r1", turn=2))
    asked = progress.at_work()
    progress.close()

    assert (began, asked) == (["running look"], ["turn 2: asking the model"])
    assert "✓ look(sku='[bold]A-113')  0.50 s  7" in stream.getvalue()


def test_of_many_runs_at_work_some_are_counted() -> None:
    pytest.importorskip("rich")
    progress = Live(io.StringIO(), clock=Ticks())

    for number in range(MOST + 2):
        progress.see(TurnStarted(path=("all", f"a{number}"), run_id=f"r{number}", turn=1))
    progress.close()

    assert len(progress.at_work()) == MOST
    assert progress.at_work()[-1] == "and 3 more"


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


STYLES = re.compile(r"\x1b\[[0-9;]*m")
ANSWER = "# What to do\n\n- order **two chains** from Lumo\n- count the bells\x1b[2J\n\n" + "several words " * 20


def test_on_a_terminal_an_answer_is_shown_as_markdown_and_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen()

    put(ANSWER, screen, markdown=True)

    lines = STYLES.sub("", screen.getvalue()).splitlines()
    assert any("• order two chains from Lumo" in line for line in lines)
    assert all(len(line.rstrip()) <= 60 for line in lines)
    assert all(word in {"several", "words"} for line in lines[-4:] for word in line.split())
    assert "\x1b[2J" not in screen.getvalue()


def test_markdown_keeps_the_lines_and_what_looks_like_html(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen()

    put("Order:\n1 x A-113\n2 x <b>B-7</b>\n\n```\na\nb\n```", screen, markdown=True)

    lines = [line.strip() for line in STYLES.sub("", screen.getvalue()).splitlines()]
    assert [line for line in lines if line] == ["Order:", "1 x A-113", "2 x <b>B-7</b>", "a", "b"]


def test_in_a_pipe_an_answer_is_printed_as_it_is() -> None:
    pipe = io.StringIO()

    put(ANSWER, pipe, markdown=True)

    assert pipe.getvalue() == f"{ANSWER}\n"


RETRIES: list[Event] = [
    us.RetryScheduled(what="model", turn=1, attempt=1, wait=1.24, error=us.RateLimited("slow\x1b[2J down")),
    us.RetryScheduled(what="tool", call=LOOK, attempt=1, wait=0.0, error=us.ToolTimeout("too slow")),
    us.RetryScheduled(
        path=("flow",),
        run_id="r1",
        what="task",
        task="find",
        runner_id="clerk",
        attempt=2,
        wait=60.0,
        error=us.BadReply("half"),
    ),
]


def test_a_retry_has_a_line_with_its_wait_and_what_went_wrong() -> None:
    assert plainly(RETRIES) == [
        "  trying again in 1.2 s: RateLimited: slow�[2J down",
        "  look: trying again at once: ToolTimeout: too slow",
        "flow: task find (clerk): trying again in 60.0 s: BadReply: half",
    ]


def test_live_lines_show_retries_too() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream)

    for event in RETRIES:
        progress.see(event)
    progress.close()

    assert kept(stream) == [
        "↻ trying again in 1.2 s: RateLimited: slow�[2J down",
        "↻ look: trying again at once: ToolTimeout: too slow",
        "↻ flow: task find (clerk): trying again in 60.0 s: BadReply: half",
    ]


SAID: list[Event] = [
    TurnStarted(turn=1),
    us.TextDelta(text="Let me "),
    us.TextDelta(text="look.\x1b[2J", offset=7),
    us.TurnFinished(turn=1, response=us.ModelTurn((LOOK,))),
    ToolStarted(call=LOOK),
    us.TextDelta(path=("lead", "inner"), run_id="r2", text="inside"),
    ToolFinished(call=LOOK, result=ToolResult("c1", "7")),
    TurnStarted(turn=2),
    us.TextDelta(text="[b]By card.", turn=2),
    us.TurnFinished(turn=2, response=us.says("By card.")),
    us.TurnDropped(turn=2, text="By card.", by="no cards"),
    TurnStarted(turn=3),
    us.TextDelta(text="By cash.", turn=3),
]


def test_live_lines_keep_a_text_that_is_not_the_answer_and_mark_one_that_does_not_stand() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, clock=Ticks(), shows_text=True)

    for event in [*SAID, RunFinished(outcome=Complete(text="By cash.", output=""))]:
        progress.see(event)
    progress.close()

    assert kept(stream) == [
        "Let me look.�[2J",
        "✓ look(sku='[bold]A-113')  0.50 s  7",
        "[b]By card.",
        "[taken back: by no cards]",
    ]


def test_live_lines_keep_the_part_of_a_text_whose_run_was_ended() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, shows_text=True)

    for event in SAID:
        progress.see(event)
    progress.close()

    assert kept(stream)[-1] == "By cash."


def test_live_lines_show_the_last_lines_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "40")
    progress = Live(io.StringIO(), shows_text=True)

    progress.see(TurnStarted(turn=1))
    progress.see(us.TextDelta(text="".join([f"line {number}\n" for number in range(5000)])))
    shown = progress.doing.plain.splitlines()
    progress.close()

    assert shown[0] == "turn 1: asking the model"
    assert shown[1:] == [f"line {number}" for number in range(4994, 5000)]


def test_live_lines_show_no_text_unless_they_are_asked_to() -> None:
    pytest.importorskip("rich")
    stream = io.StringIO()
    progress = Live(stream, clock=Ticks())

    for event in SAID:
        progress.see(event)
    progress.close()

    assert kept(stream) == ["✓ look(sku='[bold]A-113')  0.50 s  7"]
