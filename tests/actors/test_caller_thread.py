"""Tools with isolation="caller": their calls run on the thread that waits in run(), and no thread waits for ever."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from collections.abc import Callable

import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, eventually, results_of, scripted
from understudy.errors import CircularAgentCall, RunCancelled, RunTimedOut
from understudy.testing import FunctionModel, ScriptedModel, calls, says

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nobody")


@us.tool(isolation="caller")
def thread() -> int:
    return threading.get_ident()


# --- where calls run


def test_a_call_runs_on_the_thread_that_called_run() -> None:
    outcome = scripted(calls("thread"), says("ok"), tools=[thread]).run("go")

    assert contents_of(outcome) == [str(threading.get_ident())]


def test_each_of_many_threads_runs_its_own_calls() -> None:
    agent = us.Agent(
        "clerk",
        model=FunctionModel(lambda request: says("ok") if request.tool_results else calls("thread") + calls("thread")),
        tools=[thread],
    )
    own: list[bool] = []

    def run() -> None:
        own.append(contents_of(agent.run("go")) == [str(threading.get_ident())] * 2)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WAIT)

    assert own == [True] * 8


def test_calls_of_one_turn_run_one_after_another_in_call_order() -> None:
    log: list[str] = []

    @us.tool(isolation="caller")
    def step(name: str) -> str:
        log.append(f"{name} begins")
        log.append(f"{name} ends")
        return name

    turn = calls("step", name="a") + calls("step", name="b") + calls("step", name="c")
    outcome = scripted(turn, says("ok"), tools=[step]).run("go")

    assert contents_of(outcome) == ["a", "b", "c"]
    assert log == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


def test_calls_on_other_threads_run_meanwhile() -> None:
    both = threading.Barrier(2)

    @us.tool(isolation="caller")
    def here() -> int:
        both.wait(WAIT)
        return threading.get_ident()

    @us.tool
    def there() -> int:
        both.wait(WAIT)
        return threading.get_ident()

    one, other = contents_of(scripted(calls("there") + calls("here"), says("ok"), tools=[here, there]).run("go"))

    assert other == str(threading.get_ident()) != one


def test_context_variables_are_the_callers_own() -> None:
    @us.tool(isolation="caller")
    def swap() -> str:
        seen = word.get()
        word.set("tool")
        return seen

    def run() -> tuple[list[str], str]:
        word.set("caller")
        return contents_of(scripted(calls("swap"), says("ok"), tools=[swap]).run("go")), word.get()

    assert contextvars.copy_context().run(run) == (["caller"], "tool")


def test_a_call_sees_its_run_and_the_caller_is_outside_of_it_again() -> None:
    @us.tool(isolation="caller")
    def look(ctx: us.ToolContext, key: str) -> str:
        ctx.session[key] = "seen"
        assert us.current_scope() is ctx.scope
        return ctx.run_id

    session = us.SessionState()
    outcome = scripted(calls("look", key="k"), says("ok"), tools=[look]).run("go", session=session)

    assert contents_of(outcome) == [outcome.run_id]
    assert session.snapshot() == {"k": "seen"}
    assert us.current_scope() is None


def test_an_async_tool_runs_in_a_loop_on_that_thread() -> None:
    @us.tool(isolation="caller")
    async def look() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert contents_of(scripted(calls("look"), says("ok"), tools=[look]).run("go")) == [str(threading.get_ident())]


def test_a_tool_that_raises_is_tried_again_and_fails_as_any_tool() -> None:
    attempts: list[int] = []

    @us.tool(isolation="caller", retries=1)
    def flaky() -> str:
        attempts.append(1)
        raise ConnectionError(f"busy {len(attempts)}")

    outcome = scripted(calls("flaky"), says("ok"), tools=[flaky]).run("go")

    assert contents_of(outcome) == ["flaky failed: ConnectionError: busy 2"]


def test_after_an_approval_the_calls_run_on_the_thread_that_resumes() -> None:
    @us.tool(isolation="caller", approval=True)
    def pay() -> int:
        return threading.get_ident()

    agent = scripted(calls("pay"), says("ok"), tools=[pay])
    paused = agent.run("go")
    assert isinstance(paused, us.NeedsApproval)
    done: list[tuple[list[str], int]] = []

    def resume() -> None:
        done.append((contents_of(agent.resume(paused.token, us.Approve())), threading.get_ident()))

    other = threading.Thread(target=resume, daemon=True)
    other.start()
    other.join(WAIT)

    ((paid_by, resumed_by),) = done
    assert paid_by == [str(resumed_by)]


# --- where no thread waits


def test_submit_is_refused_before_anything_starts() -> None:
    model = ScriptedModel([calls("thread"), says("ok")])

    with pytest.raises(ValueError, match="tool 'thread' has isolation='caller'.*after submit"):
        us.Agent("clerk", model=model, tools=[thread]).submit("go")

    assert model.requests == []


# --- nesting


def test_a_run_inside_such_a_call_has_its_calls_on_the_same_thread() -> None:
    inner = scripted(calls("thread"), says("inner"), tools=[thread])

    @us.tool(isolation="caller")
    def delegate() -> list[str]:
        return contents_of(inner.run("go"))

    outcome = scripted(calls("delegate"), calls("thread"), says("ok"), tools=[delegate, thread]).run("go")

    assert contents_of(outcome) == [f'["{threading.get_ident()}"]', str(threading.get_ident())]


def test_a_run_inside_a_call_on_another_thread_has_its_calls_there() -> None:
    inner = scripted(calls("thread"), says("inner"), tools=[thread])
    seen: list[int] = []

    @us.tool
    def delegate() -> list[str]:
        seen.append(threading.get_ident())
        return contents_of(inner.run("go"))

    outcome = scripted(calls("delegate"), says("ok"), tools=[delegate]).run("go")

    assert contents_of(outcome) == [f'["{seen[0]}"]']
    assert seen != [threading.get_ident()]


def test_a_run_inside_such_a_call_uses_its_system_and_may_not_wait_for_itself() -> None:
    agents: list[us.Agent] = []
    ids: list[str] = []

    @us.tool(isolation="caller")
    def again() -> str:
        ids.append(scripted(says("ok")).run("go").run_id)
        with pytest.raises(CircularAgentCall):
            agents[0].run("go")
        return "refused"

    with us.ActorSystem("own") as system:
        agents.append(scripted(calls("again"), says("ok"), tools=[again]))
        outcome = agents[0].run("go", system=system)

    assert contents_of(outcome) == ["refused"]
    assert ids[0].startswith("own-")


# --- time and cancelling


def test_a_call_that_hangs_gets_a_timeout_result_and_run_returns_when_its_thread_is_free() -> None:
    gate = threading.Event()
    log: list[str] = []

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("hang")
        log.append(request.tool_results[0].content)
        gate.set()
        return says("went on")

    @us.tool(isolation="caller", timeout=0.05)
    def hang() -> str:
        assert gate.wait(WAIT)  # opened by the next turn, so the run went on without the call
        log.append("the tool returns")
        return "late"

    with us.ActorSystem("own") as system:
        outcome = us.Agent("clerk", model=FunctionModel(answer), tools=[hang]).run("go", system=system)

        assert (outcome.text, system.hung) == ("went on", 0)
    assert log == ["hang did not return within 0.05 s; it was given up", "the tool returns"]


def test_the_time_of_a_call_includes_that_of_the_calls_before_it() -> None:
    until = list[float]()

    @us.tool(isolation="caller", timeout=30.0)
    def works(ctx: us.ToolContext[object]) -> str:
        assert ctx.scope.deadline is not None
        until.append(ctx.scope.deadline)
        return "done"

    scripted(calls("works") + calls("works") + calls("works"), says("ok"), tools=[works]).run("go")

    first, second, third = until
    assert (second - first, third - second) == pytest.approx((30.0, 30.0), abs=1.0)


def test_a_call_that_was_given_up_before_its_turn_is_not_run() -> None:
    gate, ran = threading.Event(), list[str]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("hang") + calls("look")
        gate.set()
        return says("ok")

    @us.tool(isolation="caller", timeout=0.05)
    def hang() -> str:
        assert gate.wait(WAIT)
        return "late"

    @us.tool(isolation="caller", timeout=0.05)
    def look() -> str:
        ran.append("look")
        return "seen"

    with us.ActorSystem("own") as system:
        outcome = us.Agent("clerk", model=FunctionModel(answer), tools=[hang, look]).run("go", system=system)

        assert [r.error_kind for r in results_of(outcome)] == ["timed_out"] * 2
        assert (ran, system.hung) == ([], 0)


@pytest.mark.parametrize(("fails", "attempt"), [(False, 1), (True, 2)])
def test_a_call_that_timed_out_is_made_again_only_if_it_fails_of_it(fails: bool, attempt: int) -> None:
    scopes: list[us.Scope] = []

    @us.tool(isolation="caller", timeout=0.5, retries=1, idempotent=True)
    def slow(ctx: us.ToolContext) -> str:
        scopes.append(ctx.scope)
        if len(scopes) == 1:
            eventually(lambda: ctx.scope.cancelled, "the attempt is given up")
            if fails:
                ctx.scope.check()
        return f"attempt {len(scopes)}"

    outcome = scripted(calls("slow"), says("ok"), tools=[slow]).run("go")

    assert (contents_of(outcome), len(scopes)) == ([f"attempt {attempt}"], attempt)


@pytest.mark.parametrize(("timeout", "error"), [(None, RunCancelled), (0.1, RunTimedOut)])
def test_a_run_that_is_ended_tells_its_call_and_raises_when_that_returns(
    timeout: float | None, error: type[us.RunError]
) -> None:
    entered, told = threading.Event(), threading.Event()

    @us.tool(isolation="caller")
    def hang(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        return "late"

    with us.ActorSystem("own") as system:
        stopper = threading.Thread(target=lambda: entered.wait(WAIT) and system.stop(0.0), daemon=True)
        if timeout is None:
            stopper.start()

        with pytest.raises(error):
            scripted(calls("hang") + calls("hang"), says("ok"), tools=[hang]).run("go", system=system, timeout=timeout)

        if timeout is None:
            stopper.join(WAIT)
        eventually(lambda: (system.in_flight, system.hung) == (0, 0), "nothing of the run is left")


def test_a_run_that_is_cancelled_while_its_caller_only_waits_ends_at_once() -> None:
    entered, gate = threading.Event(), threading.Event()

    @us.tool
    def hang() -> str:
        entered.set()
        gate.wait(WAIT)
        return "late"

    with us.ActorSystem("own") as system:
        stopper = threading.Thread(target=lambda: entered.wait(WAIT) and system.stop(0.0), daemon=True)
        stopper.start()

        with pytest.raises(RunCancelled):
            scripted(calls("hang"), tools=[hang, thread]).run("go", system=system)

        gate.set()
        stopper.join(WAIT)


def _interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def _exit() -> None:
    sys.exit(3)


@pytest.mark.parametrize(("leave", "error"), [(_interrupt, KeyboardInterrupt), (_exit, SystemExit)])
def test_what_is_meant_for_the_thread_cancels_the_run_and_is_raised(
    leave: Callable[[], None], error: type[BaseException]
) -> None:
    ran: list[int] = []
    scopes: list[us.Scope] = []

    @us.tool(isolation="caller")
    def step(ctx: us.ToolContext, n: int) -> int:
        ran.append(n)
        scopes.append(ctx.scope)
        leave()
        return n

    model = ScriptedModel([calls("step", n=1) + calls("step", n=2), says("ok")])
    with us.ActorSystem("own") as system:
        with pytest.raises(error):
            us.Agent("clerk", model=model, tools=[step]).run("go", system=system)

        eventually(lambda: (system.in_flight, system.hung) == (0, 0), "nothing of the run is left")
    assert (ran, scopes[0].cancelled, len(model.requests)) == ([1], True, 1)
    assert us.current_scope() is None
