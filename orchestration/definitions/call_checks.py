"""Checks the calls of a model's turn by the agent's rules, before any of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from understudy.orchestration.agent.rounds import cut_calls, error_result
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.steps import InvalidCall
from understudy.orchestration.agent.turns import calls_of, find_invalid
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.parameters import BadArguments

Tools: TypeAlias = Mapping[str, Tool[..., object]]

CallVerdict: TypeAlias = Literal["allowed", "needs_approval", "asks_user", "unknown_tool", "bad_json", "bad_arguments"]


@dataclass(frozen=True, slots=True)
class CallCheck:
    """The result of the agent's rules for one call."""

    position: int
    """Position among the turn's calls, from 0."""
    call: ToolCall
    verdict: CallVerdict
    reason: str = ""
    """Why it cannot run, in words for the model; empty if it can."""


@dataclass(frozen=True, slots=True)
class CallChecks:
    """The results of the agent's rules for the calls of a turn, in call order."""

    checks: tuple[CallCheck, ...]

    @property
    def allowed(self) -> tuple[ToolCall, ...]:
        """The calls that run at once."""
        return self._those("allowed")

    @property
    def needs_approval(self) -> tuple[ToolCall, ...]:
        """The calls that a person must decide about. A rule that is a function is not asked: its calls are here too."""
        return self._those("needs_approval")

    @property
    def asks_user(self) -> tuple[ToolCall, ...]:
        """The calls that are a question to a person."""
        return self._those("asks_user")

    @property
    def invalid(self) -> tuple[InvalidCall, ...]:
        """The calls that cannot run as the model wrote them."""
        return tuple(
            [
                InvalidCall(each.position, each.call, each.verdict, each.reason)
                for each in self.checks
                if each.verdict in ("unknown_tool", "bad_json", "bad_arguments")
            ]
        )

    @property
    def problems(self) -> Mapping[int, str]:
        """Position of a call -> why its arguments do not fit, as `AgentRun.model_response` takes it."""
        return {each.position: each.reason for each in self.checks if each.verdict == "bad_arguments"}

    def _those(self, verdict: CallVerdict) -> tuple[ToolCall, ...]:
        return tuple([each.call for each in self.checks if each.verdict == verdict])


def check_calls(spec: RunSpec, tools: Tools, turn: ModelTurn, number: int) -> CallChecks:
    """Check the calls of the turn with this number by the rules of an agent."""
    if not isinstance(turn, ModelTurn):
        raise TypeError(f"agent {spec.agent_id!r}: check_calls takes a ModelTurn, got {turn!r}")
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"agent {spec.agent_id!r}: check_calls: number must be a whole number, got {number!r}")
    calls = calls_of(turn.parts)
    found = find_invalid(spec.allowed_tools(number), calls, _problems(tools, calls), cut_calls(turn, calls))
    invalid = {bad.position: bad for bad in found}
    return CallChecks(tuple([_check(spec, at, call, invalid.get(at)) for at, call in enumerate(calls)]))


def _problems(tools: Tools, calls: Sequence[ToolCall]) -> dict[int, str]:
    """Return the problems of arguments by position; validators of users run here."""
    problems: dict[int, str] = {}
    for position, call in enumerate(calls):
        tool = tools.get(call.name)
        if tool is None or call.bad_arguments is not None:
            continue
        from understudy.vocabulary.tools.schemas import check_arguments  # brings pydantic along

        try:
            check_arguments(tool.signature, tool.name, call.arguments)
        except BadArguments as error:
            problems[position] = str(error)
    return problems


def _check(spec: RunSpec, position: int, call: ToolCall, bad: InvalidCall | None) -> CallCheck:
    if bad is not None:
        return CallCheck(position, call, bad.kind, bad.reason)
    if call.name in spec.asks:
        return CallCheck(position, call, "asks_user")
    must_wait = spec.approvals.get(call.name, False) is not False  # None: a function of the call and its context
    return CallCheck(position, call, "needs_approval" if must_wait else "allowed")


def refused_call(spec: RunSpec, call: ToolCall) -> ToolResult | None:
    """Return the error result of a call that no tool of an agent can take; None if one can.

    Raises:
        TypeError: it is no call.
        ValueError: it is a question to a person, which no tool answers.
    """
    if not isinstance(call, ToolCall):
        raise TypeError(f"agent {spec.agent_id!r}: execute takes a ToolCall, got {call!r}")
    if call.name in spec.asks:
        raise ValueError(
            f"agent {spec.agent_id!r}: {call.name} asks a person, and no tool answers; give AgentRun.answer the text"
        )
    for bad in find_invalid(spec.offered_names, (call,), {}):
        return error_result(call, bad.kind, bad.reason)
    return None
