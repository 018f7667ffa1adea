"""Budgets of runs: what they and all inside of them draw from, how it ends, and how it is raised."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.scripts import WAIT, eventually, finished, results_of, scripted
from understudy.actors.runs import record
from understudy.testing import FunctionModel, ScriptedModel, calls, says

TEN = us.Usage(6, 4)
PRICES = {name: us.Price(1.0, 1.0) for name in ("ScriptedModel", "FunctionModel")}
"""A token costs a millionth of a dollar."""


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


def spent(turn: us.ModelTurn, usage: us.Usage = TEN) -> us.ModelTurn:
    """Return the turn with its usage."""
    return us.ModelTurn(turn.parts, usage, turn.finish_reason, turn.raw_finish_reason)


def looks(*turns: us.ModelTurn, id: str = "clerk", budget: us.Budget | None = None) -> us.Agent:
    """Make an agent that looks things up."""

    def look() -> str:
        """Look."""
        return "seen"

    return us.Agent(id, model=ScriptedModel(turns), tools=[look], budget=budget)


def leads(inner: us.Agent, *turns: us.ModelTurn, budget: us.Budget | None = None) -> us.Agent:
    """Make an agent whose tool `ask` runs another one."""

    def ask() -> str:
        """Ask the other one."""
        return inner.run("look").text

    return us.Agent("lead", model=ScriptedModel(turns), tools=[ask], budget=budget)


def exceeded(agent: us.Agent, budget: us.Budget | None = None) -> us.BudgetExceeded:
    """Run the agent into its limit."""
    with pytest.raises(us.BudgetExceeded) as caught:
        agent.run("go", budget=budget)
    return caught.value


# --- one run


def test_a_token_stands_when_the_budget_is_not_raised_but_lowered() -> None:
    agent = looks(spent(calls("look")), spent(says("Seven.")), budget=us.Budget(total_tokens=10))
    token = exceeded(agent).token

    with pytest.raises(ValueError, match="can only be raised"):
        agent.resume(token, budget=us.Budget(total_tokens=9))
    with pytest.raises(TypeError, match=r"budget=…"):
        agent.resume(token, "seven", budget=us.Budget(total_tokens=99))

    assert agent.resume(token, budget=us.Budget(total_tokens=99)).text == "Seven."


def test_the_budget_of_one_run_narrows_that_of_its_agent() -> None:
    agent = looks(*[spent(calls("look"))] * 9, budget=us.Budget(total_tokens=20))

    assert exceeded(agent, us.Budget(total_tokens=10)).limit == 10
    assert exceeded(agent, us.Budget(total_tokens=500)).limit == 20
    assert exceeded(agent, us.Budget(turns=1)).what == "turns"


def test_what_is_no_budget_is_refused_before_anything_starts() -> None:
    model = ScriptedModel([])
    agent = us.Agent("clerk", model=model)

    with pytest.raises(TypeError, match="budget must be Budget"):
        agent.run("go", budget=50)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point
    with pytest.raises(ValueError, match="no price for model 'ScriptedModel'"):
        agent.submit("go", budget=us.Budget(cost_usd=1.0))

    assert model.requests == []


def test_a_model_object_has_the_price_of_its_model_string() -> None:
    client = us.OpenAI("gpt-4o", api_key="k")

    agent = us.Agent("clerk", model=client, budget=us.Budget(cost_usd=1.0))
    with agent.override(model=ScriptedModel([spent(says("Seven."))])):
        outcome = agent.run("go")

    price = us.Price.of("openai:gpt-4o")
    assert price is not None
    assert outcome.cost_usd == (6 * price.input + 4 * price.output) / 1e6


def test_a_pause_tells_what_was_spent_and_its_resumption_goes_on_from_there() -> None:
    agent = us.Agent(
        "clerk",
        model=ScriptedModel([spent(says("__ask_user__: Which?")), spent(says("That one."))]),
        budget=us.Budget(cost_usd=15e-6, prices=PRICES),
    )

    waiting = agent.run("go")
    assert isinstance(waiting, us.NeedsInput)
    assert (waiting.usage, waiting.cost_usd) == (TEN, 10e-6)
    assert agent.resume(waiting.token, "this").cost_usd == 20e-6


# --- time


class Clock:
    """Stands in for the module `time` where runs begin and end."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(record, "time", clock)
    return clock


