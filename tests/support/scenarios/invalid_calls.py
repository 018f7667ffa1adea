"""Calls that cannot run as the model wrote them, and what a function says about them."""

from __future__ import annotations

from dataclasses import replace

from tests.support.machines import answers, asks, call, gives, said
from understudy import Approve, FailRun, RepairCall, RetryTurn, SkipCall, StopRun
from understudy.vocabulary.messages import TextPart, ToolCall, ToolErrorKind, ToolResult, says

from .cast import CLERK, clerk, refund, resolve
from .scenario import Scenario

SEVEN = says("Seven.")
TOOLS = "find, lenient, look, pay, refund, strict"
UNKNOWN = f"there is no tool 'lok' (did you mean 'look'?); the tools are: {TOOLS}"
MISFIT = "tool 'look': argument 'sku': input should be a valid string, got 7"
NO_JSON = "the arguments of 'look' must be a JSON object, got: {sku: "
CUT_OFF = (
    "the call of 'look' was cut off at the limit of tokens (max_tokens) and did not run, because its arguments may be incomplete; "
    "call it again, with less text in the turn"
)
NOT_RUN = "Not run: another tool call of the same turn was invalid."
RESOLVING = clerk(on_invalid_call=resolve, max_invalid_retries=1)


def fails(id: str, kind: ToolErrorKind, content: str, name: str = "look") -> ToolResult:
    return ToolResult(id, content, True, kind, name)


def misfit(id: str) -> ToolCall:
    return ToolCall(id, "look", {"sku": 7})


def broken(id: str) -> ToolCall:
    return ToolCall(id, "look", bad_arguments="{sku: ")


RESULTS = (
    Scenario(
        rule="the model reads what is wrong with each call and valid siblings run",
        agent=CLERK,
        turns=(asks(call("a", "lok"), call("b"), broken("c"), misfit("d")), SEVEN),
        misfits={"d": MISFIT},
        steps="model > tools b > model > complete",
        rounds=1,
        results=(
            fails("a", "unknown_tool", UNKNOWN, "lok"),
            gives("b"),
            fails("c", "bad_json", NO_JSON),
            fails("d", "bad_arguments", MISFIT),
        ),
    ),
    Scenario(
        rule="of a turn that was cut off neither the last call nor one without arguments runs",
        agent=CLERK,
        turns=(
            replace(
                asks(call("a"), call("b", sku="A-113"), call("c", sku="A")),
                finish_reason="length",
                raw_finish_reason=None,
            ),
            replace(asks(call("d", sku="A-113"), broken("e")), raw_finish_reason="MAX_TOKENS"),
            SEVEN,
        ),
        steps="model > tools b(sku=A-113) > model > tools d(sku=A-113) > model > complete",
        results=(
            fails("a", "bad_json", CUT_OFF),
            gives("b"),
            fails("c", "bad_json", CUT_OFF),
            gives("d"),
            fails("e", "bad_json", CUT_OFF + ", got: {sku: "),
        ),
    ),
    Scenario(
        rule="a person is not asked about a call that was cut off",
        agent=clerk(tools=[refund]),
        turns=(replace(asks(ToolCall("a", "refund", {"why": "to"})), finish_reason="length"), SEVEN),
        steps="model > model > complete",
    ),
    Scenario(
        rule="where every call is invalid nothing runs",
        agent=CLERK,
        turns=(asks(call("a", "lok"), broken("b")), SEVEN),
        steps="model > model > complete",
        results=(fails("a", "unknown_tool", UNKNOWN, "lok"), fails("b", "bad_json", NO_JSON)),
    ),
    Scenario(
        rule="a person is not asked to approve a call that cannot run",
        agent=clerk(tools=[refund]),
        turns=(asks(ToolCall("a", "refund", {"why": 7})), SEVEN),
        misfits={"a": "tool 'refund': argument 'why': input should be a valid string, got 7"},
        steps="model > model > complete",
    ),
    Scenario(
        rule="the rule of a tool is asked about a repaired call under its name",
        agent=RESOLVING,
        turns=(asks(call("a", "pey")), SEVEN),
        resolutions={"a": RepairCall(name="pay")},
        verdicts={"a": True},
        answers=({"a": Approve()},),
        steps="model > waits for a > tools a > model > complete",
    ),
)

