"""Which tools can be transactional."""

from __future__ import annotations

from typing import Any

import pytest

import understudy as us


def plain(ctx: us.ToolContext, sku: str) -> str:
    """Book."""
    return sku


async def waits(ctx: us.ToolContext) -> str:
    """Book."""
    return ""


class Waiter:
    async def __call__(self, ctx: us.ToolContext) -> str:
        """Book."""
        return ""


def without_context(sku: str) -> str:
    """Book."""
    return sku


class Shop(us.Toolset):
    @us.tool(transactional=True, transaction_timeout=2)
    def book(self, ctx: us.ToolContext) -> str:
        """Book."""
        return ""


def test_a_tool_is_transactional_for_a_second_unless_it_says_otherwise() -> None:
    made = us.tool(transactional=True)(plain)

    assert (us.Tool(plain).transactional, made.transactional, made.transaction_timeout) == (False, True, 1.0)
    assert made.replace(transaction_timeout=3).transaction_timeout == 3
    assert made.replace(name="other").transactional


def test_a_method_of_a_toolset_may_be_transactional() -> None:
    agent = us.Agent("clerk", model="rehearsal", tools=[Shop])

    tool = agent.tools_by_name["book"]
    assert (tool.transactional, tool.transaction_timeout) == (True, 2)


@pytest.mark.parametrize("function", [waits, Waiter()])
def test_an_async_tool_cannot_be_transactional(function: Any) -> None:
    with pytest.raises(TypeError, match="needs a plain function"):
        us.tool(name="book", transactional=True)(function)


def test_a_tool_without_a_context_cannot_ask_for_its_transaction() -> None:
    with pytest.raises(TypeError, match="needs a parameter annotated us.ToolContext"):
        us.tool(transactional=True)(without_context)


@pytest.mark.parametrize("isolation", ["process", "caller"])
def test_the_transaction_stays_on_threads_of_the_runtime(isolation: Any) -> None:
    with pytest.raises(ValueError, match="needs isolation='thread'"):
        us.tool(transactional=True, isolation=isolation)(plain)


def cannot_tell(key: str, sku: str) -> us.Reconciliation:
    return us.CannotTell()


@pytest.mark.parametrize(("option", "value"), [("idempotent", True), ("reconcile", cannot_tell)])
def test_a_call_in_doubt_has_one_rule(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match="were both given; give one"):
        us.Tool(plain, transactional=True, **{option: value})


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        (0, ValueError),
        (4.5, ValueError),
        (float("nan"), ValueError),
        (None, TypeError),
        ("1", TypeError),
        (True, TypeError),
    ],
)
def test_a_transaction_has_a_time_that_others_can_wait_for(seconds: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="transaction_timeout") as raised:
        us.tool(transactional=True, transaction_timeout=seconds)(plain)
    assert "None for no limit" not in str(raised.value)


def test_a_tool_without_a_transaction_takes_no_time_for_one() -> None:
    with pytest.raises(ValueError, match="without transactional=True"):
        us.tool(transaction_timeout=2)(plain)

    made = us.tool(transactional=True, transaction_timeout=2)(plain)
    assert made.replace(transactional=False).transaction_timeout == 1.0
