"""What a tool is told when its time is over, before it is given up."""

from __future__ import annotations

import threading
from unittest.mock import patch

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, results_of, scripted
from understudy.actors.runs import watchdog
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.testing import FunctionModel, calls, says


@us.tool(timeout=0.05)
def looks(ctx: us.ToolContext) -> str:
    told = threading.Event()
    ctx.scope.on_cancel(told.set)
    assert told.wait(WAIT)
    ctx.scope.check()
    return "never"


@us.tool(timeout=0.05)
def closes(ctx: us.ToolContext) -> str:
    told = threading.Event()
    ctx.scope.on_cancel(told.set)
    assert told.wait(WAIT)
    raise ConnectionError("the line was cut, as it should be")


@us.tool(timeout=0.05)
def finishes(ctx: us.ToolContext) -> str:
    told = threading.Event()
    ctx.scope.on_cancel(told.set)
    assert told.wait(WAIT)
    return "as far as I came"


NAMES = ("looks", "closes", "finishes")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside others"])
def test_a_tool_that_stops_when_it_is_told_to_is_not_given_up(system: us.ActorSystem, beside: bool) -> None:
    abandoned: list[us.WorkAbandoned] = []
    system.subscribe(abandoned.append, us.WorkAbandoned)
    turns = [calls(name) for name in NAMES]
    if beside:
        turns = [turns[0] + turns[1] + turns[2]]

    outcome = scripted(*turns, says("ok"), tools=[looks, closes, finishes]).run("go", system=system)

    assert [result.error_kind for result in results_of(outcome)] == ["timed_out", "timed_out", ""]
    assert results_of(outcome)[2].content == "as far as I came"
    assert system.hung == 0
    system.stop()
    assert abandoned == []


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_where_an_overdue_tool_is_stands_in_an_event(system: us.ActorSystem, beside: bool) -> None:
    gate, events = threading.Event(), list[us.SystemEvent]()
    system.subscribe(events.append, us.WorkOverdue, us.WorkAbandoned)

    @us.tool(timeout=0.05)
    def hangs_here() -> str:
        assert gate.wait(WAIT)
        return "late"

    turn = calls("hangs_here") + calls("quick") if beside else calls("hangs_here")
    handle = scripted(turn, says("ok"), tools=[hangs_here, quick]).submit("go", system=system)

    assert results_of(handle.result(WAIT))[0].error_kind == "timed_out"
    gate.set()
    eventually(lambda: len(events) == 2, "both were told")
    overdue, abandoned = events
    assert isinstance(overdue, us.WorkOverdue) and isinstance(abandoned, us.WorkAbandoned)
    assert (overdue.what, overdue.run_id) == ("running tool hangs_here", handle.run_id)
    assert "assert gate.wait(WAIT)" in overdue.stack
    assert overdue.seconds <= abandoned.seconds


def quick() -> str:
    return "quick"


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_tool_that_blocks_who_tells_it_holds_its_run_up_no_longer(system: us.ActorSystem, beside: bool) -> None:
    gate, told = threading.Event(), threading.Event()

    def block() -> None:
        told.set()
        gate.wait(WAIT)

    @us.tool(timeout=0.05)
    def blocks(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(block)
        gate.wait(WAIT)
        return "late"

    turn = calls("blocks") + calls("quick") if beside else calls("blocks")
    handle = scripted(turn, says("ok"), tools=[blocks, quick]).submit("go", system=system)

    assert results_of(handle.result(WAIT))[0].error_kind == "timed_out"
    assert told.is_set() and not gate.is_set()
    gate.set()


def test_a_tool_that_blocks_who_tells_it_keeps_no_run_from_its_deadline(system: us.ActorSystem) -> None:
    gate = threading.Event()

    @us.tool(timeout=0.05, retries=5, idempotent=True)
    def blocks(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(lambda: gate.wait(WAIT))
        gate.wait(WAIT)
        return "late"

    handle = scripted(calls("blocks"), says("ok"), tools=[blocks]).submit("go", system=system, timeout=0.2)

    assert isinstance(handle.exception(WAIT), us.RunTimedOut)
    gate.set()


@pytest.mark.parametrize("again", [False, True], ids=["given up", "made again"])
def test_what_a_call_brings_in_the_moment_in_which_its_run_is_taken_away_is_not_taken(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked = list[str](), list[int]()

    def looked_up() -> str:
        made.append("made")
        return "found"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.append(request.turn)
        return calls("looked_up") if request.turn == 1 else says("ok")

    def hear(run: AgentRunActor, work: object) -> None:
        order = run.step_order
        if order is None or made != ["made"]:
            heard(run, work)
        else:  # its time is over just now

            def hear_first(record: AgentRunRecord, epoch: int) -> None:
                heard(run, work)
                drive_on(record, epoch)

            with patch.object(watchdog, "drive_on", hear_first):
                watchdog.take_step_away(run, order, again)

    heard, drive_on = AgentRunActor.hear, watchdog.drive_on
    monkeypatch.setattr(AgentRunActor, "hear", hear)
    with us.ActorSystem("shop") as system:
        outcome = us.Agent("clerk", model=FunctionModel(answer), tools=[looked_up]).run("go", system=system)

    assert outcome.text == "ok"
    assert asked == [1, 2]
    assert len(made) == (2 if again else 1)
    assert [result.error_kind for result in results_of(outcome)] == ["" if again else "timed_out"]
