"""What errors that leave a runner tell: where they come from, and what the run had until then."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

import understudy as us
from tests.support.copies import COPIES
from tests.support.gates import Gate
from tests.support.scripts import WAIT, finished
from understudy.actors.tools.failed_calls import error_result
from understudy.errors import place_note
from understudy.testing import FunctionModel, ScriptedModel, calls, says

SPENT = us.Usage(10, 5)


def spent(turn: us.ModelTurn) -> us.ModelTurn:
    return us.ModelTurn(turn.parts, SPENT, turn.finish_reason)


@us.tool
def look(ctx: us.ToolContext) -> str:
    """Look, and remember it."""
    ctx.session["seen"] = "yes"
    return "seen"


def busy() -> us.ProviderError:
    return us.RateLimited("slow down", status=429)


def clerk(*turns: us.ModelTurn | Exception, id: str = "clerk", **definition: Any) -> us.Agent:
    given: dict[str, Any] = {"tools": [look], **definition}
    return us.Agent(id, model=ScriptedModel(turns), **given)


def error_of(runner: Any, **options: Any) -> us.UnderstudyError:
    error = runner.submit("go", **options).exception(WAIT)
    assert isinstance(error, us.UnderstudyError)
    return error


# --- what the run had


def test_an_error_of_the_model_in_mid_run_has_what_was_paid_for() -> None:
    agent = clerk(spent(calls("look")), spent(calls("look")), busy())

    error = error_of(agent, session={"shop": "main"})

    assert [message.role for message in error.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [result.content for message in error.messages for result in message.tool_results] == ["seen", "seen"]
    assert error.usage == us.Usage(20, 10)
    assert error.session == {"shop": "main", "seen": "yes"}


def test_what_an_error_has_of_the_history_can_be_gone_on_with() -> None:
    error = error_of(clerk(calls("look"), busy()))
    model = ScriptedModel([says("Seven.")])

    assert finished(us.Agent("clerk", model=model).run("Go on.", history=error.messages)).text == "Seven."
    assert [message.text for message in model.requests[0].messages] == ["go", "", "", "Go on."]


def test_calls_that_did_not_end_have_an_error_as_their_result() -> None:
    gate = Gate()
    hang = us.tool(name="hang")(lambda: gate())
    agent = clerk(calls("look") + calls("hang"), tools=[look, hang])
    handle = agent.submit("go")
    assert gate.entered.wait(WAIT)
    handle.cancel()
    gate.open()

    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)
    asked, answered = error.messages[-2:]
    assert [call.id for call in asked.tool_calls] == [result.call_id for result in answered.tool_results]
    assert answered.tool_results[1] == error_result(
        asked.tool_calls[1], "not_run", "Not run to its end: the run ended first."
    )


def broken_prompt(context: us.RunContext) -> str:
    raise LookupError("no prompt")


@us.tool(on_error="raise")
def fail() -> str:
    """Fail."""
    raise LookupError("no such row")


ENDINGS: dict[str, tuple[type[us.UnderstudyError], Callable[[], us.Agent], dict[str, Any]]] = {
    "the model": (us.ProviderError, lambda: clerk(busy()), {}),
    "a limit": (us.MaxIterationsExceeded, lambda: clerk(calls("look"), calls("look"), max_iterations=1), {}),
    "a budget": (us.BudgetExceeded, lambda: clerk(calls("look"), says("x"), budget=us.Budget(turns=1)), {}),
    "a tool": (us.ToolError, lambda: clerk(calls("fail"), tools=[fail]), {}),
    "its own code": (us.AgentCrashed, lambda: clerk(says("x"), system_prompt=broken_prompt), {}),
    "its deadline": (us.RunTimedOut, lambda: clerk(says("x")), {"timeout": 1e-9}),
}


@pytest.mark.parametrize(("kind", "make", "options"), ENDINGS.values(), ids=ENDINGS)
def test_every_error_that_ends_a_run_says_in_which_agent_and_what_there_was(
    kind: type[us.UnderstudyError], make: Callable[[], us.Agent], options: dict[str, Any]
) -> None:
    error = error_of(make(), session={"shop": "main"}, **options)

    assert type(error) is kind or isinstance(error, kind)
    assert error.path == ("clerk",)
    assert "'clerk'" in f"{error} {place_note(error)}"
    assert [message.text for message in error.messages[:1]] in (["go"], [])
    assert error.session["shop"] == "main"


def test_a_group_s_error_has_the_tokens_of_all_and_what_the_child_that_failed_had() -> None:
    first = clerk(spent(says("Look twice.")), id="first")
    second = clerk(spent(calls("look")), busy(), id="second")

    error = error_of(us.SequentialAgent("desk", [first, second]), session={"shop": "main"})

    assert error.path == ("desk", "second")
    assert error.usage == us.Usage(20, 10)
    assert [len(error.messages), error.messages[0].text] == [3, "go"]
    assert error.messages[-1].tool_results[0].content == "seen"
    assert error.session == {"shop": "main", "seen": "yes"}


def test_a_group_that_is_cancelled_has_the_tokens_of_its_children() -> None:
    gate = Gate()
    hang = us.tool(name="hang")(lambda: gate())
    handle = us.SequentialAgent("desk", [clerk(spent(calls("hang")), tools=[hang])]).submit("go", session={"n": 1})
    assert gate.entered.wait(WAIT)
    handle.cancel()
    gate.open()

    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)
    assert (error.path, error.usage, error.session) == (("desk",), SPENT, {"n": 1})


def test_a_child_that_stops_before_its_end_is_named_and_has_what_it_said() -> None:
    child = clerk(says("Hm."), criteria=[us.KeywordCriteria("done")], max_continues=0)

    outcome = us.SequentialAgent("desk", [us.ParallelAgent("panel", [child], on_error="collect")]).submit("go")

    error = outcome.exception(WAIT)
    assert isinstance(error, us.SeveralErrors)
    (unfinished,) = error.exceptions
    assert isinstance(unfinished, us.UnfinishedRun)
    assert unfinished.path == ("desk", "panel", "clerk")
    assert [message.text for message in unfinished.messages] == ["go", "Hm."]


# --- where it comes from


def test_an_error_of_the_model_has_a_note_with_agent_and_model() -> None:
    error = error_of(
        us.Agent("a", model=FunctionModel(lambda request: says("x")), system_prompt="p").replace(
            model=ScriptedModel([busy()])
        )
    )

    assert error.__notes__ == ["agent 'a' (ScriptedModel)"]


def test_the_note_has_the_path_of_the_runners_around_it() -> None:
    inner = us.ParallelAgent("all", [clerk(busy(), id="a")])

    error = error_of(us.SequentialAgent("seq", [clerk(says("x"), id="b"), inner]))

    assert error.path == ("seq", "all", "a")
    assert error.__notes__ == ["agent 'a' (ScriptedModel), path seq > all > a"]


def test_an_error_of_a_sub_agent_that_ends_the_run_names_the_sub_agent_and_has_what_the_run_had() -> None:
    inner = clerk(spent(calls("look")), busy(), id="inner")
    outer = us.Agent(
        "outer",
        model=ScriptedModel([spent(calls("inner", input="look"))]),
        sub_agents=[inner],
        on_tool_error="raise",
    )

    error = error_of(outer)

    assert isinstance(error, us.RateLimited)
    assert error.path == ("outer", "inner")
    assert error.__notes__ == ["agent 'inner' (ScriptedModel), path outer > inner"]
    assert error.messages[0].text == "go"
    assert error.usage == us.Usage(20, 10)


def test_what_the_model_reads_of_an_error_has_no_place_in_it() -> None:
    outer = us.Agent(
        "outer",
        model=ScriptedModel([calls("inner", input="look"), says("No idea.")]),
        sub_agents=[clerk(busy(), id="inner")],
    )

    outcome = finished(outer.run("go"))

    assert outcome.messages[2].tool_results[0].content == "inner failed: RateLimited: slow down"


def test_one_error_that_ends_many_runs_says_of_each_where_and_gathers_no_notes() -> None:
    same = busy()

    def fails(request: us.ModelRequest) -> us.ModelTurn:
        raise same

    one, other = us.Agent("one", model=FunctionModel(fails)), us.Agent("other", model=FunctionModel(fails))
    told: list[tuple[tuple[str, ...], list[str]]] = []
    for runner in (one, us.SequentialAgent("seq", [other]), one, other):
        error = error_of(runner)
        assert error is same
        told.append((error.path, list(error.__notes__)))

    assert told == [
        (("one",), ["agent 'one' (FunctionModel)"]),
        (("seq", "other"), ["agent 'other' (FunctionModel), path seq > other"]),
        (("one",), ["agent 'one' (FunctionModel)"]),
        (("other",), ["agent 'other' (FunctionModel)"]),
    ]


def test_a_circle_keeps_its_own_path() -> None:
    agents: list[us.Agent] = []

    def again() -> str:
        return finished(agents[0].run("again")).text

    agents.append(
        us.Agent("a", model=FunctionModel(lambda request: calls("again")), tools=[us.tool(on_error="raise")(again)])
    )

    error = error_of(agents[0])

    circle = error if isinstance(error, us.CircularAgentCall) else error.__cause__
    assert isinstance(circle, us.CircularAgentCall)
    assert circle.path == ("a", "a")


# --- how the runs inside ended


def told(error: us.UnderstudyError) -> list[str]:
    return [child.text if isinstance(child, us.Complete) else type(child).__name__ for child in error.children]


def each_of(answer: Callable[[str], us.ModelTurn]) -> us.Workflow:
    """Make a workflow that runs an agent for each item of its input."""
    agent = us.Agent("echo", model=FunctionModel(lambda request: answer(request.text)))
    return us.Workflow("each", [us.Task("echo", agent, prompt="${item}", for_each="${input}")], max_parallel=1)


def test_an_error_of_a_group_has_the_outcomes_of_the_children_that_ended_and_itself() -> None:
    error = error_of(us.SequentialAgent("desk", [clerk(says("one"), id="a"), clerk(busy(), id="b"), clerk(id="c")]))

    assert told(error) == ["one", "RateLimited"]
    first, second = error.children
    assert isinstance(first, us.Complete)
    assert (first.agent_id, len(first.messages)) == ("a", 2)
    assert second is error


def test_an_error_from_a_group_inside_has_the_children_of_both() -> None:
    inner = us.SequentialAgent("inner", [clerk(says("two"), id="b"), clerk(busy(), id="c")])

    error = error_of(us.SequentialAgent("outer", [clerk(says("one"), id="a"), inner]))

    assert told(error) == ["one", "RateLimited"]
    inside = error.children[1]
    assert isinstance(inside, us.RateLimited)
    assert told(inside) == ["two", "RateLimited"]


def test_items_that_ended_before_one_failed_are_told() -> None:
    def answer(item: str) -> us.ModelTurn:
        if item == "2":
            raise us.BadReply("half a turn")
        return says(f"item {item}")

    outcome = us.SequentialAgent("desk", [each_of(answer)]).run("[1, 2]")

    assert isinstance(outcome, us.Incomplete)
    (flow,) = outcome.children
    assert isinstance(flow, us.Incomplete)
    done, failed = flow.children
    assert isinstance(done, us.Complete)
    assert done.text == "item 1"
    assert isinstance(failed, us.BadReply)


def test_items_that_ended_before_a_cancellation_are_told() -> None:
    gate = threading.Event()

    def answer(item: str) -> us.ModelTurn:
        if item == "3":
            gate.wait(WAIT)
        return says(f"item {item}")

    handle = each_of(answer).submit("[1, 2, 3, 4]")
    begun = 0
    for event in handle.events():
        begun += isinstance(event, us.ChildStarted)
        if begun == 3:
            break
    handle.cancel()
    gate.set()

    error = handle.exception(WAIT)
    assert isinstance(error, us.RunCancelled)
    assert told(error) == ["item 1", "item 2", "RunCancelled", "RunCancelled"]
    assert ["did not begin" in str(child) for child in error.children[2:]] == [False, True]


def test_an_agent_s_error_has_no_children_of_an_earlier_run() -> None:
    same = busy()
    agent = us.Agent("a", model=ScriptedModel([same, same]))

    assert error_of(us.SequentialAgent("desk", [agent])).children == (same,)
    assert error_of(agent).children == ()


# --- in another process


@pytest.mark.parametrize("way", COPIES)
def test_what_an_error_tells_survives_a_copy(way: Callable[[us.UnderstudyError], us.UnderstudyError]) -> None:
    first = clerk(says("one"), id="first")
    error = error_of(us.SequentialAgent("seq", [first, clerk(spent(calls("look")), busy())]), session={"shop": "main"})

    again = way(error)

    assert (again.path, again.messages, again.usage, again.session) == (
        error.path,
        error.messages,
        error.usage,
        error.session,
    )
    assert [type(child) for child in again.children] == [us.Complete, us.RateLimited]
    assert again.children[0] == error.children[0]
    assert again.children[1] is again
    assert place_note(again) == place_note(error)
    again.add_note("of the copy alone")
    assert len(error.__notes__) == 1


def test_values_that_are_no_json_stay_behind() -> None:
    session: Any = {"lock": threading.Lock(), "n": 1}
    error = error_of(clerk(busy()), session=session)

    assert set(error.session) == {"lock", "n"}
    assert pickle.loads(pickle.dumps(error)).session == {"n": 1}
    assert set(copy.copy(error).session) == {"lock", "n"}


def test_an_error_stands_for_a_child_that_cannot_be_pickled() -> None:
    session: Any = {"lock": threading.Lock()}
    error = error_of(us.SequentialAgent("seq", [clerk(says("one"), id="first"), clerk(busy())]), session=session)

    lost, itself = pickle.loads(pickle.dumps(error)).children

    assert isinstance(error.children[0], us.Complete)
    assert isinstance(lost, us.UnderstudyError)
    assert "'first'" in str(lost)
    assert isinstance(itself, us.RateLimited)


def reads_deps(context: us.RunContext) -> str:
    """Return a prompt, which takes deps to be there."""
    return str(cast(Any, context.deps).shelf)


class ReadsDeps(us.AgentCallback):
    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        reads_deps(ctx)
        return us.Continue()


@pytest.mark.parametrize("definition", [{"system_prompt": reads_deps}, {"callbacks": [ReadsDeps()]}])
@pytest.mark.parametrize("deps", [None, object()])
def test_an_error_at_missing_deps_says_that_the_run_was_given_none(definition: dict[str, Any], deps: object) -> None:
    error = error_of(clerk(says("x"), **definition), deps=deps)

    assert ("has no attribute 'shelf'; the run was given no deps=" in str(error)) is (deps is None)
    assert "AttributeError" in str(error)
