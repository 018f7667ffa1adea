"""Calls that a person must agree to: who waits, and what becomes of them."""

from __future__ import annotations

from tests.support.machines import answers, asks, call, gives, said
from understudy import Approve, Reject
from understudy.vocabulary.messages import TextPart, ToolResult, says

from .cast import CLERK, clerk
from .scenario import Scenario

SEVEN = says("Seven.")
EDITED = 'A person changed the arguments of this call to {"cents": 5}\nresult of a'


def rejected(id: str, content: str) -> ToolResult:
    return ToolResult(id, content, True, "rejected", "refund")


SCENARIOS = (
    Scenario(
        rule="calls that need no approval run first and the others wait together, and results stand in call order",
        agent=CLERK,
        turns=(asks(call("a", "refund"), call("b"), call("c", "refund"), call("d", "find")), SEVEN),
        answers=({"a": Approve(), "c": Approve()},),
        steps="model > tools b d > waits for a c > tools a c > model > complete",
        rounds=1,
        results=(gives("a", name="refund"), gives("b"), gives("c", name="refund"), gives("d", name="find")),
    ),
    Scenario(
        rule="decisions may come in part and what was approved runs before the rest is asked again",
        agent=CLERK,
        turns=(asks(call("a", "refund"), call("b", "refund"), call("c", "refund")), SEVEN),
        answers=({"b": Approve()}, {"c": Reject("too much")}, {"a": Reject()}),
        steps="model > waits for a b c > tools b > waits for a c > waits for a > model > complete",
        results=(
            rejected("a", "Rejected: a person decided that this call must not run"),
            gives("b", name="refund"),
            rejected("c", "Rejected: too much"),
        ),
    ),
    Scenario(
        rule="a person may change the arguments and what the model said stays said and its result says so",
        agent=CLERK,
        turns=(asks(call("a", "refund")), SEVEN),
        answers=({"a": Approve(arguments={"cents": 5})},),
        steps="model > waits for a > tools a(cents=5) > model > complete",
        history=(
            said(call("a", "refund")),
            answers(gives("a", EDITED, name="refund")),
            said(TextPart("Seven.")),
        ),
    ),
    Scenario(
        rule="of arguments that a person gives as they were the model is told nothing",
        agent=CLERK,
        turns=(asks(call("a", "refund", cents="5"), call("b", "refund")), SEVEN),
        answers=({"a": Approve(arguments={"cents": "5"}), "b": Approve()},),
        steps="model > waits for a b > tools a(cents=5) b > model > complete",
        results=(gives("a", name="refund"), gives("b", name="refund")),
    ),
    Scenario(
        rule="where a function decides its verdict says which calls wait",
        agent=CLERK,
        turns=(asks(call("a", "pay"), call("b"), call("c", "pay")), SEVEN),
        verdicts={"a": False, "c": True},
        answers=({"c": Approve()},),
        steps="model > tools a b > waits for c > tools c > model > complete",
    ),
    Scenario(
        rule="a round that only waits counts and is refused beyond the limit",
        agent=clerk(max_iterations=0),
        turns=(asks(call("a", "refund")), SEVEN),
        answers=({"max_iterations": 1}, {"a": Approve()}),
        steps="model > MaxIterationsExceeded > waits for a > tools a > model > complete",
    ),
)
