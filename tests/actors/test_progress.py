"""What tools tell of how far they are."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import pytest

import understudy as us
from tests.support import process_tools
from tests.support.events import numbers
from tests.support.scripts import WAIT, scripted
from understudy.actors.run_view.progress import is_told
from understudy.testing import ScriptedModel, calls, says

STARTS = 60.0  # Seconds for an interpreter on a busy machine.


def reports_in(handle: us.RunHandle[str]) -> list[us.ToolProgress]:
    return [event for event in handle.events() if isinstance(event, us.ToolProgress)]


def test_reports_are_events_between_the_start_and_the_end_of_their_call() -> None:
    @us.tool
    def read(ctx: us.ToolContext) -> str:
        ctx.progress("opening")
        ctx.progress("reading", 3, 10)
        ctx.progress(done=0.5)
        return "done"

    handle = scripted(calls("read"), says("ok"), tools=[read]).submit("go")
    events = list(handle.events())

    told = [(event.text, event.done, event.total) for event in events if isinstance(event, us.ToolProgress)]
    assert told == [("opening", None, None), ("reading", 3, 10), ("", 0.5, None)]
    assert [type(event) for event in events[2:7]] == [us.ToolStarted, *[us.ToolProgress] * 3, us.ToolFinished]
    assert {event.call.name for event in events if isinstance(event, us.ToolProgress)} == {"read"}
    assert numbers(events) == list(range(len(numbers(events))))
    assert {event.run_id for event in events} == {handle.run_id}


def test_who_watches_hears_of_it_while_the_call_runs() -> None:
    heard = threading.Event()

    @us.tool
    def read(ctx: us.ToolContext) -> str:
        ctx.progress("half way")
        return "heard" if heard.wait(WAIT) else "not heard"

    handle = scripted(calls("read"), says("ok"), tools=[read]).submit("go")
    results: list[str] = []
    for event in handle.events():
        match event:
            case us.ToolProgress():
                heard.set()
            case us.ToolFinished(result=result):
                results.append(result.content)
            case _:
                pass

    assert results == ["heard"]


def test_of_a_flood_fewer_and_fewer_are_told_and_never_none() -> None:
    told = [number for number in range(1_000_000) if is_told(number)]

    assert told[:100] == list(range(100))
    assert len(told) < 1000
    for one, following in pairwise(told[100:]):
        assert following - one <= one // 25


def test_a_flood_harms_nobody() -> None:
    @us.tool
    def floods(ctx: us.ToolContext) -> str:
        for number in range(200_000):
            ctx.progress("x" * 10_000, number)
        return "done"

    handle = scripted(calls("floods"), says("ok"), tools=[floods]).submit("go")

    assert handle.result(WAIT).completion_reason == "the model answered"
    reports = reports_in(handle)
    assert len(reports) == sum(map(is_told, range(200_000)))
    assert {len(report.text) for report in reports} == {200}
    assert reports[-1].done is not None
    assert reports[-1].done > 190_000


def test_a_call_that_was_given_up_tells_nothing_more() -> None:
    gate, finished = threading.Event(), threading.Event()

    @us.tool(timeout=0.05)
    def hangs(ctx: us.ToolContext) -> str:
        ctx.progress("before")
        assert gate.wait(WAIT)
        ctx.progress("after")
        finished.set()
        return "late"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("hangs")
        gate.set()
        assert finished.wait(WAIT)
        return says("ok")

    handle = us.Agent("clerk", model=us.FunctionModel(answer), tools=[hangs]).submit("go")

    assert handle.result(WAIT).completion_reason == "the model answered"
    assert [report.text for report in reports_in(handle)] == ["before"]


def test_reports_come_from_a_process_and_none_after_the_call() -> None:
    turn = calls("counts_up", to=300)
    model = ScriptedModel([turn, turn, says("ok")])
    handle = us.Agent("clerk", model=model, tools=process_tools.ALL).submit("go", timeout=STARTS)

    handle.result(STARTS)

    expected = [f"number {number}" for number in range(300) if is_told(number)]
    assert [report.text for report in reports_in(handle)] == expected * 2
    assert reports_in(handle)[-1].total == 300


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((3,), "TypeError: progress: text must be a string, got 3"),
        (("", "3"), "TypeError: progress: done must be a number or None, got '3'"),
        (("", 1, True), "TypeError: progress: total must be a number or None, got True"),
        (("", float("nan")), "ValueError: progress: done must be finite, got nan"),
    ],
)
def test_what_is_no_progress_fails_the_call_that_tells_it(given: tuple[Any, ...], words: str) -> None:
    @us.tool
    def read(ctx: us.ToolContext) -> str:
        ctx.progress(*given)
        return "done"

    handle = scripted(calls("read"), says("ok"), tools=[read]).submit("go")
    (result,) = [event.result for event in handle.events() if isinstance(event, us.ToolFinished)]

    assert result.content == f"read failed: {words}"


def test_a_context_that_a_test_makes_takes_reports_and_tells_nobody(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    scope = us.Scope(None, time.monotonic)
    context = us.ToolContext(
        deps=None, session={}, run_id="r", agent_id="a", tool_name="t", call_id="c", arguments={}, scope=scope
    )

    context.progress("nobody hears")

    assert (caplog.records, *capsys.readouterr()) == ([], "", "")