RESOLUTIONS = (
    Scenario(
        rule="a turn that is tried again runs nothing and every call is answered",
        agent=RESOLVING,
        turns=(asks(call("a"), call("b", "lok"), broken("c")), SEVEN),
        resolutions={"b": RetryTurn("Spell it right.")},
        steps="model > model > complete",
        rounds=0,
        history=(
            said(call("a"), call("b", "lok"), broken("c")),
            answers(
                fails("a", "not_run", NOT_RUN),
                fails("b", "unknown_tool", "Spell it right.", "lok"),
                fails("c", "bad_json", NO_JSON),
            ),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="one turn costs one retry however many of its calls are invalid",
        agent=RESOLVING,
        turns=(asks(call("a", "lok"), call("b", "lok")), SEVEN),
        resolutions={"a": RetryTurn("First."), "b": RetryTurn("Second.")},
        steps="model > model > complete",
        results=(fails("a", "unknown_tool", "First.", "lok"), fails("b", "unknown_tool", "Second.", "lok")),
    ),
    *[
        Scenario(
            rule=f"retries are counted over the run and then fail it with every call answered: {budget}",
            agent=clerk(on_invalid_call=resolve, max_invalid_retries=budget),
            turns=(
                *[turn for n in range(budget) for turn in (asks(call(f"r{n}", "lok")), asks(call(f"c{n}")))],
                asks(call("last", "lok")),
            ),
            resolutions={id: RetryTurn("No.") for id in ("r0", "r1", "r2", "last")},
            steps=f"{''.join([f'model > model > tools c{n} > ' for n in range(budget)])}model > ToolError",
            text="'lok'",
            error={"tool": "lok", "call_id": "last"},
            results=(
                *[
                    result
                    for n in range(budget)
                    for result in (fails(f"r{n}", "unknown_tool", "No.", "lok"), gives(f"c{n}"))
                ],
                fails("last", "unknown_tool", "No.", "lok"),
            ),
        )
        for budget in (0, 1, 3)
    ],
    Scenario(
        # A provider pairs a result with its call by name too, so both must tell the same one.
        rule="a repaired call runs under its new name and the history shows it",
        agent=RESOLVING,
        turns=(asks(call("a", "lok", sku="A")), SEVEN),
        resolutions={"a": RepairCall(name="look")},
        steps="model > tools a(sku=A) > model > complete",
        history=(said(call("a", sku="A")), answers(gives("a")), said(TextPart("Seven."))),
    ),
    Scenario(
        rule="a repair may replace arguments",
        agent=RESOLVING,
        turns=(asks(broken("a"), misfit("b")), SEVEN),
        misfits={"b": MISFIT},
        resolutions={"a": RepairCall(arguments={"sku": "A"}), "b": RepairCall(arguments={"sku": "B"})},
        steps="model > tools a(sku=A) b(sku=B) > model > complete",
        history=(
            said(call("a", sku="A"), call("b", sku="B")),
            answers(gives("a"), gives("b")),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="a skipped call is answered without an error and valid siblings run",
        agent=RESOLVING,
        turns=(asks(call("a", "lok"), call("b")), SEVEN),
        resolutions={"a": SkipCall("Not needed.")},
        steps="model > tools b > model > complete",
        results=(ToolResult("a", "Not needed.", error_kind="skipped", name="lok"), gives("b")),
    ),
    Scenario(
        rule="a failed call ends the run with a tool error and every call is answered",
        agent=RESOLVING,
        turns=(asks(call("a"), call("b", "lok")),),
        resolutions={"b": FailRun()},
        steps="model > ToolError",
        text="'lok'",
        error={"tool": "lok", "call_id": "b"},
        results=(fails("a", "not_run", NOT_RUN), fails("b", "unknown_tool", UNKNOWN, "lok")),
    ),
    Scenario(
        rule="a stop ends the run as cancelled with its reason",
        agent=RESOLVING,
        turns=(asks(call("a", "lok")),),
        resolutions={"a": StopRun("Enough of this.")},
        steps="model > RunCancelled",
        text="Enough of this.",
    ),
    *[
        Scenario(
            rule=f"what ends the turn wins over repairs and skips: {type(last).__name__}",
            agent=RESOLVING,
            turns=(asks(call("a", "lok"), call("b", "fnd"), call("c", "fnd")), SEVEN),
            resolutions={"a": RepairCall(name="look"), "b": SkipCall("No."), "c": last},
            steps=f"model > {end}",
            text=text,
        )
        for last, end, text in (
            (FailRun(), "ToolError", "'fnd'"),
            (StopRun("Enough."), "RunCancelled", "Enough."),
            (RetryTurn("Again."), "model > complete", "Seven."),
        )
    ],
    Scenario(
        rule="several invalid calls of a turn are each treated as resolved",
        agent=RESOLVING,
        turns=(asks(call("a", "lok"), call("b", "lok"), call("c", "lok"), call("d", "find")), SEVEN),
        resolutions={"a": RepairCall(name="look"), "b": SkipCall("Not needed.")},
        steps="model > tools a d > model > complete",
        results=(
            gives("a"),
            ToolResult("b", "Not needed.", error_kind="skipped", name="lok"),
            fails("c", "unknown_tool", UNKNOWN, "lok"),
            gives("d", name="find"),
        ),
    ),
    Scenario(
        rule="a repaired call waits if its new tool needs approval",
        agent=RESOLVING,
        turns=(asks(call("a", "refnd")), SEVEN),
        resolutions={"a": RepairCall(name="refund")},
        answers=({"a": Approve()},),
        steps="model > waits for a > tools a > model > complete",
    ),
)

SCENARIOS = (*RESULTS, *RESOLUTIONS)
