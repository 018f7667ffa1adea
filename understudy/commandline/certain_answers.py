"""Tells of which agents each text is the answer, so that a program may read it while it is written."""

from __future__ import annotations

from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.runs.callbacks import AgentCallback


def is_certain(runner: Runner[object]) -> bool:
    """Whether the first text of the runner's model is its answer, unless the run fails.

    So it is of an agent without tools and sub-agents, whose answer nobody judges or replaces. A server's own tools, which
    `settings.extra` may ask for, can end a turn before the answer.
    """
    if not isinstance(runner, Agent) or runner.tools_by_name or runner.settings.extra:
        return False
    judged = runner.criteria or runner.output_type is not None or runner.restart_on
    return not judged and not any(_may_replace(callback) for callback in runner.callbacks)


def _may_replace(callback: AgentCallback) -> bool:
    """Whether a callback sees turns or errors: it may put another text in their place."""
    own = type(callback)
    return own.after_model_call is not AgentCallback.after_model_call or own.on_error is not AgentCallback.on_error
