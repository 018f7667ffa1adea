"""Children of groups that reach a limit: the group has a token, and goes on inside of them once the limit is raised."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import WAIT, incomplete, needs_input
from tests.support.tools import look
from understudy.testing import FunctionModel, ScriptedModel, calls, says


class Looker:
    """An agent that looks so often before it answers, and may look once; it counts what it was asked."""

    def __init__(self, id: str, looks: int = 2, budget: us.Budget | None = None, max_iterations: int = 1) -> None:
        self.turns = 0

        def answer(request: us.ModelRequest) -> us.ModelTurn:
            self.turns += 1
            seen = sum(1 for message in request.messages for _ in message.tool_results)
            return calls("look", word="x") if seen < looks else says(f"{id} looked {seen} times")

        self.agent = us.Agent(
            id, model=FunctionModel(answer), tools=[look], max_iterations=max_iterations, budget=budget
        )


def counted(id: str) -> tuple[us.Agent, ScriptedModel]:
    """Make an agent that answers once and can do no more."""
    model = ScriptedModel([says(f"{id} is done")])
    return us.Agent(id, model=model), model


def limit(runner: us.Runner[object], system: us.ActorSystem, budget: us.Budget | None = None) -> us.RunError:
    with pytest.raises((us.MaxIterationsExceeded, us.BudgetExceeded)) as caught:
        runner.run("x", budget=budget, system=system)
    assert caught.value.token
    return caught.value


def test_a_sequence_goes_on_inside_of_the_step_that_reached_a_limit(another: Callable[[], us.ActorSystem]) -> None:
    (before, first), (after, _), looker = counted("a"), counted("c"), Looker("b")
    group = us.SequentialAgent("s", [before, looker.agent, after])

    error = limit(group, another())
    outcome = group.resume(error.token, max_iterations=2, system=another())

    assert isinstance(error, us.MaxIterationsExceeded)
    assert (error.limit, error.what) == (1, "max_iterations")
    assert error.run_id == outcome.run_id
    assert outcome.text == "c is done"
    assert (len(first.requests), looker.turns) == (1, 3)


def test_a_limit_may_be_reached_and_raised_again_and_again(another: Callable[[], us.ActorSystem]) -> None:
    looker = Looker("b", looks=3)
    group = us.SequentialAgent("s", [looker.agent])

    token = limit(group, another()).token
    with pytest.raises(us.MaxIterationsExceeded) as again:
        group.resume(token, max_iterations=2, system=another())
    outcome = group.resume(again.value.token, max_iterations=3, system=another())

    assert (outcome.text, looker.turns) == ("b looked 3 times", 4)


def test_the_others_finish_when_a_child_of_a_parallel_group_reaches_a_limit(
    another: Callable[[], us.ActorSystem],
) -> None:
    (done, model), one, two = counted("a"), Looker("b"), Looker("c")
    group = us.ParallelAgent("p", [one.agent, done, two.agent], max_parallel=1)

    outcome = group.resume(limit(group, another()).token, max_iterations=5, system=another())

    assert outcome.combined_text == '["b looked 2 times", "a is done", "c looked 2 times"]'
    assert (len(model.requests), one.turns, two.turns) == (1, 3, 3)


def test_a_limit_at_any_depth_is_raised_where_it_was_reached(another: Callable[[], us.ActorSystem]) -> None:
    (before, model), looker = counted("a"), Looker("deep")
    inner = us.SequentialAgent("s", [before, looker.agent])
    group = us.SequentialAgent("outer", [us.ParallelAgent("p", [inner])])

    outcome = group.resume(limit(group, another()).token, max_iterations=2, system=another())

    assert outcome.text == "deep looked 2 times"
    assert (len(model.requests), looker.turns) == (1, 3)


def test_a_limit_is_no_success_and_the_first_of_the_others_wins(system: us.ActorSystem) -> None:
    (wins, _), looker = counted("b"), Looker("a")
    group = us.ParallelAgent("p", [looker.agent, wins], merge="first", max_parallel=1)

    assert group.run("x", system=system).text == "b is done"


def test_if_the_others_fail_the_one_at_a_limit_may_still_be_the_first(another: Callable[[], us.ActorSystem]) -> None:
    bad = us.Agent("bad", model=ScriptedModel([us.BadReply("what?")]))
    group = us.ParallelAgent("p", [Looker("a").agent, bad], merge="first")

    assert group.resume(limit(group, another()).token, max_iterations=2, system=another()).text == "a looked 2 times"


def test_where_failures_are_collected_a_limit_is_one(system: us.ActorSystem) -> None:
    group = us.ParallelAgent("p", [counted("a")[0], Looker("b").agent], on_error="collect")

    assert group.run("x", system=system).combined_text == '["a is done", null]'


def test_another_childs_failure_ends_the_group_without_a_token(system: us.ActorSystem) -> None:
    bad = us.Agent("bad", model=ScriptedModel([us.RateLimited("slow down")]))
    group = us.ParallelAgent("p", [Looker("a").agent, bad], max_parallel=1)

    with pytest.raises(us.RateLimited):
        group.run("x", system=system)


def test_people_are_asked_before_a_limit_is_raised(another: Callable[[], us.ActorSystem]) -> None:
    asks = us.Agent("asks", model=ScriptedModel([says("__ask_user__: Which?"), says("asked")]))
    group = us.ParallelAgent("p", [Looker("a").agent, asks])

    waiting = needs_input(group.run("x", system=another()))
    with pytest.raises(us.MaxIterationsExceeded) as caught:
        group.resume(waiting.token, "This", system=another())
    outcome = group.resume(caught.value.token, max_iterations=2, system=another())

    assert outcome.combined_text == '["a looked 2 times", "asked"]'


# --- budgets


def test_the_budget_of_a_child_is_raised_for_that_child(another: Callable[[], us.ActorSystem]) -> None:
    looker = Looker("b", budget=us.Budget(turns=2), max_iterations=9)
    group = us.SequentialAgent("s", [looker.agent, counted("c")[0]])

    error = limit(group, another(), us.Budget(turns=50))
    outcome = group.resume(error.token, budget=us.Budget(turns=3), system=another())

    assert isinstance(error, us.BudgetExceeded)
    assert not error.inherited
    assert (outcome.text, looker.turns) == ("c is done", 3)


def test_the_budget_of_the_group_is_raised_for_the_group(another: Callable[[], us.ActorSystem]) -> None:
    looker = Looker("b", max_iterations=9)
    group = us.SequentialAgent("s", [looker.agent, counted("c")[0]])

    error = limit(group, another(), us.Budget(turns=2))
    with pytest.raises(us.BudgetExceeded) as again:  # the three turns of the first step, and none for the second
        group.resume(error.token, budget=us.Budget(turns=3), system=another())
    outcome = group.resume(again.value.token, budget=us.Budget(turns=4), system=another())

    assert isinstance(error, us.BudgetExceeded)
    assert error.inherited
    assert (outcome.text, looker.turns) == ("c is done", 3)


# --- workflows


def test_a_task_at_a_limit_goes_on_where_it_stands_once_that_is_raised(another: Callable[[], us.ActorSystem]) -> None:
    (before, model), looker = counted("a"), Looker("b")
    flow = us.Workflow(
        "w",
        [
            us.Task("first", before, prompt="go"),
            us.Task("looks", looker.agent, prompt="go", dependencies=["first"]),
            us.Task("last", counted("c")[0], prompt="${looks}", dependencies=["looks"]),
        ],
    )

    stopped = incomplete(flow.run(system=another()))
    outcome = flow.resume(stopped.token, max_iterations=2, system=another())

    assert {name: task.status for name, task in stopped.tasks.items()} == {
        "first": "done",
        "looks": "failed",
        "last": "skipped",
    }
    assert {task.status for task in outcome.tasks.values()} == {"done"}
    assert outcome.tasks["looks"].text == "b looked 2 times"
    assert (len(model.requests), looker.turns) == (1, 3)


def test_a_task_at_a_limit_begins_anew_if_nothing_is_raised(system: us.ActorSystem) -> None:
    looker = Looker("b")
    flow = us.Workflow("w", [us.Task("looks", looker.agent, prompt="go")])

    again = incomplete(flow.resume(incomplete(flow.run(system=system)).token, system=system))

    assert again.tasks["looks"].status == "failed"
    assert looker.turns == 4
    assert flow.resume(again.token, max_iterations=2, system=system).text == "b looked 2 times"


def test_of_a_task_with_items_those_that_are_done_stay_so(another: Callable[[], us.ActorSystem]) -> None:
    looked = list[str]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        item = request.messages[0].text
        looked.append(item)
        seen = sum(1 for message in request.messages for _ in message.tool_results)
        return calls("look", word="x") if item == "b" and seen < 2 else says(f"{item}{seen}")

    agent = us.Agent("each", model=FunctionModel(answer), tools=[look], max_iterations=1)
    flow = us.Workflow("w", [us.Task("t", agent, prompt="${item}", for_each="${items}")], max_parallel=1)

    stopped = incomplete(flow.run(parameters={"items": ["a", "b", "c"]}, system=another()))
    outcome = flow.resume(stopped.token, max_iterations=2, system=another())

    assert outcome.text == '["a0", "b2", "c0"]'
    assert looked == ["a", "b", "b", "c", "b"]


def test_all_items_of_a_task_that_stand_at_a_limit_go_on_together(another: Callable[[], us.ActorSystem]) -> None:
    looked, first_is_at_its_limit = list[str](), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        item = request.messages[0].text
        seen = sum(1 for message in request.messages for _ in message.tool_results)
        if item == "a" and seen == 1:
            first_is_at_its_limit.set()
        if item != "a":
            assert first_is_at_its_limit.wait(WAIT)
        looked.append(item)
        return calls("look", word="x") if seen < 2 else says(f"{item}{seen}")

    agent = us.Agent("each", model=FunctionModel(answer), tools=[look], max_iterations=1)
    flow = us.Workflow("w", [us.Task("t", agent, prompt="${item}", for_each="${items}")])

    stopped = incomplete(flow.run(parameters={"items": ["a", "b", "c"]}, system=another()))
    outcome = flow.resume(stopped.token, max_iterations=2, system=another())

    assert outcome.text == '["a2", "b2", "c2"]'
    assert sorted(looked) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


def test_an_item_that_asks_is_answered_before_another_one_goes_on_at_its_limit(
    another: Callable[[], us.ActorSystem],
) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        item, last = request.messages[0].text, request.messages[-1]
        if item == "asks":
            return says("__ask_user__: Which?" if len(request.messages) == 1 else f"took {last.text}")
        return (
            calls("look", word="x")
            if sum(1 for message in request.messages for _ in message.tool_results) < 2
            else says("ok")
        )

    agent = us.Agent("each", model=FunctionModel(answer), tools=[look], max_iterations=1)
    flow = us.Workflow("w", [us.Task("t", agent, prompt="${item}", for_each="${items}")])

    paused = needs_input(flow.run(parameters={"items": ["looks", "asks"]}, system=another()))
    stopped = incomplete(flow.resume(paused.token, "this", system=another()))
    outcome = flow.resume(stopped.token, max_iterations=2, system=another())

    assert outcome.text == '["ok", "took this"]'


# --- what is refused


@pytest.mark.parametrize(
    ("options", "error", "says_"),
    [
        ({"max_iterations": 0}, ValueError, "max_iterations can only be raised: it is 1, got 0"),
        ({"answer": "This"}, TypeError, "waits for a higher limit, not for an answer"),
    ],
)
def test_what_does_not_fit_leaves_the_token(
    options: dict[str, object], error: type[Exception], says_: str, another: Callable[[], us.ActorSystem]
) -> None:
    group = us.SequentialAgent("s", [Looker("b").agent])
    token = limit(group, another()).token

    with pytest.raises(error, match=says_):
        group.resume(token, system=another(), **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert group.resume(token, max_iterations=2, system=another()).text == "b looked 2 times"
    with pytest.raises(us.TokenUsed):
        group.resume(token, max_iterations=2, system=another())


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/runs.db"])
def test_the_last_text_is_that_of_the_first_incomplete_child_also_after_a_pause(
    url: str, deep: bool, tmp_path: Path
) -> None:
    def fail(_: us.ModelRequest) -> us.ModelTurn:
        raise ValueError("no")

    fails = us.Agent("fails", model=FunctionModel(fail))
    asks = us.Agent(
        "asks", model=ScriptedModel([calls("ask_user", question="Which?"), says("second")]), tools=[us.ask_user]
    )
    first = us.Agent("first", model=ScriptedModel([says("first")]))
    some: us.Runner[object] = us.Workflow("some", [us.Task("a", first), us.Task("b", fails, dependencies=["a"])])
    if deep:
        some = us.SequentialAgent("around", [some])
    other = us.Workflow("other", [us.Task("c", asks), us.Task("d", fails, dependencies=["c"])])
    group = us.ParallelAgent("group", [some, other])

    with us.ActorSystem("shop", store=url.format(tmp_path)) as system:
        waits = needs_input(group.run("go", system=system))
        assert incomplete(group.resume(waits.token, "This", system=system)).last_text == "first"
