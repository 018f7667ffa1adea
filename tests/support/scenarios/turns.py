"""Texts, rounds of tool calls, usage and questions."""

from __future__ import annotations

from tests.support.machines import answers, asked, asks, call, gives, said
from understudy.vocabulary.messages import ModelTurn, ReasoningPart, TextPart, ToolResult, Usage, says

from .cast import CLERK, clerk, met
from .scenario import Scenario

SIGNED = TextPart("", signature="proof")
BLOCKED = ModelTurn((call("a"), call("b", "find")), Usage(), "blocked", "UNEXPECTED_TOOL_CALL")
NOT_RUN = "Not run: the provider ended the turn with UNEXPECTED_TOOL_CALL."

ENDS = (
    Scenario(
        rule="the first text ends the run",
        agent=CLERK,
        turns=(says("Seven.", usage=Usage(3, 1, raw={"prompt": 3})),),
        steps="model > complete",
        reason="the model answered",
        rounds=0,
        usage=Usage(3, 1),
        history=(said(TextPart("Seven.")),),
    ),
    Scenario(
        rule="text parts are joined without a separator and reasoning is not text",
        agent=CLERK,
        turns=(ModelTurn((ReasoningPart("Hm."), TextPart("Sev"), TextPart("en."))),),
        steps="model > complete",
    ),
    *[
        Scenario(
            rule=f"an empty turn is no message but ends the run with an empty text: {len(parts)} parts",
            agent=CLERK,
            turns=(ModelTurn(parts),),
            steps="model > complete",
            text="",
            history=(),
        )
        for parts in ((), (TextPart(""),), (TextPart(""), TextPart("")))
    ],
    Scenario(
        rule="empty text with a signature is kept",
        agent=CLERK,
        turns=(ModelTurn((SIGNED,), dialect="google"),),
        steps="model > complete",
        text="",
        history=(said(SIGNED, dialect="google"),),
    ),
    Scenario(
        rule="a refusal is the text when there is no other",
        agent=CLERK,
        turns=(ModelTurn((), refusal="I will not.", raw_finish_reason="stop"),),
        steps="model > complete",
        text="I will not.",
        reason="the model refused",
        history=(said(TextPart("I will not.")),),
    ),
    Scenario(
        rule="an answer that was cut off says so",
        agent=CLERK,
        turns=(ModelTurn((TextPart("Sev"),), finish_reason="length", raw_finish_reason="max_tokens"),),
        steps="model > complete",
        text="Sev",
        reason="the model's answer was cut off at max_tokens",
    ),
    *[
        Scenario(
            rule=f"a turn that holds no whole answer fails the run: {turn.raw_finish_reason}, {len(turn.parts)} parts",
            agent=CLERK,
            turns=(turn,),
            steps="model > ContentBlocked" if turn.finish_reason == "blocked" else "model > BadReply",
            text=remedy,
            history=(said(*turn.parts),) if turn.parts else (),
        )
        for turn, remedy in (
            (ModelTurn((), finish_reason="length", raw_finish_reason="MAX_TOKENS"), "settings.max_tokens"),
            (ModelTurn((ReasoningPart("Hm"),), finish_reason="length"), "settings.max_tokens"),
            (ModelTurn((), finish_reason="blocked", raw_finish_reason="blocked:SAFETY"), "blocked:SAFETY"),
            (ModelTurn((), finish_reason="other", raw_finish_reason="network_error"), "network_error"),
            (ModelTurn((TextPart("Sev"),), finish_reason="other", raw_finish_reason="network"), "network"),
        )
    ],
    Scenario(
        rule="after a paused turn the model is asked to go on with it",
        agent=clerk(criteria=[met]),
        turns=(
            ModelTurn((TextPart("Let me see."),), Usage(3, 1), "paused", "pause_turn", dialect="anthropic"),
            says("Seven.", usage=Usage(4, 1)),
        ),
        met={"Seven.": "it is a number"},
        steps="model > model > complete",
        usage=Usage(7, 2),
        history=(said(TextPart("Let me see."), dialect="anthropic"), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="paused turns are bounded as all turns are",
        agent=clerk(max_turns=2),
        turns=(ModelTurn((), finish_reason="paused"),) * 2,
        steps="model > model > MaxIterationsExceeded",
        text="max_turns",
    ),
)

TOOLS = (
    Scenario(
        rule="tools run and their results go back to the model in call order",
        agent=CLERK,
        turns=(
            asks(
                call("b", "find"),
                call("a", sku="A-113"),
                before="Let me see.",
                usage=Usage(10, 2, cached_tokens=4, raw={"prompt": 10}),
            ),
            says("Seven.", usage=Usage(20, 3, reasoning_tokens=1, raw={"prompt": 20})),
        ),
        returns={"a": "7", "b": "none"},
        steps="model > tools a(sku=A-113) b > model > complete",
        rounds=1,
        usage=Usage(30, 5, cached_tokens=4, reasoning_tokens=1),
        history=(
            said(TextPart("Let me see."), call("b", "find"), call("a", sku="A-113")),
            answers(gives("b", "none", "find"), gives("a", "7")),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="tools run although the provider says that the turn stopped",
        agent=CLERK,
        turns=(ModelTurn((call("a"),), finish_reason="stop"), says("Seven.")),
        steps="model > tools a > model > complete",
    ),
    Scenario(
        # Gemini, generateContent, FinishReason: UNEXPECTED_TOOL_CALL comes with the calls that it is about.
        rule="of a blocked turn nothing runs and every call is answered",
        agent=CLERK,
        turns=(BLOCKED, says("Seven.")),
        steps="model > model > complete",
        results=(
            ToolResult("a", NOT_RUN, True, "not_run", "look"),
            ToolResult("b", NOT_RUN, True, "not_run", "find"),
        ),
    ),
    Scenario(
        rule="usage that no turn reported is none and not zero",
        agent=CLERK,
        turns=(asks(call("a")), says("Seven.")),
        steps="model > tools a > model > complete",
        usage=Usage(None, None, None, None, None),
    ),
)

QUESTIONS = (
    Scenario(
        rule="a question goes to a person and the answer to the model as a user's message",
        agent=CLERK,
        turns=(says("\n __ask_user__: Which city? "), says("Seven.")),
        answers=("Paris",),
        steps="model > asks Which city? > model > complete",
        history=(
            said(TextPart("\n __ask_user__: Which city? ")),
            asked("Paris"),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="a question without words is asked of nobody and the model is told",
        agent=CLERK,
        turns=(says("__ask_user__: \n"), says("Seven.")),
        steps="model > model > complete",
        history=(
            said(TextPart("__ask_user__: \n")),
            asked("'__ask_user__:' must be followed by a question. Ask it, or give your answer without this mark."),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="a run may ask more than once",
        agent=CLERK,
        turns=(says("__ask_user__: Which city?"), says("__ask_user__:When?"), says("Seven.")),
        answers=("Paris", "Now"),
        steps="model > asks Which city? > model > asks When? > model > complete",
    ),
    Scenario(
        rule="a mark in the middle of a text is no question",
        agent=CLERK,
        turns=(says("Say __ask_user__: to ask."),),
        steps="model > complete",
        text="Say __ask_user__: to ask.",
    ),
)

SCENARIOS = (*ENDS, *TOOLS, *QUESTIONS)
