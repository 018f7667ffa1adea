"""The retries of a run: one number for its tools, its model's transport, its crashes and the runs inside of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import httpx
import pytest

import understudy as us
from tests.support.http import Answers
from tests.support.scripts import WAIT, finished, results_of, scripted
from understudy.actors.tools import executor
from understudy.providers.http import retries as http_retries
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.scope import NO_RETRIES_LEFT, Scope, enter_scope, leave_scope

DOWN = httpx.Response(503, headers={"retry-after-ms": "0"}, json={"error": {"message": "overloaded"}})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "RETRY_PAUSE", 0.0)


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the provider again without a pause."""
    monkeypatch.setattr(http_retries, "FIRST_WAIT", 0.0)


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


@contextmanager
def left(retries: int) -> Generator[Scope]:
    """Begin runs in the block as if inside of a run that has so many retries left."""
    scope = Scope(None, time.monotonic, retries=retries)
    token = enter_scope(scope)
    try:
        yield scope
    finally:
        leave_scope(token)


class Flaky:
    """A tool that raises, but for the attempts after the first so many."""

    def __init__(self, failures: int = 1000) -> None:
        self.failures = failures
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise ConnectionError(f"busy {self.attempts}")
        return "there"


def tool(function: Flaky, name: str, retries: int) -> us.Tool[[], str]:
    """Make a tool of it."""

    @us.tool(name=name, retries=retries)
    def call() -> str:
        return function()

    return call


# --- tools


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_tool_is_tried_again_only_while_the_run_has_retries(beside: bool) -> None:
    flaky, fine = Flaky(), Flaky(0)
    turn = calls("flaky") + calls("fine") if beside else calls("flaky")

    with left(2) as run:
        outcome = scripted(turn, says("ok"), tools=[tool(flaky, "flaky", 9), tool(fine, "fine", 9)]).run("go")

    assert results_of(outcome)[0].content == f"flaky failed: ConnectionError: busy 3; {NO_RETRIES_LEFT}"
    assert (flaky.attempts, run.retries_left) == (3, 0)


def test_tools_of_one_run_draw_from_one_number() -> None:
    first, second = Flaky(2), Flaky()
    agent = scripted(
        calls("first"), calls("second"), says("ok"), tools=[tool(first, "first", 9), tool(second, "second", 9)]
    )

    with left(5):
        outcome = agent.run("go")

    assert results_of(outcome)[0].content == "there"
    assert (first.attempts, second.attempts) == (3, 4)  # two retries of the five for one, three for the other


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_call_that_timed_out_is_not_repeated_once_the_run_has_no_retries(beside: bool) -> None:
    gate, attempts = threading.Event(), list[int]()

    @us.tool(timeout=0.05, retries=3, idempotent=True)
    def slow() -> str:
        attempts.append(1)
        gate.wait(WAIT)
        return "late"

    turn = calls("slow") + calls("fine") if beside else calls("slow")
    with left(1) as run:
        outcome = scripted(turn, says("ok"), tools=[slow, tool(Flaky(0), "fine", 0)]).run("go")
    gate.set()

    assert results_of(outcome)[0].error_kind == "timed_out"
    assert (len(attempts), run.retries_left) == (2, 0)


# --- crashes


def failing_prompt(asked: list[int]) -> us.Agent:
    def prompt(context: us.RunContext) -> str:
        asked.append(1)
        raise LookupError(f"attempt {len(asked)}")

    return us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), system_prompt=prompt)


def test_a_run_that_crashed_goes_on_only_while_it_has_retries() -> None:
    asked: list[int] = []

    with left(1), pytest.raises(us.AgentCrashed, match=f"failed 2 times.*attempt 2; {NO_RETRIES_LEFT}") as caught:
        failing_prompt(asked).run("hi")

    assert [str(cause) for cause in caught.value.causes] == ["attempt 1", "attempt 2"]
    assert len(asked) == 2
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__notes__ == [NO_RETRIES_LEFT]


def test_a_crash_after_which_no_retry_is_left_is_told_as_the_runs_end(system: us.ActorSystem) -> None:
    heard: list[us.RunCrashed] = []
    system.subscribe(heard.append, us.RunCrashed)

    with left(1), pytest.raises(us.AgentCrashed):
        failing_prompt([]).run("hi", system=system)
    system.stop()

    assert [(event.crashes, event.poison) for event in heard] == [(1, False), (2, True)]


def test_a_run_that_is_poison_takes_one_retry_for_each_stay_after_the_first() -> None:
    with left(9) as run, pytest.raises(us.AgentCrashed, match="failed 3 times") as caught:
        failing_prompt([]).run("hi")

    assert run.retries_left == 7
    assert caught.value.retries_used_up
    assert not hasattr(caught.value.__cause__, "__notes__")