def test_seconds_are_those_of_activity_and_not_of_waiting_for_a_person(clock: Clock) -> None:
    def look() -> str:
        clock.now += 3.0
        return "seen"

    turns = [calls("look"), says("__ask_user__: Which?"), calls("look"), says("That one.")]
    agent = us.Agent("clerk", model=ScriptedModel(turns), tools=[look], budget=us.Budget(seconds=5))

    waiting = agent.run("go")
    assert isinstance(waiting, us.NeedsInput)
    clock.now += 10_000.0
    with pytest.raises(us.BudgetExceeded) as caught:
        agent.resume(waiting.token, "this")

    assert (caught.value.what, caught.value.limit, caught.value.spent) == ("seconds", 5, 6.0)
    clock.now += 10_000.0
    assert agent.resume(caught.value.token, budget=us.Budget(seconds=7)).text == "That one."


# --- runs inside


def test_a_run_inside_spends_what_the_run_outside_has() -> None:
    inner = looks(spent(calls("look")), spent(says("Seven.")), id="inner")
    agent = leads(inner, spent(calls("ask")), spent(says("So seven.")), budget=us.Budget(prices=PRICES))

    outcome = finished(agent.run("go"))

    assert outcome.usage == us.Usage(24, 16)
    assert (outcome.turns, outcome.iterations, outcome.cost_usd) == (2, 1, 40e-6)


def test_a_run_inside_is_held_to_the_budget_outside_and_the_run_outside_is_resumed() -> None:
    inner = looks(*[spent(calls("look"))] * 3, spent(says("Seven.")), id="inner")
    agent = leads(inner, spent(calls("ask")), spent(says("No idea.")), budget=us.Budget(total_tokens=30))

    error = exceeded(agent)
    outcome = finished(agent.resume(error.token, budget=us.Budget(total_tokens=500)))

    assert (error.what, error.limit, error.spent, error.inherited) == ("total_tokens", 30, 30, False)
    assert "agent 'lead' spent 30 of the 30 total_tokens" in str(error)
    (result,) = results_of(outcome)
    assert result.is_error
    assert "which agent 'inner' is inside of and draws from" in result.content
    assert outcome.text == "No idea."


def test_a_sub_agent_draws_from_the_run_that_it_is_a_call_of() -> None:
    inner = looks(*[spent(calls("look"))] * 2, spent(says("Seven.")), id="inner")
    turns = [spent(calls("inner", input="look")), spent(says("So seven."))]
    agent = us.Agent("lead", model=ScriptedModel(turns), sub_agents=[inner], budget=us.Budget(total_tokens=30))

    error = exceeded(agent)
    outcome = finished(agent.resume(error.token, budget=us.Budget(total_tokens=500)))

    assert (error.limit, error.spent, error.inherited) == (30, 30, False)
    assert [result.content for result in results_of(outcome)] == ["Seven."]
    assert (outcome.text, outcome.usage) == ("So seven.", us.Usage(30, 20))


def test_a_sub_agent_at_a_limit_of_the_run_around_it_goes_on_where_it_was() -> None:
    sent = list[str]()

    @us.tool
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    def next_of_inner(request: us.ModelRequest) -> us.ModelTurn:
        done = sum([len(message.tool_results) for message in request.messages])
        return spent(calls("send", to="ada") if done == 0 else calls("look") if done < 3 else says("It is out."))

    def next_of_lead(request: us.ModelRequest) -> us.ModelTurn:
        told = [result.is_error for message in request.messages for result in message.tool_results]
        return spent(says("Done.") if False in told else calls("inner", input="send"))  # a failure is tried once more

    inner = us.Agent("inner", model=FunctionModel(next_of_inner), tools=[send, *looks().tools])
    agent = us.Agent("lead", model=FunctionModel(next_of_lead), sub_agents=[inner], budget=us.Budget(total_tokens=30))

    error = exceeded(agent)
    outcome = finished(agent.resume(error.token, budget=us.Budget(total_tokens=500)))

    assert outcome.text == "Done."
    assert sent == ["ada"]


