"""Answers that must fit a type: what ends the run, and what goes back to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import understudy as us
from tests.support.machines import answers, asks, call, gives, said
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult, says

from .cast import ScenarioModel, look, met, resolve
from .scenario import Scenario


@dataclass
class Number:
    n: int


def typed(
    mode: Literal["native", "tool"] = "native", retries: int = 2, criteria: tuple[us.Criterion, ...] = ()
) -> us.Agent[Number]:
    return us.Agent(
        "clerk",
        model=ScenarioModel(),
        tools=[look],
        output_type=Number,
        output_mode=mode,
        max_output_retries=retries,
        criteria=criteria,
        continue_message="And?",
        max_continues=1,
    )


NATIVE, BY_TOOL = typed(), typed("tool")
GOOD = says('{"n": 1}')
TAKEN = ToolResult("f", "Taken as the final answer.", name="final_answer")
NOT_RUN = "Not run: the final answer was given in the same turn."


def final(id: str = "f", n: int | str = 1) -> ToolCall:
    return ToolCall(id, "final_answer", {"n": n})


ANSWERS = (
    Scenario(
        rule="an answer that fits ends the run",
        agent=NATIVE,
        turns=(GOOD,),
        steps="model > complete",
        text='{"n": 1}',
        output=Number(1),
        reason="the model answered",
    ),
    Scenario(
        rule="a final call ends the run after the tools, and is answered",
        agent=BY_TOOL,
        turns=(asks(call("a")), asks(final())),
        steps="model > tools a > model > complete",
        text='{"n": 1}',
        output=Number(1),
        rounds=1,
        history=(said(call("a")), answers(gives("a")), said(final()), answers(TAKEN)),
    ),
    Scenario(
        rule="calls beside the final one are not run and all are answered in call order",
        agent=BY_TOOL,
        turns=(asks(call("a"), final(), call("b", "other"), final("g")),),
        steps="model > complete",
        text='{"n": 1}',
        rounds=0,
        results=(
            ToolResult("a", NOT_RUN, True, "not_run", "look"),
            TAKEN,
            ToolResult("b", NOT_RUN, True, "not_run", "other"),
            ToolResult("g", NOT_RUN, True, "not_run", "final_answer"),
        ),
    ),
    Scenario(
        rule="a text that fits is an answer also where a tool was asked for",
        agent=BY_TOOL,
        turns=(GOOD,),
        steps="model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="a question to a person is no bad answer",
        agent=NATIVE,
        turns=(says("__ask_user__: which?"), GOOD),
        answers=("this",),
        steps="model > asks which? > model > complete",
        text='{"n": 1}',
        output=Number(1),
    ),
)

BAD_ANSWERS = (
    Scenario(
        rule="a bad answer goes back and a good one is taken",
        agent=NATIVE,
        turns=(says("One."), says(""), GOOD),
        steps="model > model > model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="a bad final call goes back and a good one is taken",
        agent=BY_TOOL,
        turns=(asks(final(n="x")), asks(final())),
        steps="model > model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="calls beside a bad final call are not run and the model is told that it may call again",
        agent=BY_TOOL,
        turns=(asks(call("a"), final(n="x")), asks(call("b")), asks(final())),
        steps="model > model > tools b > model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="a rule for invalid calls is not asked about a final call",
        agent=typed("tool").replace(on_invalid_call=resolve),
        turns=(asks(ToolCall("f", "final_answer", bad_arguments='{"n"')), asks(final())),
        resolutions={"f": us.FailRun()},
        steps="model > model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="answers that never fit end the run, and a higher limit lets the model try again",
        agent=typed(retries=1),
        turns=(says("One."), says("Two."), says("Three."), GOOD),
        answers=({"max_output_retries": 2}, {"max_output_retries": 3}),
        steps="model > model > InvalidOutput > model > InvalidOutput > model > complete",
        text='{"n": 1}',
        output=Number(1),
    ),
    Scenario(
        rule="an answer that is whole though the model was cut off is taken",
        agent=NATIVE,
        turns=(ModelTurn(GOOD.parts, finish_reason="length", raw_finish_reason="length"),),
        steps="model > complete",
        text='{"n": 1}',
    ),
    Scenario(
        rule="a refusal is no answer and is not asked for again",
        agent=NATIVE,
        turns=(ModelTurn((), refusal="I can't help with that."),),
        steps="model > InvalidOutput",
        text="the model refused: I can't help with that.",
        error={"text": "I can't help with that.", "problems": ("the model refused: I can't help with that.",)},
    ),
)

CRITERIA = (
    Scenario(
        rule="criteria are judged before the type",
        agent=typed(criteria=(met,)),
        turns=(says("Not yet."), says("DONE"), GOOD),
        met={"DONE": "keyword", '{"n": 1}': "keyword"},
        steps="model > model > model > complete",
        text='{"n": 1}',
        reason="keyword",
    ),
)

SCENARIOS = (*ANSWERS, *BAD_ANSWERS, *CRITERIA)