def test_an_error_that_is_named_stands_as_it_is_when_the_run_has_no_retries(system: us.ActorSystem) -> None:
    asked: list[int] = []

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.append(1)
        raise us.RateLimited(f"attempt {len(asked)}")

    ref = system.spawn(us.Agent("clerk", model=FunctionModel(answer), restart_on=[us.ProviderError]))
    with left(1), pytest.raises(us.RateLimited, match="attempt 2") as caught:
        ref.run("hi")

    assert caught.value.__notes__ == [NO_RETRIES_LEFT, "agent 'clerk' (FunctionModel)"]
    assert len(asked) == 2


# --- the model's transport, and runs inside of runs


def overloaded(attempts: int, restart_on: list[type[Exception]] | None = None) -> tuple[us.Agent, Answers]:
    answers = Answers(DOWN)
    model = us.OpenAI("m", api_key="k", transport=answers, attempts=attempts)
    return us.Agent("inner", model=model, restart_on=restart_on or []), answers


def outer(inner: us.Agent, retries: int) -> tuple[us.Agent, list[int]]:
    """Make an agent with a tool that runs another agent, and count the tool's attempts."""
    attempts: list[int] = []

    @us.tool(retries=retries)
    def delegate() -> str:
        attempts.append(1)
        return finished(inner.run("go")).text

    return scripted(calls("delegate"), says("ok"), tools=[delegate]), attempts


@pytest.mark.usefixtures("no_backoff")
def test_a_tool_does_not_try_again_what_the_model_inside_of_it_tried_as_often_as_it_may() -> None:
    inner, answers = overloaded(attempts=3)
    agent, attempts = outer(inner, retries=2)

    with left(20) as run:
        outcome = agent.run("go")

    assert results_of(outcome)[0].content == "delegate failed: ProviderError: overloaded"
    assert (len(answers.requests), len(attempts), run.retries_left) == (3, 1, 18)


def test_a_tool_tries_again_what_nobody_inside_of_it_tried_again() -> None:
    inner, answers = overloaded(attempts=1)
    agent, attempts = outer(inner, retries=2)

    with left(20) as run:
        agent.run("go")

    assert (len(answers.requests), len(attempts), run.retries_left) == (3, 3, 18)


@pytest.mark.usefixtures("no_backoff")
def test_a_run_inside_of_a_run_draws_from_the_retries_of_the_outer_one() -> None:
    inner, answers = overloaded(attempts=9)
    agent, attempts = outer(inner, retries=9)

    with left(4):
        outcome = agent.run("go")

    assert results_of(outcome)[0].content == f"delegate failed: ProviderError: overloaded; {NO_RETRIES_LEFT}"
    assert (len(answers.requests), len(attempts)) == (5, 1)


def test_an_agent_that_names_the_error_asks_again_and_nobody_above_it_does(system: us.ActorSystem) -> None:
    inner, answers = overloaded(attempts=2, restart_on=[us.ProviderError])
    system.spawn(inner)
    agent, attempts = outer(inner, retries=5)

    with left(20) as run:
        outcome = agent.run("go", system=system)

    assert "AgentCrashed: agent 'inner' failed 3 times" in results_of(outcome)[0].content
    assert (len(answers.requests), len(attempts)) == (6, 1)
    assert run.retries_left == 20 - 3 - 2  # one in each stay's model call, and two more stays


def test_a_run_that_crashed_of_what_had_its_retries_does_not_go_on() -> None:
    inner, answers = overloaded(attempts=2)
    asked: list[int] = []

    def prompt(context: us.RunContext) -> str:
        asked.append(1)
        try:
            return finished(inner.run("go")).text
        except us.ProviderError as error:
            raise LookupError("no prompt") from error

    agent = us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), system_prompt=prompt)
    with pytest.raises(us.AgentCrashed, match="failed once.*no prompt"):
        agent.run("hi")

    assert (len(asked), len(answers.requests)) == (1, 2)


# --- whose number it is


def test_each_run_has_fifty_retries_of_its_own() -> None:
    flaky, seen = Flaky(1), list[int | None]()

    @us.tool
    def look(ctx: us.ToolContext) -> str:
        seen.append(ctx.scope.retries_left)
        return "seen"

    turns = [calls("look"), calls("flaky"), calls("look"), says("ok")]
    scripted(*turns, tools=[look, tool(flaky, "flaky", 1)]).run("go")
    scripted(calls("look"), says("ok"), tools=[look]).run("go")

    assert seen == [50, 49, 50]


def test_a_run_that_goes_on_has_all_its_retries_again() -> None:
    seen: list[int | None] = []

    @us.tool
    def look(ctx: us.ToolContext) -> str:
        ctx.scope.take_retry()
        seen.append(ctx.scope.retries_left)
        return "seen"

    agent = scripted(calls("look"), says("__ask_user__: Who?"), calls("look"), says("ok"), tools=[look])
    outcome = agent.run("go")
    assert isinstance(outcome, us.NeedsInput)
    agent.resume(outcome.token, "Ada")

    assert seen == [49, 49]


