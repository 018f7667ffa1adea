"""Tools and models that do almost nothing, or only sleep, so that a measure shows the cost of the runtime."""

from __future__ import annotations

import time
from collections.abc import Callable

import understudy as us
from understudy import FunctionModel, ModelRequest, ModelTurn, calls, says

ANSWER = "done"
FAIL = object()
"""The message that makes a `Fragile` actor fail."""


class Failure(Exception):
    """The error of a `Fragile` actor."""


def noop(x: int) -> str:
    """Return the number.

    Args:
        x: a number
    """
    return str(x)


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: first number
        b: second number
    """
    return a + b


def lookup(key: str, limit: int = 10) -> str:
    """Look a key up.

    Args:
        key: what to look for
        limit: at most so many
    """
    return key[:limit]


def note(title: str, body: str, urgent: bool = False) -> str:
    """Write a note.

    Args:
        title: the title
        body: the text
        urgent: whether it is urgent
    """
    return f"{title}: {body}{'!' if urgent else ''}"


def scale(value: float, factor: float = 2.0) -> float:
    """Scale a value.

    Args:
        value: the value
        factor: by how much
    """
    return value * factor


FIVE: tuple[Callable[..., object], ...] = (noop, add, lookup, note, scale)


def talker(rounds: int) -> FunctionModel:
    """Return a model that calls `noop` in each of its first `rounds` turns and then answers, at once."""

    def answer(request: ModelRequest) -> ModelTurn:
        return calls("noop", x=request.turn) if request.turn <= rounds else says(ANSWER)

    return FunctionModel(answer)


def five_tool_agent(rounds: int) -> us.Agent[str]:
    """Return an agent with five tools, which uses one of them `rounds` times."""
    return us.Agent("clerk", model=talker(rounds), tools=FIVE, max_iterations=max(1, rounds))


def napping_agent(nap: float, model_nap: float, tool_calls: int) -> us.Agent[str]:
    """Return an agent whose model calls a sleeping tool `tool_calls` times in one turn, and then answers.

    Args:
        nap: seconds each tool call blocks.
        model_nap: seconds each of the two model calls blocks.
        tool_calls: how many calls the first turn makes; with none it answers at once.
    """

    def sleep(x: int) -> str:
        """Sleep.

        Args:
            x: a number
        """
        time.sleep(nap)
        return str(x)

    first = calls("sleep", x=0) if tool_calls else says(ANSWER)
    for x in range(1, tool_calls):
        first = first + calls("sleep", x=x)

    def answer(request: ModelRequest) -> ModelTurn:
        if model_nap:
            time.sleep(model_nap)
        return first if request.turn == 1 else says(ANSWER)

    return us.Agent("napper", model=FunctionModel(answer), tools=[sleep])