def test_a_pause_inside_goes_on_with_what_was_spent_there_and_counts_it_once() -> None:
    inner = us.Agent("inner", model=ScriptedModel([spent(says("__ask_user__: Which?")), spent(says("That one."))]))
    turns = [spent(calls("inner", input="look")), spent(says("So that one."))]
    agent = us.Agent("lead", model=ScriptedModel(turns), sub_agents=[inner], budget=us.Budget(turns=4))

    waiting = agent.run("go")
    assert isinstance(waiting, us.NeedsInput)
    outcome = finished(agent.resume(waiting.token, "this"))

    assert waiting.usage == us.Usage(12, 8)
    assert (outcome.text, outcome.usage) == ("So that one.", us.Usage(24, 16))


def test_a_run_at_its_limit_goes_on_from_a_store_in_another_system(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    agent = looks(spent(calls("look")), spent(says("Seven.")), budget=us.Budget(total_tokens=10))
    with us.ActorSystem("shop", store=store) as first, pytest.raises(us.BudgetExceeded) as caught:
        agent.run("go", system=first)

    with us.ActorSystem("shop", store=store) as second:
        with pytest.raises(us.BudgetExceeded) as again:
            agent.resume(caught.value.token, system=second)
        outcome = agent.resume(again.value.token, budget=us.Budget(total_tokens=20), system=second)

    assert (again.value.limit, again.value.spent) == (10, 10)
    assert outcome.usage == us.Usage(12, 8)


def test_a_tool_that_catches_the_limit_can_go_on_with_the_run_inside() -> None:
    inner = looks(*[spent(calls("look"))] * 2, spent(says("Seven.")), id="inner")
    tokens: list[str] = []

    def ask() -> str:
        """Ask, or go on asking."""
        try:
            return (inner.resume(tokens.pop()) if tokens else inner.run("look")).text
        except us.BudgetExceeded as error:
            assert error.inherited
            tokens.append(error.token)
            return "It is not done yet."

    turns = [spent(calls("ask")), spent(calls("ask")), spent(says("So seven."))]
    agent = us.Agent("lead", model=ScriptedModel(turns), tools=[ask], budget=us.Budget(total_tokens=30))

    error = exceeded(agent)
    outcome = finished(agent.resume(error.token, budget=us.Budget(total_tokens=500)))

    assert [result.content for result in results_of(outcome)] == ["It is not done yet.", "Seven."]
    assert outcome.usage == us.Usage(36, 24)  # six turns, none of them twice


def test_a_run_inside_that_has_its_own_limit_ends_alone() -> None:
    inner = looks(*[spent(calls("look"))] * 3, id="inner", budget=us.Budget(turns=1))
    agent = leads(inner, spent(calls("ask")), spent(says("No idea.")), budget=us.Budget(turns=9))

    outcome = finished(agent.run("go"))

    assert "BudgetExceeded: agent 'inner' spent 1 of the 1 turns" in results_of(outcome)[0].content
    assert outcome.usage == us.Usage(18, 12)


def test_tool_calls_are_counted_over_all_runs_inside() -> None:
    inner = looks(spent(calls("look") + calls("look")), spent(says("Seven.")), id="inner")
    agent = leads(inner, spent(calls("ask")), spent(says("No idea.")), budget=us.Budget(tool_calls=2))

    outcome = finished(agent.run("go"))

    assert "spent 1 of the 2 tool_calls in its budget and asked for 2 more" in results_of(outcome)[0].content


def test_a_thread_of_a_tool_draws_from_the_run_if_it_was_carried() -> None:
    inner = us.Agent("inner", model=FunctionModel(lambda _: spent(says("Seven."))))

    def ask(carried: bool) -> str:
        """Ask on a thread."""
        work = us.carry(lambda: inner.run("go")) if carried else (lambda: inner.run("go"))
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(WAIT)
        return "asked"

    turns = [spent(calls("ask", carried=True) + calls("ask", carried=False)), spent(says("ok"))]
    agent = us.Agent("lead", model=ScriptedModel(turns), tools=[ask])

    assert agent.run("go").usage == us.Usage(18, 12)


def test_an_actor_that_is_asked_draws_from_the_run_that_asks(system: us.ActorSystem) -> None:
    inner = us.Agent("inner", model=FunctionModel(lambda _: spent(says("Seven."))))

    class Desk(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return inner.run(message).text

    desk = system.spawn(Desk)

    def ask() -> str:
        """Ask the desk."""
        return str(desk.ask("go", timeout=WAIT))

    agent = us.Agent("lead", model=ScriptedModel([spent(calls("ask")), spent(says("ok"))]), tools=[ask])

    assert agent.run("go", system=system).usage == us.Usage(18, 12)


def test_a_model_without_a_price_is_not_called_inside_of_a_limit_of_dollars() -> None:
    inner = us.Agent("inner", model="openai:gpt-x")
    budget = us.Budget(cost_usd=1.0, prices=PRICES)
    agent = leads(inner, spent(calls("ask")), spent(says("No idea.")), budget=budget)

    outcome = finished(agent.run("go"))

    assert "ValueError: agent 'inner': its budget limits cost_usd, and there is no price for model 'openai:gpt-x'" in (
        results_of(outcome)[0].content
    )


def test_a_run_without_a_price_does_not_go_on_inside_of_a_limit_of_dollars_and_its_token_stands() -> None:
    inner = us.Agent("inner", model=FunctionModel(lambda r: says("ok" if "this" in r.text else "__ask_user__: Which?")))
    waiting = inner.run("go")
    assert isinstance(waiting, us.NeedsInput)

    def ask() -> str:
        """Go on with the other one."""
        return inner.resume(waiting.token, "this").text

    budget = us.Budget(cost_usd=1.0, prices={"ScriptedModel": us.Price(1.0, 1.0)})
    turns = [spent(calls("ask")), spent(says("No idea."))]
    agent = us.Agent("lead", model=ScriptedModel(turns), tools=[ask], budget=budget)

    outcome = finished(agent.run("go"))

    assert "no price for model 'FunctionModel'" in results_of(outcome)[0].content
    assert inner.resume(waiting.token, "this").text == "ok"


def test_what_a_prompt_function_runs_is_spent_by_the_run_and_its_limit_leaves_no_token() -> None:
    inner = looks(*[spent(calls("look"))] * 2, id="inner")
    agent = us.Agent(
        "clerk", model=ScriptedModel([]), system_prompt=lambda _: inner.run("go").text, budget=us.Budget(turns=1)
    )

    error = exceeded(agent)

    assert (error.inherited, error.token) == (True, "")  # there is nothing yet that could go on


# --- races


def test_runs_that_race_go_beyond_the_limit_by_no_more_than_the_calls_in_flight(system: us.ActorSystem) -> None:
    asked = threading.Semaphore(0)

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        asked.release()
        return spent(calls("look"))

    def look() -> str:
        """Look."""
        return "seen"

    inner = us.Agent("inner", model=FunctionModel(answer), tools=[look], max_iterations=10_000, max_turns=10_000)

    def ask() -> str:
        """Ask many at once."""
        handles = [inner.submit("go") for _ in range(64)]
        kinds = [type(handle.exception(WAIT)).__name__ for handle in handles]
        return ",".join(sorted(set(kinds)))

    lead = us.Agent("lead", model=ScriptedModel([spent(calls("ask"))]), tools=[ask], budget=us.Budget(turns=200))

    with pytest.raises(us.BudgetExceeded) as caught:
        lead.run("go", system=system)

    assert 200 <= caught.value.spent <= 200 + 63
    made = 1
    while asked.acquire(blocking=False):
        made += 1
    assert made == caught.value.spent  # each call that was made was counted, and once


def test_calls_of_tools_that_race_are_as_many_as_allowed(system: us.ActorSystem) -> None:
    ran = threading.Semaphore(0)

    def look() -> str:
        """Look."""
        ran.release()
        return "seen"

    inner = us.Agent("inner", model=FunctionModel(lambda _: calls("look")), tools=[look], max_iterations=10_000)

    def ask() -> str:
        """Ask many at once."""
        handles = [inner.submit("go") for _ in range(32)]
        return ",".join(sorted({type(handle.exception(WAIT)).__name__ for handle in handles}))

    lead = us.Agent(
        "lead", model=ScriptedModel([calls("ask"), says("ok")]), tools=[ask], budget=us.Budget(tool_calls=50)
    )

    outcome = finished(lead.run("go", system=system))

    made = 0
    while ran.acquire(blocking=False):
        made += 1
    assert results_of(outcome)[0].content == "BudgetExceeded"
    assert made == 49  # and the one that asked


# --- what goes wrong


def test_a_turn_is_counted_once_when_its_run_crashes() -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]

    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            if failures:
                raise failures.pop()
            return us.Continue()

    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([spent(calls("look")), spent(says("ok"))])
    agent = us.Agent("clerk", model=model, tools=[look], callbacks=[Guard()], budget=us.Budget(turns=2, tool_calls=1))

    outcome = agent.run("go")

    assert failures == []
    assert outcome.usage == us.Usage(12, 8)
    assert len(model.requests) == 2


def test_a_turn_that_its_run_never_took_is_counted_where_it_was_paid_for() -> None:
    def broken(ctx: us.RunContext, text: str) -> bool:
        raise RuntimeError("always")

    inner = us.Agent("inner", model=ScriptedModel([spent(says("seen"))]), criteria=[broken])
    agent = leads(inner, spent(calls("ask")), spent(says("No idea.")))

    assert agent.run("go").usage == us.Usage(18, 12)


def test_a_turn_that_a_callback_failed_at_is_counted_though_another_text_ends_the_run(system: us.ActorSystem) -> None:
    class Refusing(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
            raise us.RunError("no")

        def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
            return us.OverrideResponse("sorry")

    agent = us.Agent("clerk", model=ScriptedModel([spent(says("hi"))]), callbacks=[Refusing()])

    outcome = finished(agent.run("go", system=system))

    assert (outcome.text, outcome.usage) == ("sorry", TEN)


def test_a_turn_that_comes_when_a_later_stay_has_its_own_is_counted_beside_it(system: us.ActorSystem) -> None:
    asked, judged, go, gone = [threading.Event() for _ in range(4)]
    made = itertools.count()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        if next(made):
            return spent(says("In time."), us.Usage(100, 100))
        asked.set()
        go.wait(WAIT)
        return spent(says("Too late."))

    class Slow(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
            judged.set()
            gone.wait(WAIT)

    def cancelled(handle: us.RunHandle[str], moment: threading.Event) -> us.RunCancelled:
        moment.wait(WAIT)
        handle.cancel()
        with pytest.raises(us.RunCancelled) as caught:
            handle.result(timeout=WAIT)
        return caught.value

    agent = us.Agent("clerk", model=FunctionModel(answer), callbacks=[Slow()])
    first = cancelled(agent.submit("go", system=system), asked)
    second = cancelled(agent.submit_resume(first.token, system=system), judged)
    go.set()
    eventually(lambda: system.hung == 1, "the first call came back, and the callback did not")
    gone.set()

    assert agent.resume(second.token, system=system).usage == us.Usage(106, 104)


def test_a_turn_that_comes_after_its_run_was_cancelled_is_counted_too(system: us.ActorSystem) -> None:
    asked, go = threading.Event(), threading.Event()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        go.wait(WAIT)
        return spent(says("Too late."))

    inner = us.Agent("inner", model=FunctionModel(answer))

    def ask() -> str:
        """Ask, and do not wait."""
        handle = inner.submit("go")
        asked.wait(WAIT)
        handle.cancel()
        go.set()
        scope = us.current_scope()
        assert scope is not None
        account = scope.account
        assert account is not None
        eventually(lambda: account.spending.all_turns == 2, "the late turn is counted")
        return "cancelled"

    agent = us.Agent("lead", model=ScriptedModel([spent(calls("ask")), spent(says("ok"))]), tools=[ask])

    assert agent.run("go", system=system).usage == us.Usage(18, 12)


def test_a_call_that_is_cut_off_is_estimated_where_tokens_are_limited(system: us.ActorSystem) -> None:
    asked = threading.Event()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        asked.set()
        scope = us.current_scope()
        assert scope is not None
        scope.sleep(WAIT)
        raise AssertionError("unreachable: the run was cancelled")

    inner = us.Agent("inner", model=FunctionModel(answer))

    def ask() -> str:
        """Ask, and do not wait."""
        handle = inner.submit("x" * 40)
        asked.wait(WAIT)
        handle.cancel()
        scope = us.current_scope()
        assert scope is not None
        account = scope.account
        assert account is not None
        eventually(lambda: account.spending.all_turns == 2, "the call that was cut off is counted")
        return "cancelled"

    turns = [spent(calls("ask")), spent(says("ok"))]
    agent = us.Agent("lead", model=ScriptedModel(turns), tools=[ask], budget=us.Budget(total_tokens=500))

    assert agent.run("go", system=system).usage == us.Usage(22, 8, estimated=True)  # ten tokens of forty characters


def test_a_call_that_failed_is_not_counted() -> None:
    def fail(_: us.ModelRequest) -> us.ModelTurn:
        raise us.RateLimited("later")

    inner = us.Agent("inner", model=FunctionModel(fail))
    agent = leads(inner, spent(calls("ask")), spent(says("ok")), budget=us.Budget(total_tokens=500))

    assert agent.run("go").usage == us.Usage(12, 8)


def test_a_call_that_waited_for_others_does_not_begin_once_they_have_spent_the_budget() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        eventually(lambda: len(sent) > 2 or client.in_flight.waiting == 28, "the others wait")
        usage = {"prompt_tokens": 6, "completion_tokens": 4}
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hi."}}], "usage": usage})

    client = us.OpenAI("m", api_key="k", transport=httpx.MockTransport(answer), max_in_flight=2)
    group = us.ParallelAgent("all", [us.Agent(f"a{n}", model=client) for n in range(30)])

    with pytest.raises(us.BudgetExceeded) as caught:
        group.run("go", budget=us.Budget(total_tokens=50))

    assert caught.value.token
    assert 5 <= len(sent) <= 6  # the fifth call spends the last of it, and one more is in flight then


def test_a_call_that_waited_and_is_refused_is_made_when_the_budget_is_raised() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        eventually(lambda: client.in_flight.waiting == 1 or len(outcomes) > 0, "the other one waits")
        outcomes.append("sent")
        usage = {"prompt_tokens": 6, "completion_tokens": 4}
        return httpx.Response(200, json={"choices": [{"message": {"content": "Hi."}}], "usage": usage})

    outcomes: list[str] = []
    client = us.OpenAI("m", api_key="k", transport=httpx.MockTransport(answer), max_in_flight=1)
    group = us.ParallelAgent("both", [us.Agent("a", model=client), us.Agent("b", model=client)])
    with pytest.raises(us.BudgetExceeded) as caught:
        group.run("go", budget=us.Budget(total_tokens=10))

    outcome = group.resume(caught.value.token, budget=us.Budget(total_tokens=50))

    assert (outcome.status, len(outcomes), outcome.usage) == ("complete", 2, us.Usage(12, 8))


def test_what_came_of_a_turn_before_it_failed_is_counted() -> None:
    def fail(_: us.ModelRequest) -> us.ModelTurn:
        raise us.BadReply("half a turn", partial=spent(says("Half")))

    inner = us.Agent("inner", model=FunctionModel(fail))
    agent = leads(inner, spent(calls("ask")), spent(says("ok")), budget=us.Budget(total_tokens=500))

    assert agent.run("go").usage == us.Usage(18, 12)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_budgets_of_its_own() -> None:
    agent = looks(*[spent(calls("look"))] * 4, budget=us.Budget(turns=1))
    exceeded(agent)

    def body() -> None:
        assert exceeded(agent).spent == 1

    in_child(body)


def test_an_agent_reference_passes_budgets_on(system: us.ActorSystem) -> None:
    ref = system.spawn(looks(spent(calls("look")), spent(says("Seven."))))

    with pytest.raises(us.BudgetExceeded) as caught:
        ref.run("go", budget=us.Budget(turns=1))

    assert ref.resume(caught.value.token, budget=us.Budget(turns=2)).text == "Seven."


def test_time_passes_for_real() -> None:
    def look() -> str:
        """Take some time."""
        until = time.monotonic() + 0.01
        eventually(lambda: time.monotonic() > until, "the clock goes on")
        return "seen"

    error = exceeded(scripted(calls("look"), says("ok"), tools=[look]).replace(budget=us.Budget(seconds=0.01)))

    assert (error.what, error.limit, error.spent >= 0.01) == ("seconds", 0.01, True)
