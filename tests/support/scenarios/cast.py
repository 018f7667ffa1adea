"""The agents of the scenarios: tools, a criterion, a callback and rules that say what the script has for them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Unpack

import understudy as us
from understudy.orchestration.definitions.agent import AgentChanges
from understudy.testing import ScriptedModel

from .scenario import Scenario, call_words


class Stage:
    """The dependencies of a run on threads: its scenario, and the steps that were seen."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._lock = threading.Lock()
        """Guards the steps and the calls."""
        self._steps: list[str] = []
        self._calls: list[str] = []

    def perform(self, ctx: us.ToolContext[Stage]) -> str:
        """Answer a tool call as the scenario has it."""
        with self._lock:
            self._calls.append(call_words(ctx.call_id, ctx.arguments))
        answer = self.scenario.returns.get(ctx.call_id, f"result of {ctx.call_id}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, step: str) -> None:
        """Note a step after the tool calls that ran before it."""
        with self._lock:
            if self._calls:
                self._steps.append(" ".join(["tools", *sorted(self._calls)]))
                self._calls.clear()
            self._steps.append(step)

    @property
    def steps(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._steps)


class ScenarioModel(ScriptedModel):
    """A scripted model that notes each of its calls."""

    def __init__(self, turns: Iterable[us.ModelTurn] = (), stage: Stage | None = None) -> None:
        super().__init__(turns)
        self.stage = stage

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        if self.stage is not None:
            self.stage.note("model")
        return super().complete(request)


class Guard(us.AgentCallback):
    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        return _scenario(ctx).after_model.get(turn.text, us.Continue())

    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
        return _scenario(ctx).before_tool.get(call.id, us.Continue())

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
        return _scenario(ctx).after_tool.get(call.id, us.Continue())


def met(ctx: us.RunContext, text: str) -> str | None:
    """Judge a text."""
    assert text not in _scenario(ctx).unjudged
    return _scenario(ctx).met.get(text)


def resolve(ctx: us.RunContext, invalid: us.InvalidCall) -> us.Resolution | None:
    """Say what becomes of an invalid call."""
    return _scenario(ctx).resolutions.get(invalid.call.id)


def _scenario(ctx: us.RunContext) -> Scenario:
    assert isinstance(ctx.deps, Stage)
    return ctx.deps.scenario


def _by_verdict(call: us.ToolCall, ctx: us.RunContext) -> bool:
    return _scenario(ctx).verdicts[call.id]


@us.tool
def look(ctx: us.ToolContext[Stage], sku: str = "") -> str:
    """Look."""
    return ctx.deps.perform(ctx)


@us.tool
def find(ctx: us.ToolContext[Stage], sku: str = "") -> str:
    """Find."""
    return ctx.deps.perform(ctx)


@us.tool(approval=True)
def refund(ctx: us.ToolContext[Stage], cents: int = 0, why: str = "") -> str:
    """Pay money back, if a person agrees."""
    return ctx.deps.perform(ctx)


@us.tool(approval=_by_verdict)
def pay(ctx: us.ToolContext[Stage], cents: int = 0) -> str:
    """Pay, and perhaps ask a person first."""
    return ctx.deps.perform(ctx)


@us.tool(on_error="raise")
def strict(ctx: us.ToolContext[Stage]) -> str:
    """Do what must not fail."""
    return ctx.deps.perform(ctx)


@us.tool(on_error="result")
def lenient(ctx: us.ToolContext[Stage]) -> str:
    """Do what may fail."""
    return ctx.deps.perform(ctx)


CLERK = us.Agent("clerk", model=ScenarioModel(), tools=[look, find, refund, pay, strict, lenient])


def clerk(**options: Unpack[AgentChanges]) -> us.Agent[str]:
    """Make an agent with all tools."""
    return CLERK.replace(**options)
