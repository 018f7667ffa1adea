"""`LeftRun`: a run that a process left behind, as `recover` tells of it."""

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
