"""Short words for tests of runs: agents with scripted models, and waiting that ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from understudy.actors.threads import pool
from understudy.orchestration import Agent
from understudy.providers import FunctionModel, ScriptedModel
from understudy.testing import says
from understudy.vocabulary.messages import ModelTurn, ToolResult, Usage
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, NeedsApproval, NeedsInput, Outcome
from understudy.vocabulary.tools.toolset import ToolSource

O = TypeVar("O")
WAIT = 10.0  # Seconds after which a test that waits has failed.


def scripted(*turns: ModelTurn | Exception, tools: Iterable[ToolSource] = (), max_iterations: int = 10) -> Agent:
    """Make an agent whose model says `turns`, in order."""
    return Agent("clerk", model=ScriptedModel(turns), tools=tools, max_iterations=max_iterations)


def echo(id: str) -> Agent:
    """Make an agent that repeats its last message, in brackets after its id."""
    return Agent(id, model=FunctionModel(lambda request: says(f"{id}({request.messages[-1].text})")))


def model_of(agent: Agent) -> ScriptedModel:
    """Return the scripted model of an agent, which keeps its requests."""
    assert isinstance(agent.model, ScriptedModel), agent.model
    return agent.model


def spent(turn: ModelTurn, usage: Usage) -> ModelTurn:
    """Return the turn with its usage."""
    return ModelTurn(turn.parts, usage, turn.finish_reason, turn.raw_finish_reason)


def finished(outcome: Outcome[O]) -> Complete[O]:
    """Return the outcome of a run that must be complete."""
    assert isinstance(outcome, Complete), outcome
    return outcome


def incomplete(outcome: Outcome[O]) -> Incomplete:
    """Return the outcome of a run that must have come to a limit."""
    assert isinstance(outcome, Incomplete), outcome
    return outcome


def needs_approval(outcome: Outcome[O]) -> NeedsApproval:
    """Return the outcome of a run that must wait for an approval."""
    assert isinstance(outcome, NeedsApproval), outcome
    return outcome


def needs_input(outcome: Outcome[O]) -> NeedsInput:
    """Return the outcome of a run that must wait for an answer."""
    assert isinstance(outcome, NeedsInput), outcome
    return outcome


def paused(outcome: Outcome[O]) -> NeedsApproval | NeedsInput:
    """Return the outcome of a run that must wait for a person."""
    assert isinstance(outcome, (NeedsApproval, NeedsInput)), outcome
    return outcome


def results_of(outcome: Outcome[O]) -> list[ToolResult]:
    """Return all tool results of a run, in order."""
    return [result for message in outcome.messages for result in message.tool_results]


def contents_of(outcome: Outcome[O]) -> list[str]:
    """Return the contents of all tool results of a run, in order."""
    return [result.content for result in results_of(outcome)]


def eventually(claim: Callable[[], bool], what: str) -> None:
    """Wait for a claim that no event announces; fails after `WAIT` seconds."""
    pause = threading.Event()
    for _ in range(int(WAIT * 200)):
        if claim():
            return
        pause.wait(0.005)
    raise AssertionError(f"not in {WAIT:g} s: {what}")


def busy_threads() -> int:
    """Count the runtime's threads that are lent to something."""
    numbered = [t for t in threading.enumerate() if t.name.removeprefix("understudy-").isdigit()]
    return len(numbered) - pool.pool.idle
