"""Typed answers of runs: values of the output type, answers sent back, and validators that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, assert_type

import pydantic
import pytest
from typing_extensions import TypedDict

import understudy as us
from understudy.testing import ScriptedModel, calls, says


class Verdict(pydantic.BaseModel):
    """Whether a text is spam."""

    label: Literal["spam", "ham"]
    score: float


@dataclass
class Point:
    x: int


class Place(TypedDict):
    city: str


SPAM = '{"label": "spam", "score": 0.9}'


def judge(*turns: us.ModelTurn, max_output_retries: int = 2) -> us.Agent[Verdict]:
    return us.Agent("judge", model=ScriptedModel(turns), output_type=Verdict, max_output_retries=max_output_retries)


def look(sku: str) -> int:
    """Count the units of a product."""
    return 7


# --- values


def test_the_output_is_of_the_type_and_the_text_is_the_models() -> None:
    outcome = judge(says(f"So: {SPAM}")).run("Win a prize!")

    assert outcome.output == Verdict(label="spam", score=0.9)
    assert outcome.text == f"So: {SPAM}"


@pytest.mark.parametrize(
    ("agent", "value"),
    [
        (us.Agent("a", model=ScriptedModel([says('{"x": 1}')]), output_type=Point), Point(1)),
        (us.Agent("a", model=ScriptedModel([says('{"city": "Oslo"}')]), output_type=Place), {"city": "Oslo"}),
        (us.Agent("a", model=ScriptedModel([says('{"answer": [1]}')]), output_type=list[int]), [1]),
        (us.Agent("a", model=ScriptedModel([says('{"answer": null}')]), output_type=int | None), None),
        (us.Agent("a", model=ScriptedModel([says("Hello.")]), output_type=str), "Hello."),
        (us.Agent("a", model=ScriptedModel([says("Hello.")])), "Hello."),
    ],
)
def test_any_type_that_pydantic_knows_will_do(agent: us.Agent[object], value: object) -> None:
    assert agent.run("Hi").output == value


def test_a_final_call_is_no_tool_that_events_tell_of() -> None:
    model = ScriptedModel([calls("look", sku="A") + calls("final_answer", label="ham", score=0)])
    agent = us.Agent("judge", model=model, tools=[look], output_type=Verdict, output_mode="tool")

    events = list(agent.submit("Hi").events())

    assert [e for e in events if isinstance(e, us.ToolStarted | us.ToolFinished)] == []
    last = events[-1]
    assert isinstance(last, us.RunFinished)
    assert isinstance(last.outcome, us.Complete)
    assert last.outcome.output == Verdict(label="ham", score=0.0)


def test_a_tool_of_the_users_may_be_called_final_answer() -> None:
    def final_answer(n: int) -> str:
        """Not the one."""
        return "noted"

    model = ScriptedModel([calls("final_answer", n=1), calls("final_answer_2", x=2)])
    agent = us.Agent("a", model=model, tools=[final_answer], output_type=Point, output_mode="tool")

    outcome = agent.run("Hi")

    assert outcome.output == Point(2)
    assert outcome.messages[2].tool_results[0].content == "noted"


@pytest.mark.parametrize("mode", ["native", "tool"])
def test_a_rehearsal_makes_an_answer_that_fits(mode: Literal["native", "tool"]) -> None:
    agent = us.Agent("judge", model="rehearsal", tools=[look], output_type=Verdict, output_mode=mode)

    outcome = agent.run("Hi")

    assert outcome.output == Verdict(label="spam", score=1.0)
    assert [r.name for m in outcome.messages for r in m.tool_results] == ["look"]


def test_a_model_in_another_ones_place_need_not_know_how_that_would_answer() -> None:
    agent = us.Agent("judge", model="gemini:gemini-2.5-flash", tools=[look], output_type=Verdict)

    with agent.override(model=ScriptedModel([says(SPAM)])):
        assert agent.run("Hi").output.label == "spam"


# --- bad answers


def test_a_bad_answer_is_sent_back_and_a_good_one_taken() -> None:
    model = ScriptedModel([says("Spam."), says('{"label": "eggs", "score": 1}'), says(SPAM)])
    agent = us.Agent("judge", model=model, output_type=Verdict)

    outcome = agent.run("Win a prize!")

    assert (outcome.output.label, outcome.turns) == ("spam", 3)
    assert "not JSON" in model.requests[1].text
    assert "'label': input should be 'spam' or 'ham', got 'eggs'" in model.requests[2].text


def test_a_token_of_bad_answers_without_a_higher_limit_leads_back_to_the_error() -> None:
    agent = judge(says("a"), says(SPAM), max_output_retries=0)
    with pytest.raises(us.InvalidOutput) as first:
        agent.run("Hi")

    with pytest.raises(us.InvalidOutput) as second:
        agent.resume(first.value.token)

    assert second.value.token != first.value.token
    with pytest.raises(us.TokenUsed):
        agent.resume(first.value.token)
    assert agent.resume(second.value.token, max_output_retries=1).output.label == "spam"


# --- validators


class Picky(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        CHECKED.append(number)
        if number == 13:
            raise RuntimeError("unlucky")
        if number % 2:
            raise ValueError("must be even")
        return number


CHECKED: list[int] = []


def test_a_validator_sees_each_answer_once() -> None:
    CHECKED.clear()
    model = ScriptedModel([says('{"number": 3}'), says('{"number": 4}')])

    outcome = us.Agent("picky", model=model, output_type=Picky).run("Hi")

    assert outcome.output == Picky.model_construct(number=4)
    assert CHECKED == [3, 4]
    assert "must be even, got 3" in model.requests[1].text


def test_a_validator_that_fails_fails_the_agent_and_not_the_answer() -> None:
    model = ScriptedModel([says('{"number": 13}'), says('{"number": 4}')])

    with pytest.raises(us.AgentCrashed) as caught:
        us.Agent("picky", model=model, output_type=Picky).run("Hi")

    assert [str(cause) for cause in caught.value.causes] == ["unlucky"] * 3
    assert len(model.requests) == 1  # the turn was paid for, and is not asked for again


# --- criteria and callbacks


@pytest.mark.parametrize("mode", ["native", "tool"])
def test_a_criterion_judges_the_answer_before_the_type_does(mode: Literal["native", "tool"]) -> None:
    CHECKED.clear()
    judged: list[str] = []

    def enough(context: us.RunContext, text: str) -> bool:
        judged.append(text)
        return '"number": 3' not in text

    turns = [calls("final_answer", number=n) if mode == "tool" else says(f'{{"number": {n}}}') for n in (3, 5, 4)]
    agent = us.Agent("picky", model=ScriptedModel(turns), output_type=Picky, output_mode=mode, criteria=[enough])

    outcome = agent.run("Hi")

    assert outcome.output == Picky.model_construct(number=4)
    assert judged == [f'{{"number": {n}}}' for n in (3, 5, 4)]
    assert CHECKED == [5, 4]


class Override(us.AgentCallback):
    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[object] = []

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return us.OverrideResponse(self.text)

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        self.seen.append(outcome.output)
        return us.Continue()


def test_a_text_that_a_callback_gives_is_read_as_the_type_too() -> None:
    callback = Override(SPAM)
    agent = us.Agent("judge", model=ScriptedModel([says("x")]), output_type=Verdict, callbacks=[callback])

    assert agent.run("Hi").output == Verdict(label="spam", score=0.9)
    assert callback.seen == [Verdict(label="spam", score=0.9)]


def test_a_text_of_a_callback_that_does_not_fit_is_no_outcome_and_cannot_be_resumed() -> None:
    agent = us.Agent("judge", model=ScriptedModel([says("x")]), output_type=Verdict, callbacks=[Override("No.")])

    with pytest.raises(us.InvalidOutput, match="the answer is not JSON") as caught:
        agent.run("Hi")

    assert (caught.value.text, caught.value.token) == ("No.", "")


# --- by hand


def test_the_text_of_an_agent_without_output_type_is_its_output() -> None:
    checked = us.Agent("a", model="rehearsal").check_output("Hello.")

    assert (checked.value, checked.problem) == ("Hello.", "")


# --- definitions


class Opaque:
    pass


def test_a_type_without_json_schema_is_told_to_whoever_runs_the_agent() -> None:
    agent = us.Agent("judge", model="rehearsal", output_type=Opaque)

    with pytest.raises(TypeError, match="agent 'judge': output_type .*Opaque.* has no JSON Schema"):
        agent.submit("Hi")


def test_a_copy_keeps_the_output_type() -> None:
    agent = judge(says("a"), max_output_retries=1).replace(
        id="other", model=ScriptedModel([says(SPAM)]), max_output_retries=0
    )

    assert (agent.output_type, agent.max_output_retries) == (Verdict, 0)
    assert agent.run("Hi").output.label == "spam"


# --- types; what these tests claim is held by the type checkers


def test_type_checkers_know_what_a_run_of_an_agent_gives() -> None:
    script = [says(SPAM), says(SPAM), says(SPAM)]
    agent = us.Agent("judge", model=ScriptedModel(script), output_type=Verdict)

    verdict: Verdict = agent.run("Hi").output
    assert_type(agent, us.Agent[Verdict])
    assert_type(agent.run("Hi").output, Verdict)
    assert_type(agent.run("Hi").text, str)
    assert_type(agent.replace(max_turns=3), us.Agent[Verdict])
    assert_type(agent.check_output(SPAM).value, Verdict)

    assert verdict.label == "spam"


def test_type_checkers_know_every_form_of_a_type() -> None:
    name = "a"

    assert_type(us.Agent(name, model="rehearsal"), us.Agent[str])
    assert_type(us.Agent(name, model="rehearsal", output_type=str), us.Agent[str])
    assert_type(us.Agent(name, model="rehearsal", output_type=Point, max_turns=3), us.Agent[Point])
    assert_type(us.Agent(name, model="rehearsal", output_type=Place), us.Agent[Place])
    assert_type(us.Agent(name, model="rehearsal", output_type=list[int]), us.Agent[list[int]])
    assert_type(us.Agent(name, model="rehearsal", output_type=Literal["a", "b"]), us.Agent[Literal["a", "b"]])
    assert_type(us.Agent(name, model="rehearsal", output_type=int | str), us.Agent[int | str])
    assert_type(us.Agent(name, model="rehearsal", output_type=Point | None), us.Agent[Point | None])
    assert_type(us.Agent(name, model="rehearsal", output_type=Annotated[int, pydantic.Field(ge=1)]), us.Agent[int])

    agents: list[us.Agent[object]] = [us.Agent(name, model="rehearsal", output_type=Point)]  # covariant
    assert agents[0].output_type is Point
