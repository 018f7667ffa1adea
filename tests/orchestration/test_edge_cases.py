"""Edge cases of other agents' loops, where no test would have failed: each is named after what must not happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.support.machines import asks, call, completed, gives, make_spec, model_step, reloaded, tool_ids
from understudy.errors import CallbackAbort, MaxIterationsExceeded, ToolError
from understudy.orchestration import Agent, AgentRun, CallModel, FailRun, RetryTurn, SkipCall
from understudy.orchestration.agent.rulings import Ruling
from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.messages import ModelTurn, TextPart, ToolSpec, says
from understudy.vocabulary.runs.callbacks import RetryWithFeedback

LOOK = make_spec("look", "find")


def test_limits_that_nobody_set_do_not_move() -> None:
    agent = Agent("clerk", model="rehearsal")

    assert (agent.max_iterations, agent.max_turns, agent.max_continues) == (10, 50, 3)
    assert (agent.max_invalid_retries, agent.max_output_retries) == (3, 2)
    assert agent.run_spec.max_rejections == 8


def test_what_was_used_up_is_not_given_back_by_saving() -> None:
    run = AgentRun(make_spec("look", criteria=True), "go")
    run.model_response(asks(call("a", "lok")), resolutions={0: RetryTurn("look, not lok")})
    run.model_response(asks(call("b")))
    model_after(run)
    run.model_response(says("half done"))
    run.turn_ruled(says("rude"), Ruling("polite", RetryWithFeedback("be polite")))
    state = run.state

    assert (state.turns, state.iterations, state.invalid_retries, state.continues, state.rejections) == (4, 1, 1, 1, 1)
    assert reloaded(run).state == state


def model_after(run: AgentRun) -> None:
    """Answer the pending calls, so that the model is next."""
    run.next_step()
    run.tool_results([gives(id) for id in tool_ids(run)])
    model_step(run)


@pytest.mark.parametrize("kind", ["invalid retries", "rejections", "continues", "turns"])
def test_a_run_that_is_saved_between_tries_is_not_tried_for_ever(kind: str) -> None:
    spec = replace(make_spec("look", max_invalid_retries=2, max_continues=2), max_rejections=2)
    run = AgentRun(replace(spec, criteria=kind == "continues", max_turns=3 if kind == "turns" else 50), "go")

    def fail_once() -> None:
        match kind:
            case "invalid retries":
                run.model_response(asks(call("a", "lok")), resolutions={0: RetryTurn("again")})
            case "rejections":
                run.turn_ruled(says("rude"), Ruling("polite", RetryWithFeedback("again")))
            case "continues":
                run.model_response(says("half done"))
            case _:
                run.model_response(asks(call("a")))
                model_after(run)

    for _ in range(2):
        run.next_step()
        fail_once()
        run = reloaded(run)
    run.next_step()
    if kind == "turns":
        run.model_response(asks(call("a")))
        run.next_step()
        run.tool_results([gives("a")])
        with pytest.raises(MaxIterationsExceeded):
            run.next_step()
        return
    fail_once()
    if kind == "continues":
        assert run.at_limit()
    else:
        with pytest.raises((ToolError, CallbackAbort)):
            run.next_step()


def test_a_skipped_call_under_tool_choice_none_runs_nothing_and_stays_not_without_an_answer() -> None:
    run = AgentRun(make_spec("look", tool_choice="none"), "go")
    run.next_step()

    run.model_response(asks(call("a"), call("b")), resolutions={0: SkipCall("not now"), 1: SkipCall("nor this")})

    step = model_step(run)
    assert [(r.call_id, r.content) for r in step.request.tool_results] == [("a", "not now"), ("b", "nor this")]


def test_skips_of_all_calls_do_not_end_in_a_step_without_calls() -> None:
    run = AgentRun(LOOK, "go")
    run.next_step()

    run.model_response(asks(call("", "lok"), call("", "lok")), resolutions={0: SkipCall("one"), 1: SkipCall("two")})

    assert isinstance(run.next_step(), CallModel)
    assert [r.content for r in model_step(run).request.tool_results] == ["one", "two"]


def test_what_a_turn_said_that_was_tried_again_is_not_in_the_answer() -> None:
    run = AgentRun(replace(LOOK, criteria=True), "go")
    run.model_response(asks(call("a", "lok"), before="I look."), resolutions={0: RetryTurn("again")})
    run.model_response(says("Half done."))
    run.turn_ruled(says("Rude."), Ruling("polite", RetryWithFeedback("again")))
    run.model_response(asks(call("b"), before="I look once more."))
    model_after(run)
    run.model_response(says("Done."), met="done")

    assert completed(run).text == "Done."


def test_a_call_that_failed_does_not_come_back_to_life_by_saving() -> None:
    spec = make_spec("look", "pay", approvals={"pay": True})
    run = AgentRun(spec, "go")
    run.model_response(asks(call("a", "lok"), call("b", "pay"), call("c")))
    run.next_step()
    run.tool_results([gives("c")])

    again = reloaded(run)

    assert again.state.round is not None
    assert sorted(again.state.round.results) == ["a", "c"]
    assert again.next_step() == run.next_step()


@pytest.mark.parametrize("wrong", ["text", None, TextPart("a"), call("a"), {"call_id": "a"}], ids=repr)
def test_what_is_no_result_is_refused_and_the_right_one_is_taken_after_it(wrong: Any) -> None:
    run = AgentRun(LOOK, "go")
    run.model_response(asks(call("a"), call("b")))
    run.next_step()
    before = run.to_json()

    with pytest.raises(TypeError, match="ToolResult"):
        run.tool_results([gives("a"), wrong])

    assert run.to_json() == before
    run.tool_results([gives("a"), gives("b")])
    assert isinstance(run.next_step(), CallModel)


def test_tools_that_a_model_is_told_of_are_not_left_out_of_a_guess() -> None:
    described = ToolSpec("look", "x" * 396, {})
    turn = ModelTurn((TextPart("yyyy"),))
    counts: list[int | None] = []
    for tools in ((), (described,)):
        run = AgentRun(replace(LOOK, tools=tools, system="", budget=Budget(total_tokens=10_000)), "z" * 4)
        run.next_step()
        run.model_response(turn)
        counts.append(run.usage.input_tokens)

    bare, told = cast("list[int]", counts)
    assert bare == 1
    assert told - bare >= 100


def test_a_failed_run_leaves_no_call_without_an_answer() -> None:
    run = AgentRun(LOOK, "go")
    run.next_step()
    run.model_response(asks(call("a"), call("b", "lok")), resolutions={1: FailRun()})

    with pytest.raises(ToolError):
        run.next_step()
    results = [result.call_id for message in run.messages for result in message.tool_results]
    assert results == ["a", "b"]
