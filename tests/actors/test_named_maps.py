"""A map with a name: a second call runs only what has no result, and hands the stored results out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import understudy as us
from tests.support.killing import Effects, worker
from tests.support.named_maps import Desk, asking, mapped, texts
from tests.support.scripts import finished, needs_input
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs in an SQLite store have no journal on Windows")


@pytest.fixture
def system(store: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store) as made:
        yield made
        made.stop(0.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_inputs_that_are_done_have_no_second_run(desk: Desk, store: str) -> None:
    first = mapped(desk.agent, ["a", "b", "c"], us.ActorSystem("shop", store=store))
    asked = sorted(desk.asked)
    second = mapped(desk.agent, ["a", "b", "c"], us.ActorSystem("shop", store=store))

    assert texts(first) == texts(second) == ["A", "B", "C"]
    assert sorted(desk.asked) == asked == ["a", "b", "c"]


def test_a_result_from_the_store_is_the_outcome_as_it_was(system: us.ActorSystem) -> None:
    @us.tool
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Mark."""
        ctx.session["word"] = word
        return "marked " * 10

    agent = worker("clerk", mark.replace(name="mark"), ["a"])
    (first,) = mapped(agent, ["go"], system, session={"shelf": 7})
    (second,) = mapped(agent, ["go"], system)

    assert isinstance(first, us.MapAnswer)
    assert first == second
    assert finished(first.outcome).session == {"shelf": 7, "word": "a"}
    assert len(first.outcome.messages) == 4


def test_names_are_apart_and_without_one_nothing_is_kept(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a"], system)
    mapped(desk.agent, ["a"], system, "weekly")
    list(desk.agent.map(["a"], system=system))

    assert desk.asked == ["a", "a", "a"]


def test_an_input_is_known_by_what_it_says_and_not_by_its_place(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a", "b", "c"], system)
    desk.asked.clear()

    assert texts(mapped(desk.agent, ["new", "c", "a"], system)) == ["NEW", "C", "A"]
    assert desk.asked == ["new"]


def test_equal_inputs_have_a_run_each(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a", "a"], system)
    assert desk.asked == ["a", "a"]

    mapped(desk.agent, ["a", "a", "a"], system)
    assert desk.asked == ["a", "a", "a"]


def test_parts_and_parameters_are_inputs_too(desk: Desk, system: us.ActorSystem) -> None:
    picture = us.ImagePart(url="https://example.org/a.png")
    brief = us.Workflow("brief", tasks=[us.Task("write", desk.agent, prompt="on ${topic}")])
    parts = [[us.TextPart("see"), picture], [us.TextPart("see")]]

    for _ in range(2):
        assert texts(mapped(desk.agent, parts, system)) == ["SEE", "SEE"]
        assert texts(mapped(brief, [{"topic": "tides"}, {"topic": "sand"}], system, "briefs")) == [
            "ON TIDES",
            "ON SAND",
        ]

    assert len(desk.asked) == 4


def test_inputs_that_failed_are_tried_again(desk: Desk, system: us.ActorSystem) -> None:
    desk.fails = {"b": us.AuthenticationError("no key", provider="p"), "c": us.RateLimited("later", provider="p")}
    first = mapped(desk.agent, ["a", "b", "c", 7], system)
    assert [type(each.error).__name__ for each in first if isinstance(each, us.MapFailure)] == [
        "AuthenticationError",
        "RateLimited",
        "TypeError",
    ]

    desk.fails, desk.asked = {}, []

    assert texts(mapped(desk.agent, ["a", "b", "c"], system)) == ["A", "B", "C"]
    assert sorted(desk.asked) == ["b", "c"]
    assert system.pending() == []


def test_after_an_error_that_may_pass_no_finished_call_is_made_again(system: us.ActorSystem, effects: Effects) -> None:
    agent, fails = worker("clerk", effects.tool(), ["x", "y"]), [True]
    assert isinstance(agent.model, us.FunctionModel)
    complete = agent.model.complete

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2 and fails:
            fails.pop()
            raise us.RateLimited("later", provider="p")
        return complete(request)

    agent = agent.replace(model=us.FunctionModel(next_turn))
    (failure,) = mapped(agent, ["go"], system)
    assert isinstance(failure, us.MapFailure)

    assert texts(mapped(agent, ["go"], system)) == ["did x; did y"]
    assert len(effects.noted) == 2
    with pytest.raises(us.TokenUsed):
        agent.resume(getattr(failure.error, "token", ""), system=system)


def test_a_run_at_a_limit_begins_anew_and_its_token_is_used_up(system: us.ActorSystem, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(), ["x", "y"])
    (failure,) = mapped(agent.replace(max_iterations=1), ["go"], system)
    assert isinstance(failure, us.MapFailure)
    assert isinstance(failure.error, us.MaxIterationsExceeded)

    assert len(mapped(agent.replace(max_iterations=1), ["go"], system)) == 1

    assert len(effects.noted) == 2
    with pytest.raises(us.TokenUsed):
        agent.resume(failure.error.token, system=system, adopt=True)


def test_a_run_that_waits_for_a_person_waits_with_the_same_token_until_it_is_resumed(store: str) -> None:
    agent, outcomes = asking(), list[us.NeedsInput]()
    for _ in range(2):
        (answer,) = mapped(agent, ["go"], us.ActorSystem("shop", store=store))
        assert isinstance(answer, us.MapAnswer)
        outcomes.append(needs_input(answer.outcome))
    assert outcomes[0] == outcomes[1]

    finished(agent.resume(outcomes[1].token, "the red one", system=us.ActorSystem("shop", store=store)))

    assert texts(mapped(agent, ["go"], us.ActorSystem("shop", store=store))) == ["the red one"]


@pytest.mark.parametrize("kind", ["inside of a run", "without a journal", "turn by turn"])
def test_the_result_of_a_resumed_run_is_kept_however_it_goes_on(kind: str, store: str) -> None:
    agent = asking()
    (answer,) = mapped(agent, ["go"], us.ActorSystem("shop", store=store))
    assert isinstance(answer, us.MapAnswer)
    token, system = needs_input(answer.outcome).token, us.ActorSystem("shop", store=store, journal=False)

    @us.tool
    def go_on() -> str:
        """Go on."""
        return finished(agent.resume(token, "red")).text

    if kind == "inside of a run":
        outer = us.Agent("outer", model=us.ScriptedModel([calls("go_on"), says("done")]), tools=[go_on])
        finished(outer.run("go", system=us.ActorSystem("shop", store=store)))
    elif kind == "without a journal":
        finished(agent.resume(token, "red", system=system))
    else:
        assert isinstance(agent.run_turn(token=token, answer="red", system=system), us.Complete)

    assert texts(mapped(agent, ["go"], us.ActorSystem("shop", store=store))) == ["red"]


def test_an_incomplete_run_stays_incomplete(system: us.ActorSystem) -> None:
    agent = us.Agent(
        "clerk",
        model=us.FunctionModel(lambda request: says("hm")),
        criteria=[us.KeywordCriteria("DONE")],
        max_continues=0,
    )

    first, second = (mapped(agent, ["go"], system)[0] for _ in range(2))

    assert isinstance(first, us.MapAnswer)
    assert isinstance(first.outcome, us.Incomplete)
    assert first == second