# --- what is told of a retry


def reply(text: str, *called: str) -> httpx.Response:
    """Make a model's answer, with calls of tools that take nothing."""
    made = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in called]
    message = {"content": text, **({"tool_calls": made} if made else {})}
    return httpx.Response(200, json={"choices": [{"message": message, "finish_reason": "stop"}]})


def retries_in(handle: us.RunHandle[object]) -> list[us.RetryScheduled]:
    return [event for event in handle.events(inner=True) if isinstance(event, us.RetryScheduled)]


def test_a_retry_of_the_model_s_client_is_told_with_its_wait_and_error() -> None:
    busy = httpx.Response(429, headers={"retry-after-ms": "20"}, json={"error": {"message": "slow down"}})
    answers = Answers(busy, reply("There."))
    agent = us.Agent("clerk", model=us.OpenAI("m", api_key="k", transport=answers))

    handle = agent.submit("go")
    events = list(handle.events())

    assert [type(event).__name__ for event in events[:4]] == [
        "TurnStarted",
        "RetryScheduled",
        "TextDelta",
        "TurnFinished",
    ]
    retry, turn = events[1], events[3]
    assert isinstance(retry, us.RetryScheduled)
    assert (retry.what, retry.turn, retry.attempt, retry.wait) == ("model", 1, 1, 0.02)
    assert isinstance(retry.error, us.RateLimited)
    assert isinstance(turn, us.TurnFinished)
    assert turn.attempts == 2


def test_a_turn_that_was_not_tried_again_has_one_attempt() -> None:
    answers = Answers(DOWN, reply("Wait.", "fine"), reply("There."))
    agent = us.Agent("clerk", model=us.OpenAI("m", api_key="k", transport=answers), tools=[tool(Flaky(0), "fine", 0)])

    turns = [event for event in agent.submit("go").events() if isinstance(event, us.TurnFinished)]

    assert [turn.attempts for turn in turns] == [2, 1]


def test_a_retry_that_the_run_has_no_time_for_is_not_told() -> None:
    down = httpx.Response(503, json={"error": {"message": "overloaded"}})
    agent = us.Agent("clerk", model=us.OpenAI("m", api_key="k", transport=Answers(down)), model_timeout=0.2)

    handle = agent.submit("go")

    assert retries_in(handle) == []
    assert handle.exception(WAIT) is not None


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_each_attempt_of_a_tool_that_failed_is_told_if_another_one_follows(beside: bool) -> None:
    flaky = tool(Flaky(2), "flaky", 9)
    turn = calls("flaky") + calls("fine") if beside else calls("flaky")

    handle = scripted(turn, says("ok"), tools=[flaky, tool(Flaky(0), "fine", 9)]).submit("go")

    told = retries_in(handle)
    assert [(one.what, one.attempt, one.call and one.call.name, str(one.error)) for one in told] == [
        ("tool", 1, "flaky", "busy 1"),
        ("tool", 2, "flaky", "busy 2"),
    ]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_call_that_timed_out_and_is_made_again_is_told(beside: bool) -> None:
    gate, attempts = threading.Event(), list[int]()

    @us.tool(timeout=0.05, retries=1, idempotent=True)
    def slow() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            gate.wait(WAIT)
        return "there"

    turn = calls("slow") + calls("fine") if beside else calls("slow")
    handle = scripted(turn, says("ok"), tools=[slow, tool(Flaky(0), "fine", 0)]).submit("go")
    (retry,) = retries_in(handle)
    gate.set()

    assert (retry.what, retry.attempt, retry.wait) == ("tool", 1, 0.0)
    assert isinstance(retry.error, us.ToolTimeout)
    assert retry.error.tool == "slow"


def test_a_retry_of_a_task_is_told_after_the_run_that_failed() -> None:
    agent = us.Agent("a", model=ScriptedModel([us.BadReply("half a turn"), says("there")]))
    flow = us.Workflow("flow", [us.Task("find", agent, retries=1, backoff=(0.01, 0.01))])

    events = list(flow.submit("go").events())

    assert [type(event).__name__ for event in events] == [
        "ChildStarted",
        "ChildFinished",
        "RetryScheduled",
        "ChildStarted",
        "ChildFinished",
        "RunFinished",
    ]
    retry = events[2]
    assert isinstance(retry, us.RetryScheduled)
    assert (retry.what, retry.task, retry.position, retry.runner_id) == ("task", "find", 0, "a")
    assert (retry.attempt, retry.wait, str(retry.error)) == (1, 0.01, "half a turn")


def test_the_last_failure_of_a_task_is_no_retry() -> None:
    agent = us.Agent("a", model=ScriptedModel([us.BadReply("once"), us.BadReply("twice")]))
    flow = us.Workflow("flow", [us.Task("find", agent, retries=1, backoff=(0.0, 0.0))])

    assert [str(one.error) for one in retries_in(flow.submit("go"))] == ["once"]
