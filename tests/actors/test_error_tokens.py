"""Runs that go on after an error that may pass: nothing that is finished is done again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.http import OPENAI_REPLY
from tests.support.scripts import WAIT, eventually, finished, incomplete, needs_input, results_of
from tests.support.stores import DictStore
from tests.support.wire_streams import as_events
from understudy.actors.pauses import error_tokens
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.scope import current_scope

SSE = {"content-type": "text/event-stream"}
Another = Callable[[], us.ActorSystem]


def slow() -> us.RateLimited:
    return us.RateLimited("slow down")  # a new one each time: an error refers to its run by its traceback


@dataclass
class Desk:
    """Agents whose tool notes each of its calls."""

    noted: list[str] = field(default_factory=list[str])

    def agent(self, id: str, *turns: us.ModelTurn | Exception) -> us.Agent:
        def note(ctx: us.ToolContext, word: str) -> str:
            self.noted.append(word)
            ctx.session[word] = True
            return f"noted {word}"

        return us.Agent(id, model=ScriptedModel(turns), tools=[note])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def error_of(runner: us.Agent | us.SequentialAgent | us.ParallelAgent, system: us.ActorSystem) -> us.UnderstudyError:
    error = runner.submit("go", system=system).exception(WAIT)
    assert isinstance(error, us.UnderstudyError)
    return error


PASSING = [
    slow(),
    us.ProviderTimeout("late"),
    us.ProviderError("busy", retryable=True),
    us.BadReply("half", retryable=True),
]


@pytest.mark.parametrize("error", PASSING)
def test_an_agent_goes_on_with_the_turn_that_failed(desk: Desk, another: Another, error: us.ProviderError) -> None:
    clerk = desk.agent("clerk", calls("note", word="a"), error, says("Done."))
    told = error_of(clerk, another())

    outcome = finished(clerk.resume(told.token, system=another()))

    assert (outcome.text, outcome.turns, outcome.session, desk.noted) == ("Done.", 2, {"a": True}, ["a"])


def test_a_token_of_an_error_works_once_and_takes_no_answer(desk: Desk, another: Another) -> None:
    clerk = desk.agent("clerk", slow(), says("Done."))
    token, system = error_of(clerk, another()).token, another()

    with pytest.raises(TypeError):
        clerk.resume(token, "an answer", system=system)
    clerk.resume(token, system=system)

    with pytest.raises(us.TokenUsed):
        clerk.resume(token, system=system)


@pytest.mark.parametrize("error", [us.BadReply("half"), us.AuthenticationError("no key"), us.ProviderError("no model")])
def test_an_error_that_does_not_pass_has_no_token(desk: Desk, another: Another, error: us.ProviderError) -> None:
    assert error_of(desk.agent("clerk", error), another()).token == ""


def test_a_run_whose_stream_was_cut_off_goes_on_from_the_last_finished_step(desk: Desk, another: Another) -> None:
    call = {"index": 0, "id": "1", "function": {"name": "note", "arguments": '{"word": "a"}'}}
    asked = as_events({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}, "[DONE]")
    answers = [
        httpx.Response(200, headers=SSE, content=asked),
        httpx.Response(200, headers=SSE, content=as_events(*[{"choices": [{"delta": {"content": w}}]} for w in "abc"])),
        httpx.Response(200, json=OPENAI_REPLY),
    ]
    server = httpx.MockTransport(lambda _: answers.pop(0))
    clerk = desk.agent("clerk").replace(model=us.OpenAI("gpt-4o", api_key="k", transport=server))
    with clerk.stream("go", system=another()) as events, pytest.raises(us.BadReply) as caught:
        events.result()

    outcome = finished(clerk.resume(caught.value.token, system=another()))

    assert caught.value.partial is not None
    assert caught.value.partial.text == "abc"
    assert (outcome.text, outcome.turns, desk.noted) == ("Hi.", 2, ["a"])


def test_a_run_that_ends_with_the_work_around_it_has_no_token(another: Another) -> None:
    gate, errors, told = Gate(), list[us.UnderstudyError](), threading.Event()

    def hold() -> None:
        gate()

    below = us.Agent("below", model=ScriptedModel([calls("hold"), says("never")]), tools=[hold])

    def ask_below() -> str:
        try:
            return below.run("go").text
        except (us.RunTimedOut, us.RunCancelled) as error:
            errors.append(error)
            told.set()
            raise

    above = us.Agent("above", model=ScriptedModel([calls("ask_below"), says("never")]), tools=[ask_below])

    outer = above.submit("go", timeout=0.2, system=another()).exception(WAIT)
    gate.open()

    assert told.wait(WAIT)
    assert isinstance(outer, us.RunTimedOut)
    assert (bool(outer.token), errors[0].token) == (True, "")


def test_a_sequence_goes_on_inside_the_step_that_failed(desk: Desk, another: Another) -> None:
    steps = [desk.agent("one", says("1")), desk.agent("two", calls("note", word="a"), slow(), says("2"))]
    group = us.SequentialAgent("s", [us.SequentialAgent("inner", steps)])
    token = error_of(group, another()).token

    outcome = finished(group.resume(token, system=another()))

    assert (outcome.text, outcome.turns, desk.noted) == ("2", 3, ["a"])


def test_a_parallel_group_goes_on_with_what_is_not_done(desk: Desk, another: Another) -> None:
    group = us.ParallelAgent(
        "p",
        [desk.agent("one", says("1")), desk.agent("two", calls("note", word="a"), slow(), says("2"))],
        max_parallel=1,
    )
    token = error_of(group, another()).token

    outcome = finished(group.resume(token, system=another()))

    assert (outcome.combined_text, outcome.turns, desk.noted) == ('["1", "2"]', 3, ["a"])


def test_alternatives_that_all_failed_are_tried_again_where_the_error_may_pass(desk: Desk, another: Another) -> None:
    group = us.ParallelAgent(
        "p", [desk.agent("one", us.BadReply("half")), desk.agent("two", slow(), says("2"))], merge="first"
    )
    error = error_of(group, another())

    assert isinstance(error, us.SeveralErrors)
    assert finished(group.resume(error.token, system=another())).text == "2"


def test_a_workflow_goes_on_inside_the_task_that_failed(desk: Desk, another: Another) -> None:
    tasks = [
        us.Task("a", desk.agent("one", says("1"))),
        us.Task("b", desk.agent("two", calls("note", word="a"), slow(), says("2")), dependencies=["a"]),
    ]
    flow = us.Workflow("w", tasks)
    token = incomplete(flow.run("go", system=another())).token

    outcome = finished(flow.resume(token, system=another()))

    assert (outcome.text, outcome.turns, desk.noted) == ("2", 3, ["a"])


def test_a_run_goes_on_inside_the_sub_agent_that_failed(desk: Desk, another: Another) -> None:
    inner = desk.agent("writer", calls("note", word="a"), slow(), says("text"))
    lead = us.Agent(
        "lead",
        model=ScriptedModel([calls("writer", input="x"), says("Done.")]),
        tools=[us.SubAgent(inner)],
        on_tool_error="raise",
    )
    token = error_of(lead, another()).token

    outcome = finished(lead.resume(token, system=another()))

    assert [result.content for result in results_of(outcome)] == ["text"]
    assert (outcome.text, desk.noted) == ("Done.", ["a"])


# --- limits of sub-agents


def lead_of(inner: us.Agent | us.SequentialAgent | us.Workflow, id: str = "lead") -> us.Agent:
    turns = [calls(inner.id, input="x"), says("Done.")]
    return us.Agent(id, model=ScriptedModel(turns), tools=[us.SubAgent(inner)], on_tool_error="raise")


def short_of_rounds(desk: Desk, first: str = "a", second: str = "b") -> us.Agent:
    turns = calls("note", word=first), calls("note", word=second), says("text")
    return desk.agent("writer", *turns).replace(max_iterations=1)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_limit_of_a_sub_agent_is_raised_where_it_was_reached(desk: Desk, another: Another, depth: int) -> None:
    lead = lead_of(short_of_rounds(desk))
    for level in range(1, depth):
        lead = lead_of(lead, f"lead{level}")
    error = error_of(lead, another())
    assert isinstance(error, us.MaxIterationsExceeded)
    system = another()
    with pytest.raises(ValueError, match="can only be raised: it is 1, got 0"):
        lead.resume(error.token, max_iterations=0, system=system)

    outcome = finished(lead.resume(error.token, max_iterations=5, system=system))

    assert (outcome.text, desk.noted, outcome.session) == ("Done.", ["a", "b"], {"a": True, "b": True})
    assert outcome.turns == 2


def test_a_limit_of_a_sub_agent_that_is_not_raised_ends_the_run_with_another_token(
    desk: Desk, another: Another
) -> None:
    lead = lead_of(short_of_rounds(desk))
    token = error_of(lead, another()).token

    again = lead.submit_resume(token, None, system=another()).exception(WAIT)

    assert isinstance(again, us.MaxIterationsExceeded)
    assert finished(lead.resume(again.token, max_iterations=5, system=another())).text == "Done."


def test_a_budget_of_a_sub_agent_is_raised_where_it_was_spent(desk: Desk, another: Another) -> None:
    writer = desk.agent("writer", calls("note", word="a"), says("text")).replace(budget=us.Budget(turns=1))
    lead = lead_of(writer)
    error = error_of(lead, another())
    assert isinstance(error, us.BudgetExceeded)

    outcome = finished(lead.resume(error.token, budget=us.Budget(turns=9), system=another()))

    assert (desk.noted, [result.content for result in results_of(outcome)]) == (["a"], ["text"])


def test_an_incomplete_sub_agent_goes_on_when_it_may_continue(desk: Desk, another: Another) -> None:
    short = desk.agent("short", says("Hm."), says("DONE"))
    lead = lead_of(short.replace(criteria=[us.KeywordCriteria("DONE")], max_continues=0))
    error, system = error_of(lead, another()), another()
    assert isinstance(error, us.UnfinishedRun)
    with pytest.raises(ValueError, match=r"max_continues= above 0 to go on; the token stands"):
        lead.resume(error.token, system=system)
    with pytest.raises(TypeError):
        lead.resume(error.token, "an answer", system=system)

    outcome = finished(lead.resume(error.token, max_continues=1, system=system))

    assert [result.content for result in results_of(outcome)] == ["DONE"]


def test_a_group_goes_on_inside_the_sub_agent_at_its_limit(desk: Desk, another: Another) -> None:
    group = us.SequentialAgent("s", [lead_of(us.SequentialAgent("inner", [short_of_rounds(desk)]))])
    error = error_of(group, another())
    assert isinstance(error, us.MaxIterationsExceeded)

    outcome = finished(group.resume(error.token, max_iterations=5, system=another()))

    assert (outcome.text, desk.noted) == ("Done.", ["a", "b"])


def test_an_incomplete_workflow_as_a_sub_agent_goes_on_with_nothing_raised(desk: Desk, another: Another) -> None:
    lead = lead_of(us.Workflow("w", [us.Task("a", desk.agent("one", calls("note", word="a"), slow(), says("1")))]))
    error = error_of(lead, another())
    assert isinstance(error, us.UnfinishedRun)

    outcome = finished(lead.resume(error.token, system=another()))

    assert (outcome.text, desk.noted) == ("Done.", ["a"])


def test_results_of_the_other_calls_stay_when_a_sub_agent_reaches_its_limit(desk: Desk, another: Another) -> None:
    both = calls("note", word="x") + calls("writer", input="x")
    lead = desk.agent("lead", both, says("Done."))
    tools = [*lead.tools, us.SubAgent(short_of_rounds(desk))]
    lead = lead.replace(tools=tools, on_tool_error="raise", max_parallel_calls=1)  # so the first is done by then
    token = error_of(lead, another()).token

    outcome = finished(lead.resume(token, max_iterations=5, system=another()))

    assert [result.content for result in results_of(outcome)] == ["noted x", "text"]
    assert sorted(desk.noted) == ["a", "b", "x"]


def test_an_unfinished_run_that_no_sub_agent_stands_at_leaves_no_token(desk: Desk, another: Another) -> None:
    group = us.SequentialAgent("s", [desk.agent("clerk", us.UnfinishedRun("of another run"))])

    assert error_of(group, another()).token == ""


# --- cancelled and out of time


def test_results_from_before_a_cancel_stay_and_the_call_under_way_does_not_run_again(another: Another) -> None:
    gate, quick = Gate(), threading.Event()

    def fast() -> str:
        quick.set()
        return "fast"

    def hangs() -> str:
        return gate.then("late")(None)

    clerk = us.Agent("clerk", model=ScriptedModel([calls("fast") + calls("hangs"), says("Done.")]), tools=[fast, hangs])
    handle = clerk.submit("go", system=another())
    results = [event for event in _until_finished(handle, "fast")]
    assert gate.entered.wait(WAIT)
    assert handle.cancel()
    assert not handle.cancel()

    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)
    told = [result.content for result in error.messages[-1].tool_results]
    assert (len(results), told) == (1, ["fast", "Not run to its end: the run ended first."])
    outcome = finished(clerk.resume(error.token, system=another()))  # while the tool still hangs
    gate.open()
    assert [result.content for result in results_of(outcome)] == told
    assert outcome.text == "Done."


def _until_finished(handle: us.RunHandle[str], tool: str) -> list[us.Event]:
    for event in handle.events():
        if isinstance(event, us.ToolFinished) and event.call.name == tool:
            return [event]
    return []


def test_a_deadline_in_a_model_call_is_followed_by_the_same_call(another: Another) -> None:
    gate, asked = Gate(), list[int]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.append(request.turn)
        return gate.then(says("late"))(None) if len(asked) == 1 else says("Done.")

    clerk = us.Agent("clerk", model=FunctionModel(answer))
    error = clerk.submit("go", timeout=0.2, system=another()).exception(WAIT)
    assert isinstance(error, us.RunTimedOut)

    outcome = finished(clerk.resume(error.token, system=another()))
    gate.open()

    assert (outcome.text, outcome.turns, asked) == ("Done.", 1, [1, 1])


def test_children_under_way_at_a_cancel_go_on_where_they_were(desk: Desk, another: Another) -> None:
    gate = Gate()
    turns = [calls("note", word="a"), says("2")]
    asked = list[us.ModelTurn]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2 and not gate.entered.is_set():
            gate()
        asked.append(turns[request.turn - 1])
        return asked[-1]

    two = desk.agent("two").replace(model=FunctionModel(answer))
    group = us.SequentialAgent("s", [us.ParallelAgent("p", [desk.agent("one", says("1")), two])])
    handle = group.submit("go", system=another())
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    outcome = finished(group.resume(error.token, system=another()))
    gate.open()

    assert (outcome.text, desk.noted) == ("2", ["a"])


def test_a_sub_agent_that_a_cancel_ends_before_the_run_around_it_goes_on_where_it_was(
    desk: Desk, another: Another, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, keep = Gate(), AgentRunActor._keep_settled  # pyright: ignore[reportPrivateUsage]
    turns = [calls("note", word="a"), says("A draft.")]

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2 and not gate.entered.is_set():
            gate()
        return turns[request.turn - 1]

    def end_those_inside_first(run: AgentRunActor) -> None:
        for child in run.delegated.values():
            assert child.host.endings.cancel(child)
        keep(run)

    monkeypatch.setattr(AgentRunActor, "_keep_settled", end_those_inside_first)
    writer = desk.agent("writer").replace(model=FunctionModel(answer))
    model = ScriptedModel([calls("writer", input="write"), says("Done.")])
    lead = us.Agent("lead", model=model, sub_agents=[writer])
    handle = lead.submit("go", system=another())
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    outcome = finished(lead.resume(error.token, system=another()))
    gate.open()

    assert [result.content for result in results_of(outcome)] == ["A draft."]
    assert desk.noted == ["a"]


def test_a_turn_that_was_paid_for_and_not_taken_is_taken_when_the_run_goes_on(another: Another) -> None:
    gate = Gate()

    class Looks(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.Continue:
            if not gate.entered.is_set():
                gate()
            return us.Continue()

    paid = us.ModelTurn(says("Done.").parts, usage=us.Usage(5, 2))
    clerk = us.Agent("clerk", model=ScriptedModel([paid]), callbacks=[Looks()])
    handle = clerk.submit("go", system=another())
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    outcome = finished(clerk.resume(error.token, system=another()))
    gate.open()

    assert (error.usage.total_tokens, outcome.usage.total_tokens, outcome.turns) == (7, 7, 1)


def test_a_run_that_nobody_wants_has_no_token(desk: Desk) -> None:
    gate = Gate()
    with us.ActorSystem("shop") as system:
        other = us.Agent("slow", model=FunctionModel(gate.then(says("late"))))
        loser = other.submit("go", system=system)
        assert gate.entered.wait(WAIT)
        us.first([loser, desk.agent("quick", says("1")).submit("go", system=system)]).result(WAIT)
        gate.open()
        error = loser.exception(WAIT)

    assert isinstance(error, us.RunCancelled)
    assert error.token == ""


# --- incomplete children


def test_an_incomplete_child_has_its_token_at_the_group(desk: Desk, another: Another) -> None:
    short = desk.agent("short", says("Hm."), says("DONE")).replace(
        criteria=[us.KeywordCriteria("DONE")], max_continues=0
    )
    group = us.SequentialAgent("s", [us.ParallelAgent("p", [short]), desk.agent("last", says("2"))])
    stopped, system = incomplete(group.run("go", system=another())), another()
    with pytest.raises(ValueError, match="max_continues= above 0"):
        group.resume(stopped.token, system=system)

    outcome = finished(group.resume(stopped.token, max_continues=1, system=system))

    assert (stopped.last_text, outcome.text, outcome.turns) == ("Hm.", "2", 3)


def test_an_incomplete_workflow_inside_goes_on_with_nothing_raised(desk: Desk, another: Another) -> None:
    flow = us.Workflow("w", [us.Task("a", desk.agent("one", calls("note", word="a"), slow(), says("1")))])
    group = us.SequentialAgent("s", [flow])
    stopped = incomplete(group.run("go", system=another()))

    outcome = finished(group.resume(stopped.token, system=another()))

    assert (outcome.text, outcome.turns, desk.noted) == ("1", 2, ["a"])


# --- groups that collect errors, in which all children failed


def all_fail(desk: Desk) -> us.ParallelAgent:
    """Return a group whose three children end with errors at their first try, and have called a tool before."""
    flow = us.Workflow("flow", [us.Task("a", desk.agent("one", calls("note", word="a"), slow(), says("1")))])
    busy = desk.agent("two", calls("note", word="b"), slow(), says("2"))
    return us.ParallelAgent("p", [flow, busy, short_of_rounds(desk, "c", "d")], max_parallel=1, on_error="collect")


def in_nothing(group: us.ParallelAgent) -> us.ParallelAgent:
    return group


def in_a_sequence(group: us.ParallelAgent) -> us.SequentialAgent:
    return us.SequentialAgent("s", [group])


def in_a_task(group: us.ParallelAgent) -> us.Workflow:
    return us.Workflow("w", [us.Task("t", group)])


def in_an_agent(group: us.ParallelAgent) -> us.Agent:
    turns = [calls("p", input="x"), says("Done.")]
    return us.Agent("lead", model=ScriptedModel(turns), tools=[us.SubAgent(group)], on_tool_error="raise")


Around = Callable[[us.ParallelAgent], us.Agent | us.SequentialAgent | us.ParallelAgent | us.Workflow]
AROUND = pytest.mark.parametrize("around", [in_nothing, in_a_sequence, in_a_task, in_an_agent])


def stopped_token(
    runner: us.Agent | us.SequentialAgent | us.ParallelAgent | us.Workflow, system: us.ActorSystem
) -> str:
    if isinstance(runner, us.Workflow):
        return incomplete(runner.run("go", system=system)).token
    error = error_of(runner, system)
    assert isinstance(error, us.SeveralErrors)
    return error.token


@AROUND
def test_each_child_goes_on_where_errors_are_collected_and_all_failed(
    desk: Desk, another: Another, around: Around
) -> None:
    runner = around(all_fail(desk))
    token = stopped_token(runner, another())

    finished(runner.resume(token, max_iterations=5, system=another()))

    assert desk.noted == ["a", "b", "c", "d"]


@AROUND
def test_what_can_go_on_with_nothing_raised_does_where_all_failed(desk: Desk, another: Another, around: Around) -> None:
    runner = around(all_fail(desk))
    token = stopped_token(runner, another())

    finished(runner.resume(token, system=another()))

    assert desk.noted == ["a", "b", "c"]


@AROUND
def test_an_incomplete_workflow_alone_goes_on_where_all_failed(desk: Desk, another: Another, around: Around) -> None:
    flow = us.Workflow("flow", [us.Task("a", desk.agent("one", calls("note", word="a"), slow(), says("1")))])
    runner = around(us.ParallelAgent("p", [flow, desk.agent("bad", us.BadReply("half"))], on_error="collect"))
    token = stopped_token(runner, another())

    finished(runner.resume(token, system=another()))

    assert desk.noted == ["a"]


def test_children_that_all_failed_for_good_leave_no_token(desk: Desk, another: Another) -> None:
    group = us.ParallelAgent("p", [desk.agent(id, us.BadReply("half")) for id in ("one", "two")], on_error="collect")

    assert error_of(group, another()).token == ""


# --- what is told, and stores that fail


def test_callbacks_and_events_have_the_token(another: Another) -> None:
    seen = list[str]()

    class Hears(us.AgentCallback):
        def on_error(self, ctx: us.RunContext, error: BaseException) -> us.Continue:
            assert isinstance(error, us.UnderstudyError)
            seen.append(error.token)
            with pytest.raises(us.UnknownToken, match="is not over yet"):
                clerk.resume(error.token, system=system)
            return us.Continue()

    system = another()
    clerk = us.Agent("clerk", model=ScriptedModel([slow(), says("Done.")]), callbacks=[Hears()])
    handle = clerk.submit("go", system=system)
    last = list(handle.events())[-1]

    assert isinstance(last, us.RunFailed)
    assert isinstance(last.error, us.RateLimited)
    assert seen == [last.error.token]
    assert finished(clerk.resume(seen[0], system=another())).text == "Done."


def test_an_error_in_whose_place_a_callback_gives_a_text_leaves_nothing_in_the_store() -> None:
    class Gives(us.AgentCallback):
        def on_error(self, ctx: us.RunContext, error: BaseException) -> us.OverrideResponse:
            return us.OverrideResponse("Later.")

    store = DictStore()
    with us.ActorSystem("shop", store=store) as system:
        clerk = us.Agent("clerk", model=ScriptedModel([slow()]), callbacks=[Gives()])

        assert finished(clerk.run("go", system=system)).text == "Later."

    assert [run.state for run in store.runs.values()] == ["over"]


def test_a_store_that_does_not_answer_keeps_no_error_from_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_tokens, "PATIENCE", 0.05)
    gate = Gate()

    class Hanging(DictStore):
        def put(self, paused: us.PausedRun, *, keep: float | None) -> bool:
            gate()
            return super().put(paused, keep=keep)

    with us.ActorSystem("shop", store=Hanging()) as system:
        first = error_of(us.Agent("clerk", model=ScriptedModel([slow()])), system)
        second = error_of(us.Agent("clerk", model=ScriptedModel([us.ProviderTimeout("late")])), system)
        gate.open()

    for error in (first, second):
        assert error.token == ""
        assert any("It has no token" in note for note in error.__notes__)


def test_people_are_asked_about_what_waited_before_the_cancel(desk: Desk, another: Another) -> None:
    gate = Gate()
    other = us.Agent(
        "slow", model=FunctionModel(lambda _: says("1") if gate.entered.is_set() else gate.then(says("0"))(None))
    )
    asks = desk.agent("asks", says("__ask_user__: Which?"), says("2"))
    group = us.ParallelAgent("p", [asks, other])
    handle = group.submit("go", system=another())
    for event in handle.events(inner=True):
        if isinstance(event, us.ChildFinished):
            break
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    waiting = needs_input(group.resume(error.token, system=another()))
    gate.open()

    assert finished(group.resume(waiting.token, "This", system=another())).text == "1"


# --- workflows that are incomplete inside, and ends that meet


@pytest.mark.parametrize("depth", [0, 1])
def test_a_task_that_is_incomplete_inside_goes_on_inside_after_a_cancel(
    desk: Desk, another: Another, depth: int
) -> None:
    gate = Gate()
    one = desk.agent("one", calls("note", word="a"), slow(), says("1"))
    inner = us.Workflow("inner", [us.Task("a", one)])
    other = us.Agent(
        "slow", model=FunctionModel(lambda _: says("2") if gate.entered.is_set() else gate.then(says("0"))(None))
    )
    flow = us.Workflow("w", [us.Task("i", inner), us.Task("s", other)])
    group = us.SequentialAgent("s", [flow]) if depth else flow
    handle = group.submit("go", system=another())
    for event in handle.events(inner=True):
        if isinstance(event, us.ChildFinished) and event.runner_id == "inner":
            break
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    finished(group.resume(error.token, system=another()))
    gate.open()

    model = one.current_model
    assert isinstance(model, ScriptedModel)
    assert [len(request.messages) for request in model.requests] == [1, 3, 3]


def test_an_agent_that_waited_for_a_person_as_it_was_cancelled_says_so_when_it_goes_on(another: Another) -> None:
    gate, paid = Gate(), list[int]()

    def slow_tool() -> str:
        return gate.then("late")(None)

    @us.tool(approval=True)
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    turn = calls("slow_tool") + calls("pay", cents=7)
    clerk = us.Agent("clerk", model=ScriptedModel([turn, says("Done.")]), tools=[slow_tool, pay])
    handle = clerk.submit("go", system=another())
    assert gate.entered.wait(WAIT)
    handle.cancel()
    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)

    waiting = clerk.resume(error.token, system=another())
    gate.open()

    assert isinstance(waiting, us.NeedsApproval)
    with pytest.raises(TypeError, match="it waits for decisions"):  # now somebody was told
        clerk.resume(waiting.token, system=another())
    assert finished(clerk.resume(waiting.token, us.Approve(), system=another())).text == "Done."
    assert paid == [7]


def test_a_limit_that_no_child_inside_stands_at_is_refused_and_the_token_stands(desk: Desk, another: Another) -> None:
    flow = us.Workflow("w", [us.Task("a", desk.agent("one", slow(), says("1")))])
    group = us.SequentialAgent("s", [flow])
    stopped, system = incomplete(group.run("go", system=another())), another()
    with pytest.raises(ValueError, match="max_turns is a limit of agents, and no agent that goes on has reached one"):
        group.resume(stopped.token, max_turns=20, system=system)

    assert finished(group.resume(stopped.token, system=system)).text == "1"


@pytest.mark.parametrize("kind", ["fails", "incomplete"])
def test_a_cancel_while_the_run_is_written_has_the_token_of_what_was_written(desk: Desk, kind: str) -> None:
    gate = Gate()

    class Slow(DictStore):
        def put(self, paused: us.PausedRun, *, keep: float | None) -> bool:
            done = super().put(paused, keep=keep)
            if not gate.entered.is_set():
                gate()
            return done

    first = slow() if kind == "fails" else says("Hm.")
    child = desk.agent("one", first, says("DONE")).replace(criteria=[us.KeywordCriteria("DONE")], max_continues=0)
    group = us.SequentialAgent("s", [child])
    with us.ActorSystem("shop", store=Slow()) as system:
        handle = group.submit("go", system=system)
        assert gate.entered.wait(WAIT)
        cancel = threading.Thread(target=handle.cancel)
        cancel.start()
        while handle.status().phase == "running":
            threading.Event().wait(0.001)
        gate.open()
        error = handle.exception(WAIT)
        assert isinstance(error, us.RunCancelled)

        again = group.resume(error.token, system=system, max_continues=None if kind == "fails" else 1)

        assert finished(again).text == "DONE"
        cancel.join(WAIT)


@pytest.mark.parametrize("by", ["cancel", "deadline"])
def test_an_error_while_a_pause_is_stored_says_what_its_token_waits_for(by: str) -> None:
    gate, paid = Gate(), list[int]()

    @us.tool(approval=True)
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        scope = current_scope()
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        return calls("pay", cents=7) if request.turn == 1 else says("Done.")

    def run_out() -> None:
        for scope in scopes:
            scope.deadline = time.monotonic()

    store, scopes = DictStore(), list[us.Scope]()
    store.on_call = lambda method: gate() if method == "put" else None
    clerk = us.Agent("clerk", model=FunctionModel(answer), tools=[pay])
    with us.ActorSystem("shop", store=store) as system:
        handle = clerk.submit("go", system=system, timeout=None if by == "cancel" else WAIT)
        assert gate.entered.wait(WAIT)
        cancel = threading.Thread(target=handle.cancel if by == "cancel" else run_out)
        cancel.start()
        eventually(lambda: handle.status().phase != "running", "the run was ended")
        gate.open()
        cancel.join(WAIT)
        error = handle.exception(WAIT)
        assert isinstance(error, us.RunCancelled | us.RunTimedOut)
        with pytest.raises(
            TypeError, match=r"it waits for decisions about .*: pass Approve\(\) or Reject\(…\); got None"
        ):
            clerk.resume(error.token, system=system)

        assert [note for note in error.__notes__ if "it waits for a decision about pay" in note]
        assert finished(clerk.resume(error.token, us.Approve(), system=system)).text == "Done."
    assert paid == [7]
