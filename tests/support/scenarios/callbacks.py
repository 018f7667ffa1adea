"""What a callback's decisions do to a turn, to its calls and to their results."""

from __future__ import annotations

from tests.support.machines import answers, asked, asks, call, gives, said
from understudy import (
    Abort,
    Approve,
    Block,
    OverrideResponse,
    Reject,
    RequireApproval,
    RetryWithFeedback,
    RewriteArguments,
    RewriteResult,
    Skip,
)
from understudy.vocabulary.messages import TextPart, ToolErrorKind, ToolResult, Usage, says

from .cast import Guard, clerk, met
from .scenario import Scenario

GUARDED = clerk(callbacks=[Guard()])
SEVEN = says("Seven.")
CALLS = asks(call("a"), call("b"), before="Let me see.", usage=Usage(10, 5))
NOT_RUN = "Not run: a callback ended the run."


def fails(id: str, kind: ToolErrorKind, content: str, name: str = "look") -> ToolResult:
    return ToolResult(id, content, True, kind, name)


TURNS = (
    Scenario(
        rule="an overridden turn ends the run with the text and leaves none of its calls behind",
        agent=GUARDED,
        turns=(CALLS,),
        after_model={"Let me see.": OverrideResponse("No comment.")},
        steps="model > complete",
        text="No comment.",
        reason="callback 'Guard' gave the text",
        rounds=0,
        usage=Usage(10, 5),
        history=(said(TextPart("No comment.")),),
    ),
    Scenario(
        rule="a text of a callback's ends the run whatever the criteria say",
        agent=clerk(callbacks=[Guard()], criteria=[met]),
        turns=(SEVEN,),
        after_model={"Seven.": OverrideResponse("No comment.")},
        steps="model > complete",
        text="No comment.",
    ),
    Scenario(
        rule="a rejected turn is not in the history but counts",
        agent=clerk(callbacks=[Guard()], max_turns=2),
        turns=(says("You fool.", usage=Usage(10, 5)), says("Seven.", usage=Usage(1, 1))),
        after_model={"You fool.": RetryWithFeedback("Be kind.")},
        steps="model > model > complete",
        usage=Usage(11, 6),
        history=(asked("Be kind."), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="rejected turns are bounded as all turns are",
        agent=clerk(callbacks=[Guard()], max_turns=2),
        turns=(says("You fool."), says("You fool.")),
        after_model={"You fool.": RetryWithFeedback("Be kind.")},
        steps="model > model > MaxIterationsExceeded",
        text="max_turns",
        history=(asked("Be kind."), asked("Be kind.")),
    ),
    Scenario(
        rule="an aborted turn is not in the history",
        agent=GUARDED,
        turns=(CALLS,),
        after_model={"Let me see.": Abort("It leaks.")},
        steps="model > CallbackAbort",
        text="It leaks.",
        error={"callback": "Guard"},
        history=(),
    ),
)

TOOL_CALLS = (
    Scenario(
        rule="a blocked call does not run and its siblings do",
        agent=GUARDED,
        turns=(CALLS, SEVEN),
        before_tool={"a": Block("not on Sundays")},
        steps="model > tools b > model > complete",
        results=(fails("a", "blocked", "Blocked: not on Sundays"), gives("b")),
    ),
    Scenario(
        rule="a call that a callback skips is answered without an error",
        agent=GUARDED,
        turns=(CALLS, SEVEN),
        before_tool={"a": Skip("7")},
        steps="model > tools b > model > complete",
        results=(ToolResult("a", "7", error_kind="skipped", name="look"), gives("b")),
    ),
    Scenario(
        rule="a blocked call does not wait for a person",
        agent=GUARDED,
        turns=(asks(call("a", "refund"), call("b", "refund")), SEVEN),
        before_tool={"a": Block("Never.")},
        answers=({"b": Reject("No.")},),
        steps="model > waits for b > model > complete",
        results=(fails("a", "blocked", "Blocked: Never.", "refund"), fails("b", "rejected", "Rejected: No.", "refund")),
    ),
    Scenario(
        rule="rewritten arguments run and the history keeps what the model wrote",
        agent=GUARDED,
        turns=(asks(call("a")), SEVEN),
        before_tool={"a": RewriteArguments({"sku": "A-113"})},
        steps="model > tools a(sku=A-113) > model > complete",
        history=(said(call("a")), answers(gives("a")), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="a callback can make a call wait for a person and approval counts as given",
        agent=GUARDED,
        turns=(CALLS, SEVEN),
        before_tool={"a": RequireApproval("Much.")},
        answers=({"a": Approve({"sku": "B"})},),
        steps="model > tools b > waits for a > tools a(sku=B) > model > complete",
        results=(
            gives("a", 'A person changed the arguments of this call to {"sku": "B"}\nresult of a'),
            gives("b"),
        ),
    ),
    Scenario(
        rule="a rewritten call is still one that a person must approve",
        agent=GUARDED,
        turns=(asks(call("a", "refund")), SEVEN),
        before_tool={"a": RewriteArguments({"cents": 5})},
        answers=({"a": Approve()},),
        steps="model > waits for a > tools a(cents=5) > model > complete",
    ),
    Scenario(
        rule="a callback's abort before a call answers every call",
        agent=GUARDED,
        turns=(CALLS,),
        before_tool={"a": Skip("7"), "b": Abort("Enough.")},
        steps="model > CallbackAbort",
        text="Enough.",
        results=(ToolResult("a", "7", error_kind="skipped", name="look"), fails("b", "not_run", NOT_RUN)),
    ),
    Scenario(
        rule="a callback's text before a call answers every call and takes the normal end",
        agent=GUARDED,
        turns=(CALLS,),
        before_tool={"a": Skip("7"), "b": OverrideResponse("Closed.")},
        steps="model > complete",
        text="Closed.",
        results=(ToolResult("a", "7", error_kind="skipped", name="look"), fails("b", "not_run", NOT_RUN)),
    ),
)

RESULTS = (
    Scenario(
        rule="a rewritten result is the result that the model reads",
        agent=GUARDED,
        turns=(CALLS, SEVEN),
        after_tool={"a": RewriteResult("***")},
        steps="model > tools a b > model > complete",
        results=(gives("a", "***"), gives("b")),
    ),
    Scenario(
        rule="a callback's abort after a call keeps all results in the history",
        agent=GUARDED,
        turns=(CALLS,),
        after_tool={"a": RewriteResult("***"), "b": Abort("It leaks.")},
        steps="model > tools a b > CallbackAbort",
        text="It leaks.",
        results=(gives("a", "***"), gives("b")),
    ),
    Scenario(
        rule="a callback's text about a result keeps the results and takes the normal end",
        agent=GUARDED,
        turns=(CALLS,),
        after_tool={"a": OverrideResponse("Closed.")},
        steps="model > tools a b > complete",
        text="Closed.",
        results=(gives("a"), gives("b")),
    ),
)

SCENARIOS = (*TURNS, *TOOL_CALLS, *RESULTS)
