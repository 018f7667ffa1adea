"""Calls that failed: the result that the model reads, and whether the agent fails of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import RunError, ToolTimeout, cause_of
from understudy.orchestration.agent import rounds
from understudy.vocabulary.context.artifacts import cut
from understudy.vocabulary.messages import ToolCall, ToolErrorKind, ToolResult

if TYPE_CHECKING:
    from understudy.orchestration import Agent

    from .tool_call import ToolCallTask

MAX_WORDS = 20_000  # Characters of an error that the model reads; more says no more.


class CallFailed(Exception):
    """A call failed in another process; the text says how, in the words of the error there.

    Attributes:
        again: whether another attempt may be made, if the tool allows any.
        trace: where it failed there, without what the error says; empty if the process told nothing.
    """

    def __init__(self, words: str, *, again: bool = True, trace: str = "") -> None:
        super().__init__(words)
        self.again = again
        self.trace = trace


def fails_agent(agent: Agent[object], error: BaseException) -> bool:
    """Whether the agent wants to be restarted after an error of its model or of a tool, or after what that came of."""
    named = agent.restart_on
    return (isinstance(error, named) or isinstance(cause_of(error), named)) and not isinstance(error, RunError)


def error_result(call: ToolCall, kind: ToolErrorKind, content: str) -> ToolResult:
    """Make the result of a call that has no value; what an error says at great length is cut."""
    return rounds.error_result(call, kind, content if len(content) <= MAX_WORDS else cut(content, MAX_WORDS, ""))


def timeout_result(call: ToolCall, timeout: float | None) -> ToolResult:
    """Make the result of a call that did not return in time."""
    return error_result(call, "timed_out", _timed_out(call, timeout))


def tell_repeated(order: ToolCallTask) -> None:
    """Tell those who watch the run that a call which timed out is made again at once."""
    call = order.call
    order.tell_retry(0.0, ToolTimeout(_timed_out(call, order.tool.timeout), tool=call.name, call_id=call.id))


def _timed_out(call: ToolCall, timeout: float | None) -> str:
    within = "in time" if timeout is None else f"within {timeout:g} s"  # without one, the run's own time was over
    return f"{call.name} did not return {within}; it was given up"
