"""Tools that fail: what the model reads, and what ends the run."""

from __future__ import annotations

from tests.support.machines import asks, call, gives
from understudy import Reject, Retry, RetryTurn, SkipCall
from understudy.vocabulary.messages import ToolCall, ToolResult, says

from .cast import CLERK, clerk, resolve
from .scenario import Scenario

RAISING = clerk(on_tool_error="raise", on_invalid_call=resolve)
SEVEN = says("Seven.")
NO_SHELF = LookupError("no such shelf")
UNKNOWN = asks(call("a", "lok"))
NO_JSON = asks(ToolCall("a", "look", bad_arguments="{"))

SCENARIOS = (
    Scenario(
        rule="the model reads what a tool raised and the other calls of the turn are left alone",
        agent=CLERK,
        turns=(asks(call("a"), call("b"), call("c")), SEVEN),
        returns={"b": NO_SHELF},
        steps="model > tools a b c > model > complete",
        results=(
            gives("a"),
            ToolResult("b", "look failed: LookupError: no such shelf", True, "raised", "look"),
            gives("c"),
        ),
    ),
    Scenario(
        rule="a failed call ends the run where the agent says so",
        agent=RAISING,
        turns=(asks(call("a")),),
        returns={"a": NO_SHELF},
        steps="model > tools a > ToolError",
        text="look failed: LookupError: no such shelf",
        error={"tool": "look", "call_id": "a"},
        results=(ToolResult("a", "look failed: LookupError: no such shelf", True, "raised", "look"),),
    ),
    Scenario(
        rule="what a tool says with Retry is for the model",
        agent=RAISING,
        turns=(asks(call("a"), call("b")), SEVEN),
        returns={"b": Retry("with a dash, please")},
        steps="model > tools a b > model > complete",
        results=(gives("a"), ToolResult("b", "with a dash, please", True, "retry", "look")),
    ),
    Scenario(
        rule="a person's no is for the model",
        agent=RAISING,
        turns=(asks(call("a", "refund")), SEVEN),
        answers=({"a": Reject("too much")},),
        steps="model > waits for a > model > complete",
        results=(ToolResult("a", "Rejected: too much", True, "rejected", "refund"),),
    ),
    Scenario(
        rule="a tool's own word that its errors end the run goes before the agent's",
        agent=CLERK,
        turns=(asks(call("a", "strict")),),
        returns={"a": NO_SHELF},
        steps="model > tools a > ToolError",
        text="strict failed",
    ),
    Scenario(
        rule="a tool's own word that its errors are results goes before the agent's",
        agent=RAISING,
        turns=(asks(call("a", "lenient")), SEVEN),
        returns={"a": NO_SHELF},
        steps="model > tools a > model > complete",
    ),
    *[
        Scenario(
            rule=f"a call that cannot be made ends the run: {name}",
            agent=RAISING,
            turns=(turn,),
            misfits={"a": "argument 'sku': input should be a valid string, got 7"},
            steps="model > ToolError",
            text="invalid call of",
            error={"call_id": "a"},
        )
        for name, turn in (
            ("unknown tool", UNKNOWN),
            ("no JSON", NO_JSON),
            ("arguments", asks(ToolCall("a", "look", {"sku": 7}))),
        )
    ],
    Scenario(
        rule="a call that cannot be made does not end the run where a function skips it",
        agent=RAISING,
        turns=(UNKNOWN, SEVEN),
        resolutions={"a": SkipCall("never mind")},
        steps="model > model > complete",
    ),
    Scenario(
        rule="a call that cannot be made does not end the run where a function has the turn tried again",
        agent=RAISING,
        turns=(NO_JSON, SEVEN),
        resolutions={"a": RetryTurn("once more")},
        steps="model > model > complete",
    ),
)
