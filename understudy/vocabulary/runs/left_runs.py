"""`LeftRun`, a run that a process left behind, and `WaitingRun`, one that waits for somebody to go on with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftRun:
    """A run whose process died before the run was over."""

    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    user_id: str
    """`default` for a run without one."""
    conversation_id: str | None
    takeovers: int
    """How often a process has gone on with it before."""


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that goes on when somebody resumes it with its token."""

    token: str
    run_id: str
    runner_id: str
    """The id of the agent, group or workflow."""
    user_id: str | None
    conversation_id: str | None
    by_error: bool
    """Whether an error ended it, so that it waits for no person: `resume(token)` goes on."""
