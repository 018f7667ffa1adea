"""Runs that end when a text meets a criterion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.scripts import finished
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def look(sku: str) -> str:
    return "7"


def judged(*turns: us.ModelTurn, by: list[us.Criterion], **options: Any) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel(turns), tools=[look], criteria=by, **options)


def model_of(agent: us.Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def unfinished(outcome: us.Outcome) -> us.Incomplete:
    assert isinstance(outcome, us.Incomplete), outcome
    return outcome


def test_the_model_rehearsal_meets_the_agent_s_criteria() -> None:
    agent = us.Agent("clerk", model="rehearsal", tools=[look], criteria=[us.KeywordCriteria("DONE")])

    assert finished(agent.run("go")).completion_reason == "keyword 'DONE' found in response"


def test_the_reason_is_that_of_the_first_criterion_met_in_their_order() -> None:
    by: list[us.Criterion] = [us.KeywordCriteria("NOT"), us.StructuredOutputCriteria(), us.KeywordCriteria("DONE")]

    outcome = finished(judged(says('"DONE"'), by=by).run("go"))

    assert outcome.completion_reason == "structured output received"


def test_a_limit_of_continue_messages_can_only_be_raised() -> None:
    agent = judged(says("a"), says("b"), by=[us.KeywordCriteria("DONE")], max_continues=1)
    stopped = unfinished(agent.run("go"))

    with pytest.raises(ValueError, match="max_continues can only be raised"):
        agent.resume(stopped.token, max_continues=0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), ValueError, "no criterion was met after 1 continue messages: pass max_continues= above 1 to go on"),
        (("Go on.",), TypeError, "waits for a higher limit, not for an answer: pass max_continues=…"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_to_resume_an_incomplete_run_without_its_limit_raised_is_refused_and_the_token_stands(
    arguments: tuple[str, ...], error: type[Exception], message: str, *, stored: bool, tmp_path: Path
) -> None:
    agent = judged(says("a"), says("b"), says("DONE"), by=[us.KeywordCriteria("DONE")], max_continues=1)
    with us.ActorSystem("shop", store=f"sqlite:///{tmp_path}/runs.db" if stored else None) as system:
        token = unfinished(agent.run("go", system=system)).token

        with pytest.raises(error, match=message):
            agent.resume(token, *arguments, system=system)
        with pytest.raises(ValueError, match="pass max_continues= above 1"):  # not the limit that it stands at
            agent.resume(token, max_iterations=20, max_continues=1, system=system)

        assert finished(agent.resume(token, max_continues=2, system=system)).text == "DONE"


def test_rounds_and_continue_messages_that_reach_the_limit_make_the_run_complete() -> None:
    by: list[us.Criterion] = [us.KeywordCriteria("DONE"), us.MaxIterationsCriteria(3)]
    agent = judged(says("a"), calls("look", sku="A"), says("b"), says("c"), by=by)

    outcome = finished(agent.run("go"))

    assert (outcome.text, outcome.iterations, outcome.turns) == ("c", 1, 4)
    assert outcome.completion_reason == "max iterations (3) reached"


def test_the_criterion_caps_the_rounds_of_tool_calls_too() -> None:
    by: list[us.Criterion] = [us.KeywordCriteria("DONE"), us.MaxIterationsCriteria(2)]
    agent = us.Agent("clerk", model=FunctionModel(lambda request: calls("look", sku="A")), tools=[look], criteria=by)

    with pytest.raises(us.MaxIterationsExceeded) as caught:
        agent.run("go")

    assert caught.value.limit == 2


def test_alone_it_is_no_rule_for_when_a_run_is_complete() -> None:
    agent = judged(says("Hm."), by=[us.MaxIterationsCriteria(5)])

    outcome = finished(agent.run("go"))

    assert (outcome.text, outcome.completion_reason) == ("Hm.", "the model answered")


def test_a_function_may_be_a_criterion_and_sees_the_run() -> None:
    seen: list[tuple[str, str, object]] = []

    def long_enough(ctx: us.RunContext, text: str) -> bool:
        seen.append((ctx.agent_id, text, ctx.deps))
        return len(text) > 3

    outcome = finished(judged(says("Hm."), says("Seven."), by=[long_enough]).run("go", deps="shop"))

    assert outcome.completion_reason == "criterion 'long_enough' was met"
    assert seen == [("clerk", "Hm.", "shop"), ("clerk", "Seven.", "shop")]


def test_a_function_may_say_why_and_an_empty_reason_is_none() -> None:
    def seven(ctx: us.RunContext, text: str) -> str | None:
        return "it says seven" if "seven" in text else "" if "six" in text else None

    outcome = finished(judged(says("five"), says("six"), says("seven"), by=[seven]).run("go"))

    assert (outcome.completion_reason, outcome.turns) == ("it says seven", 3)


def test_a_criterion_that_fails_is_asked_again_and_the_model_is_not() -> None:
    verdicts: list[Exception | bool] = [LookupError("once"), True]

    def moody(ctx: us.RunContext, text: str) -> bool:
        verdict = verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    agent = judged(says("Seven."), by=[moody])

    assert finished(agent.run("go")).text == "Seven."
    assert len(model_of(agent).requests) == 1


def test_a_criterion_that_answers_neither_yes_nor_no_nor_why_fails_the_agent() -> None:
    def odd(ctx: us.RunContext, text: str) -> Any:
        return 7

    with pytest.raises(us.AgentCrashed) as caught:
        judged(says("Seven."), by=[odd]).run("go")

    assert str(caught.value.__cause__) == "criterion 'odd' must return True, False or a reason, got a value of type int"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"criteria": us.KeywordCriteria("DONE")}, TypeError, "criteria must be a list of criteria"),
        ({"criteria": ["DONE"]}, TypeError, "criteria must hold criteria or functions"),
        ({"criteria": [us.KeywordCriteria]}, TypeError, "criteria must hold criteria or functions"),
        ({"max_continues": -1}, ValueError, "max_continues must be at least 0"),
        ({"continue_message": " "}, ValueError, "continue_message must not be empty"),
        ({"continue_message": None}, TypeError, "continue_message must be a string"),
    ],
)
def test_what_cannot_be_a_criterion_is_refused_when_the_agent_is_made(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        us.Agent("clerk", model=ScriptedModel([]), **options)


def test_a_saved_run_of_an_agent_that_got_criteria_meanwhile_is_one_of_another_definition() -> None:
    plain = us.RunSpec.of(judged(by=[]))
    run = us.AgentRun(plain, "go")

    with pytest.raises(us.SpecChanged):
        us.AgentRun.from_json(run.to_json(), us.RunSpec.of(judged(by=[us.KeywordCriteria("DONE")])))
