"""Runs of other processes: `LeftRun`, whose process died, `ChangedRun`, `ParkedRun`, which cannot go on, and `WaitingRun`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftRun:
    """A run whose process died before the run was over."""

    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    user_id: str | None
    """None for a run without one."""
    conversation_id: str | None
    takeovers: int
    """How often a process has taken it over from another one."""


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run that was left, or a run inside of it, as an earlier definition of its runner has written it."""

    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    state: str
    """The state as JSON. An agent's is the text of `AgentRun.to_json`; its messages stand in `state.messages`."""
    why: str
    """The parts of the definition that changed, in words."""


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A run whose process died, and with which a system could not go on when it tried."""

    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    user_id: str | None
    """None for a run without one."""
    conversation_id: str | None
    takeovers: int
    """How often a process has taken it over from another one."""
    why: str
    """What keeps it from going on, in words."""


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that goes on when somebody resumes it with its token.

    It does not say what the run waits for: `system.handle(run_id).pauses()` has the questions and the calls.
    """

    token: str
    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    user_id: str | None
    """None for a run without one."""
    conversation_id: str | None
    by_error: bool
    """Whether an error ended it, so that it waits for no person: `resume(token)` goes on."""
