"""Two threads at one run, in the order that hurts: each order is forced with a gate, none is left to luck."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from typing import Any

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually, finished, results_of, scripted
from understudy.actors.run_view.log import RunLog
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.actors.system.actor_system import runs_of
from understudy.actors.system.directory import AgentActor, StartRun
from understudy.actors.system.run_manager import RunManager
from understudy.actors.tools.batch_call import Call
from understudy.orchestration.definitions.port import ResumeOptions, RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def test_a_done_callback_may_run_its_agent_again() -> None:
    gate, answered, texts = threading.Event(), threading.Event(), list[str]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert gate.wait(WAIT)
        return says("ok")

    agent = us.Agent("clerk", model=FunctionModel(answer))

    def again(_: us.RunHandle) -> None:
        texts.append(finished(agent.run("again", timeout=WAIT / 2)).text)
        answered.set()

    agent.submit("go").add_done_callback(again)
    gate.set()

    assert answered.wait(WAIT)
    assert texts == ["ok"]


def test_a_tool_may_run_an_agent_again_whose_run_it_cancelled() -> None:
    entered, gate = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.messages[0].text == "hang":
            entered.set()
            gate.wait(WAIT)
        return says("ok")

    other = us.Agent("other", model=FunctionModel(answer))

    def change_my_mind() -> str:
        handle = other.submit("hang")
        assert entered.wait(WAIT)
        handle.cancel()
        return finished(other.run("again", timeout=WAIT / 2)).text

    outcome = scripted(calls("change_my_mind"), says("done"), tools=[change_my_mind]).run("go")
    gate.set()

    assert [r.content for r in results_of(outcome)] == ["ok"]


@pytest.mark.parametrize("moment", ["take_up", "run_turns"])
def test_a_run_that_is_cancelled_when_it_is_about_to_begin_calls_no_model(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, begin, tried = ScriptedModel([says("ok")]), getattr(AgentRunActor, moment), threading.Event()
    begun = list[object]()

    def cancelled_meanwhile(run: AgentRunActor, *given: Any) -> object:
        assert run.host.endings.cancel(run)
        begun.append(begin(run, *given))
        tried.set()
        return begun[0]

    monkeypatch.setattr(AgentRunActor, moment, cancelled_meanwhile)
    with us.ActorSystem("shop") as system:
        agent = us.Agent("clerk", model=model)
        record = runs_of(system).prepare(agent, "go", RunOptions())
        AgentActor(weakref.ref(agent)).on_receive(StartRun(record))

        assert tried.wait(WAIT)
        assert not begun[0]
        assert record.in_hand is None
        assert model.requests == []


def test_a_run_begun_in_a_run_that_was_cancelled_is_not_in_flight_for_ever() -> None:
    system, handles, entered, returned = (
        us.ActorSystem("shop"),
        list[us.RunHandle](),
        threading.Event(),
        threading.Event(),
    )

    def begins_late(ctx: us.ToolContext) -> str:
        entered.set()
        with contextlib.suppress(us.RunCancelled):
            ctx.scope.sleep(WAIT)
        handles.append(scripted(says("ok")).submit("too late"))
        returned.set()
        return "ok"

    outer = scripted(calls("begins_late"), tools=[begins_late]).submit("go", system=system)
    assert entered.wait(WAIT)
    outer.cancel()
    assert returned.wait(WAIT)

    assert isinstance(handles[0].exception(WAIT), us.RunCancelled)
    assert system.in_flight == 0


def test_calls_that_come_while_the_run_around_theirs_is_cancelled_keep_nothing_of_their_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, cancelling, given_up, leave = [threading.Event() for _ in range(4)]
    seen = list[weakref.ref[threading.Event]]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        assert cancelling.wait(WAIT)
        return calls("look") + calls("look")

    inner = us.Agent("inner", model=FunctionModel(answer), tools=[us.tool(name="look")(lambda: "seen")])

    def hold() -> None:
        cancelling.set()
        given_up.wait(WAIT)

    def begin(ctx: us.ToolContext) -> str:
        for _ in range(2):  # one for each thread that may be at it: for the run, and for this call
            ctx.scope.on_cancel_at_once(hold)
        deps = threading.Event()
        seen.append(weakref.ref(deps))
        inner.submit("go", deps=deps)
        del deps
        assert leave.wait(WAIT)
        return "begun"

    def call_over(actor: AgentRunActor, call: Call) -> None:
        if call.order.call.name == "look":  # the end of its run comes before this news
            given_up.set()

    monkeypatch.setattr(AgentRunActor, "_call_over", call_over)
    gc.collect()
    gc.disable()
    try:
        with us.ActorSystem("shop") as system:
            handle = scripted(calls("begin"), tools=[begin]).submit("go", system=system)
            assert asked.wait(WAIT)
            assert handle.cancel()
            leave.set()

            assert given_up.is_set()
            eventually(lambda: system.hung == 0 and seen[0]() is None, "nothing refers to the inner run")
    finally:
        gc.enable()


def test_a_sub_agent_that_ends_because_another_call_ended_the_run_is_not_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, end_round = Gate(), AgentRunActor._end_round  # pyright: ignore[reportPrivateUsage]

    def end_round_late(run: AgentRunActor) -> None:
        eventually(lambda: len(run.raised) == 2, "the sub-agent has ended too")
        end_round(run)

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2:
            gate()
        return calls("look")

    def pay() -> str:
        assert gate.entered.wait(WAIT)
        raise LookupError("no such account")

    monkeypatch.setattr(AgentRunActor, "_end_round", end_round_late)
    look = us.tool(name="look")(lambda: "seen")
    inner = us.Agent("inner", model=FunctionModel(answer), tools=[look])  # it could go on, for it has done something
    model = ScriptedModel([calls("inner", input="?") + calls("pay")])
    outer = us.Agent("outer", model=model, sub_agents=[inner], tools=[pay], on_tool_error="raise")
    with us.ActorSystem("shop") as system:
        error = outer.submit("go", system=system).exception(WAIT)
        gate.open()

        assert isinstance(error, us.ToolError)
        assert isinstance(error.__cause__, LookupError)


def test_a_run_resumed_as_soon_as_its_last_event_is_told_stays_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, system = threading.Event(), us.ActorSystem("shop")

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return says("__ask_user__: who?")
        assert gate.wait(WAIT)
        return says("ok")

    agent, end = us.Agent("clerk", model=FunctionModel(answer)), RunLog.end

    def end_and_resume(log: RunLog, ending: us.Outcome[object] | BaseException) -> None:
        end(log, ending)
        if isinstance(ending, us.NeedsInput):
            runs_of(system).launch(runs_of(system).paused.go_on(agent, ending.token, "Ada", ResumeOptions()))

    monkeypatch.setattr(RunLog, "end", end_and_resume)
    assert isinstance(agent.run("go", system=system), us.NeedsInput)

    assert system.in_flight == 1
    gate.set()
    eventually(lambda: system.in_flight == 0, "the resumed run ended")


def test_a_work_that_was_given_up_is_counted_once_when_its_run_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, drive = threading.Event(), RunManager.drive

    @us.tool(timeout=0.05)
    def hang() -> str:
        gate.wait(WAIT)
        return "late"

    def cancel_before_it_goes_on(runs: RunManager, record: AgentRunRecord, epoch: int, *, last: bool = False) -> None:
        if epoch > 0:
            runs.endings.cancel(record)
        drive(runs, record, epoch, last=last)
        taken_over.append(epoch)

    taken_over: list[int] = []
    monkeypatch.setattr(RunManager, "drive", cancel_before_it_goes_on)
    with us.ActorSystem("shop") as system:
        handle = scripted(calls("hang"), says("ok"), tools=[hang]).submit("go", system=system)

        assert isinstance(handle.exception(WAIT), us.RunCancelled)
        eventually(lambda: sorted(taken_over) == [0, 1], "the watchdog went on")
        assert system.hung == 1
        gate.set()
        eventually(lambda: system.hung == 0, "the tool came back")


def test_a_run_that_is_over_cannot_be_ended_again() -> None:
    with us.ActorSystem("shop") as system:
        record = runs_of(system).prepare(scripted(says("ok")), "go", RunOptions())
        runs_of(system).launch(record)
        assert record.promise.wait(WAIT)

        assert record.host.endings.cancel(record) is False  # as a thread may that looked before the end
        assert record.phase == "complete"
