"""Short words for tests of runs: agents with scripted models, and waiting that ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from understudy.messages import ModelTurn, ToolResult
from understudy.orchestration import Agent
from understudy.outcomes import Complete, Outcome
from understudy.providers import ScriptedModel
from understudy.toolsets import ToolSource

WAIT = 10.0  # Seconds after which a test that waits has failed.


def scripted(*turns: ModelTurn | Exception, tools: Iterable[ToolSource] = (), max_iterations: int = 10) -> Agent:
    """Make an agent whose model says `turns`, in order."""
    return Agent("clerk", model=ScriptedModel(turns), tools=tools, max_iterations=max_iterations)


def finished(outcome: Outcome) -> Complete:
    """Return the outcome of a run that must be complete."""
    assert isinstance(outcome, Complete), outcome
    return outcome


def results_of(outcome: Outcome) -> list[ToolResult]:
    """Return all tool results of a run, in order."""
    return [result for message in outcome.messages for result in message.tool_results]


def eventually(claim: Callable[[], bool], what: str) -> None:
    """Wait for a claim that no event announces; fails after `WAIT` seconds."""
    pause = threading.Event()
    for _ in range(int(WAIT * 200)):
        if claim():
            return
        pause.wait(0.005)
    raise AssertionError(f"not in {WAIT:g} s: {what}")
