"""Typed answers where they meet callbacks, criteria, sub-agents, stores, tapes and limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Literal

import pydantic
import pytest

import understudy as us
from tests.support.scripts import WAIT, needs_approval, results_of
from tests.support.tools import pay
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.answers.output_type import OutputMode

Systems = tuple[us.ActorSystem, us.ActorSystem]


class Verdict(pydantic.BaseModel):
    label: Literal["spam", "ham"]
    score: float = 0.5


class Colour(Enum):
    RED = "red"


@dataclass
class Paint:
    colour: Colour
    day: date
    verdicts: list[Verdict]


SPAM = '{"label": "spam", "score": 0.9}'
HAM = '{"label": "ham", "score": 0.1}'


def judge(*turns: us.ModelTurn) -> us.Agent[Verdict]:
    return us.Agent("judge", model=ScriptedModel(turns), output_type=Verdict)


def by_tool(*turns: us.ModelTurn) -> us.Agent[Verdict]:
    return us.Agent("judge", model=ScriptedModel(turns), output_type=Verdict, output_mode="tool")


class Once(us.AgentCallback):
    """Answers `action` to what the model says first, and notes what it was asked."""

    def __init__(self, action: us.CallbackAction) -> None:
        self._action = action
        self.outcomes: list[us.Outcome[object]] = []
        self.errors: list[BaseException] = []

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return self._action if ctx.turns == 0 else us.Continue()

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.CallbackAction:
        self.errors.append(error)
        return us.Continue()

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        self.outcomes.append(outcome)
        return us.Continue()


# --- callbacks


def test_a_text_that_a_callback_gives_is_read_as_the_output_type() -> None:
    noted = Once(us.OverrideResponse(HAM))

    outcome = judge(says(SPAM)).replace(callbacks=[noted]).run("Win!")

    assert (outcome.output, outcome.text) == (Verdict(label="ham", score=0.1), HAM)
    assert [each.output for each in noted.outcomes if isinstance(each, us.Complete)] == [outcome.output]


def test_a_text_of_a_callback_that_does_not_fit_ends_the_run_and_nothing_is_remembered() -> None:
    noted, memory = Once(us.OverrideResponse("No comment.")), us.InMemoryMemory()
    agent = judge(says(SPAM)).replace(callbacks=[noted], memory=memory)

    with pytest.raises(us.InvalidOutput) as caught:
        agent.run("Win!", conversation_id="c-42")

    assert (caught.value.text, caught.value.token) == ("No comment.", "")
    assert [type(error) for error in noted.errors] == [us.InvalidOutput]
    assert noted.outcomes == []
    assert list(memory.load(us.ConversationKey("understudy", "default", "c-42"))) == []


def test_a_turn_that_a_callback_rejects_is_not_read_and_counts_as_no_bad_answer() -> None:
    agent = judge(says("Hm."), says("Hm."), says("Hm."), says(SPAM))

    assert agent.replace(callbacks=[Once(us.RetryWithFeedback("JSON!"))]).run("Win!").output.label == "spam"


@pytest.mark.parametrize("make", [judge, by_tool])
@pytest.mark.parametrize("retry", [False, True])
def test_a_guardrail_sees_the_answer_however_it_is_given(retry: bool, make: Callable[..., us.Agent[Verdict]]) -> None:
    def no_spam(ctx: us.RunContext, text: str) -> str | None:
        return "not spam" if "spam" in text else None

    turns = [calls("final_answer", label=label) for label in ("spam", "ham")]
    if make is judge:
        turns = [says(SPAM), says(HAM)]
    agent = make(*turns).replace(callbacks=[us.OutputGuardrail("no spam", no_spam, retry=retry)])

    if retry:
        assert agent.run("Win!").output.label == "ham"
    else:
        with pytest.raises(us.CallbackAbort, match="not spam"):
            agent.run("Win!")


def test_what_a_guardrail_rejected_is_not_in_the_conversation() -> None:
    def no_spam(ctx: us.RunContext, text: str) -> str | None:
        return "not spam" if "spam" in text else None

    memory = us.InMemoryMemory()
    rail = us.OutputGuardrail("no spam", no_spam, retry=True)
    agent = judge(says(SPAM), says(HAM)).replace(callbacks=[rail], memory=memory)

    agent.run("Win!", conversation_id="c-42")

    stored = memory.load(us.ConversationKey("understudy", "default", "c-42"))
    assert [message.text for message in stored] == ["Win!", "not spam", HAM]


# --- criteria


@pytest.mark.parametrize("make", [judge, by_tool])
def test_only_an_answer_that_meets_a_criterion_is_read(make: Callable[..., us.Agent[Verdict]]) -> None:
    answers = [{"label": "ham"}, {"label": "spam", "score": "high"}, {"label": "spam"}]
    turns = [says(json.dumps(each)) for each in answers]
    if make is by_tool:
        turns = [calls("final_answer", **each) for each in answers]
    agent = make(*turns).replace(criteria=[us.KeywordCriteria("spam")])

    outcome = agent.run("Win!")

    assert outcome.output == Verdict(label="spam")
    assert outcome.turns == 3


# --- sub-agents


def test_the_run_around_it_reads_the_value_of_a_typed_sub_agent_as_json() -> None:
    painter = us.Agent(
        "painter",
        model=ScriptedModel([says(f'Here: {{"colour": "red", "day": "2024-02-29", "verdicts": [{SPAM}]}} ')]),
        output_type=Paint,
    )
    lead = us.Agent("lead", model=ScriptedModel([calls("painter", input="go"), says("ok")]), sub_agents=[painter])

    (result,) = results_of(lead.run("go"))

    assert json.loads(result.content) == {
        "colour": "red",
        "day": "2024-02-29",
        "verdicts": [{"label": "spam", "score": 0.9}],
    }


@pytest.mark.parametrize(
    ("form", "text", "content"),
    [
        (Verdict, '{"label": "ham"}', '{"label":"ham","score":0.5}'),
        (list[Verdict], '{"answer": [{"label": "ham"}]}', '[{"label":"ham","score":0.5}]'),
        (Colour, '{"answer": "red"}', "red"),
        (dict[str, date], '{"a": "2024-02-29"}', '{"a":"2024-02-29"}'),
        (int | None, '{"answer": null}', "null"),
        (str, "So it is.", "So it is."),
    ],
)
def test_a_typed_value_is_handed_on_as_json_and_text_as_it_is(form: type[object], text: str, content: str) -> None:
    below = us.Agent("below", model=ScriptedModel([says(text)]), output_type=form)
    lead = us.Agent("lead", model=ScriptedModel([calls("below", input="go"), says("ok")]), sub_agents=[below])

    (result,) = results_of(lead.run("go"))

    assert result.content == content


def test_a_typed_sub_agent_without_a_fitting_answer_is_a_call_that_failed() -> None:
    below = judge(says("a"), says("b"), says("c"))
    lead = us.Agent("lead", model=ScriptedModel([calls("judge", input="go"), says("ok")]), sub_agents=[below])

    (result,) = results_of(lead.run("go"))

    assert result.is_error and "InvalidOutput" in result.content


# --- pauses and limits


def paying(*turns: us.ModelTurn, mode: OutputMode = "auto") -> us.Agent[Verdict]:
    return us.Agent("judge", model=ScriptedModel(turns), output_type=Verdict, output_mode=mode, tools=[pay])


@pytest.mark.parametrize("mode", ["native", "tool"])
def test_a_run_that_goes_on_elsewhere_gives_a_value_of_the_type(
    mode: Literal["native", "tool"], systems: Systems
) -> None:
    here, there = systems
    last = says(SPAM) if mode == "native" else calls("final_answer", label="spam", score=0.9)
    agent = paying(calls("pay", cents=1), last, mode=mode)

    paused = needs_approval(agent.run("Win!", system=here))
    outcome = agent.resume(paused.token, us.Approve(), system=there)

    assert outcome.output == Verdict(label="spam", score=0.9)


def test_an_answer_that_never_fits_is_tried_again_elsewhere(systems: Systems) -> None:
    here, there = systems
    agent = judge(says("a"), says("b"), says("c"), says(SPAM))

    with pytest.raises(us.InvalidOutput) as caught:
        agent.run("Win!", system=here)
    outcome = agent.resume(caught.value.token, max_output_retries=3, system=there)

    assert outcome.output.label == "spam"
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("rule", ["result", "raise"])
def test_a_final_answer_beside_a_call_that_waits_ends_the_run_and_nobody_is_asked(
    rule: Literal["result", "raise"],
) -> None:
    asked: list[str] = []

    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            asked.append(call.name)
            return us.Continue()

    agent = paying(calls("pay", cents=1) + calls("final_answer", label="ham"), mode="tool")

    outcome = agent.replace(callbacks=[Guard()], on_tool_error=rule, max_iterations=0).run("Win!")

    assert outcome.output == Verdict(label="ham")
    assert [result.error_kind for message in outcome.messages for result in message.tool_results] == ["not_run", ""]
    assert (asked, outcome.iterations) == ([], 0)


def test_a_bad_final_answer_is_tried_again_also_where_errors_of_tools_end_runs() -> None:
    agent = by_tool(calls("final_answer", label="eggs"), calls("final_answer", label="ham"))

    assert agent.replace(on_tool_error="raise", on_invalid_call="fail").run("Win!").output.label == "ham"


# --- events, tapes, prices


def test_the_last_event_has_the_value() -> None:
    handle = judge(says("Hm."), says(SPAM)).submit("Win!")
    handle.result(WAIT)
    last = list(handle.events())[-1]

    assert isinstance(last, us.RunFinished) and isinstance(last.outcome, us.Complete)
    assert last.outcome.output == Verdict(label="spam", score=0.9)


@pytest.mark.parametrize("make", [judge, by_tool])
def test_a_typed_run_is_replayed_to_the_same_value(make: Callable[..., us.Agent[Verdict]], tmp_path: Path) -> None:
    turns = [says("Hm."), says(SPAM)] if make is judge else [calls("final_answer"), calls("final_answer", label="ham")]
    agent = make(*turns)

    with us.Recorder(tmp_path / "tape.jsonl") as recorder, agent.override(model=recorder.record(agent.model)):
        first = agent.run("Win!")
    with agent.override(model=us.Replay(tmp_path / "tape.jsonl")):
        second = agent.run("Win!")

    assert (second.output, second.text, second.turns) == (first.output, first.text, first.turns)


def test_an_agent_made_with_a_recorded_model_is_asked_and_priced_as_that_model(tmp_path: Path) -> None:
    old = "openai:gpt-4"  # one that its provider cannot hold to a schema
    with us.Recorder(tmp_path / "tape.jsonl") as recorder:
        plain = us.Agent("judge", model=old, output_type=Verdict, tools=[pay])
        recorded = us.Agent("judge", model=recorder.record(old), output_type=Verdict, tools=[pay])
        limited = us.Agent("a", model=recorder.record("openai:gpt-4o"), budget=us.Budget(cost_usd=1.0))

    assert us.RunSpec.of(recorded).output == us.RunSpec.of(plain).output
    assert us.RunSpec.of(limited).priced_as == "openai:gpt-4o"
