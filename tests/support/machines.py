"""Shorthands for tests of machines: specs, turns, results, and a machine's state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import cast

from understudy.orchestration import AgentRun, AwaitApproval, CallModel, CallTools, Done, RunSpec
from understudy.vocabulary.messages import (
    JsonObject,
    Message,
    ModelTurn,
    Part,
    Settings,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
    Usage,
    user_message,
)
from understudy.vocabulary.runs.outcomes import Complete

SCHEMA: JsonObject = {"type": "object", "properties": {}}


def make_spec(
    *tools: str,
    approvals: dict[str, bool | None] | None = None,
    tool_choice: ToolChoice = "auto",
    max_iterations: int = 10,
    max_turns: int = 50,
    criteria: bool = False,
    max_continues: int = 3,
    max_invalid_retries: int = 3,
) -> RunSpec:
    """Make a spec of agent `clerk` with tools of these names."""
    return RunSpec(
        agent_id="clerk",
        model="test:model",
        system="Be brief.",
        tools=tuple([ToolSpec(name, f"Does {name}.", SCHEMA) for name in tools]),
        approvals=approvals or {},
        settings=Settings(tool_choice=tool_choice),
        max_iterations=max_iterations,
        max_turns=max_turns,
        criteria=criteria,
        max_continues=max_continues,
        max_invalid_retries=max_invalid_retries,
    )


def asks(*calls: ToolCall, before: str = "", usage: Usage | None = None) -> ModelTurn:
    """Make a turn that calls tools, after some text if any."""
    text: tuple[Part, ...] = (TextPart(before),) if before else ()
    return ModelTurn((*text, *calls), usage or Usage(), "tool_calls", "tool_use")


def call(id: str, name: str = "look", **arguments: str) -> ToolCall:
    return ToolCall(id, name, arguments)


def gives(id: str, content: str = "", name: str = "look") -> ToolResult:
    """Make the result of a call; it says its own id unless told otherwise."""
    return ToolResult(id, content or f"result of {id}", name=name)


def answers(*results: ToolResult) -> Message:
    """Make the history message that brings these results."""
    return Message("user", results)


def said(*parts: Part, dialect: str = "") -> Message:
    """Make the history message of a model's turn."""
    return Message("assistant", parts, dialect)


def asked(text: str) -> Message:
    return user_message(text)


def messages_of(run: AgentRun) -> list[Message]:
    return list(run.messages)


def model_step(run: AgentRun) -> CallModel:
    step = run.next_step()
    assert isinstance(step, CallModel), step
    return step


def tool_ids(run: AgentRun) -> list[str]:
    """Return the ids of the calls that the machine wants run now."""
    step = run.next_step()
    assert isinstance(step, CallTools), step
    return [c.id for c in step.calls]


def waiting_ids(run: AgentRun) -> list[str]:
    """Return the ids of the calls that a person must decide about now."""
    step = run.next_step()
    assert isinstance(step, AwaitApproval), step
    return [c.id for c in step.calls]


def completed(run: AgentRun) -> Complete[str]:
    step = run.next_step()
    assert isinstance(step, Done), step
    assert isinstance(step.outcome, Complete), step.outcome
    return step.outcome


def reloaded(run: AgentRun) -> AgentRun:
    return AgentRun.from_json(run.to_json(), run.spec)


def saved(run: AgentRun) -> dict[str, object]:
    """Return the saved run as JSON data, to change and load again."""
    return cast("dict[str, object]", json.loads(run.to_json()))


def run_of(spec: RunSpec, turns: Iterable[ModelTurn] = (), input: str = "Hi") -> AgentRun:
    """Begin a run and feed it turns; each of them must be due."""
    run = AgentRun(spec, input)
    for turn in turns:
        model_step(run)
        run.model_response(turn)
    return run
