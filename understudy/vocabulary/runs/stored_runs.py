"""Runs of any process as their store says it: where each stands, and the ones that were left, have changed, or wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

StoredRunPhase: TypeAlias = Literal["under_way", "left", "waiting", "cannot_go_on", "over"]
"""Where a run stands:

- `under_way`: a living process drives it.
- `left`: its process died, and `recover` goes on with it.
- `waiting`: it waits for a person, or for `resume` after an error or at a limit.
- `cannot_go_on`: no process goes on with it.
- `over`: it ended.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRunStatus:
    """A run of any process of a store, at one moment."""

    run_id: str
    system: str
    """The name of the system that has it."""
    runner_id: str
    """The id of the agent, group or workflow."""
    phase: StoredRunPhase
    reason: str = ""
    """Why it cannot go on, or how it ended: `complete`, `cancelled`, or the name of an error's class."""
    since: float | None = None
    """When it ended, if it is over; when it began to wait, if it waits; else when it was accepted: when a process died is not
    known. In seconds since 1970; None if the store does not say."""
    takeovers: int = 0
    """How often a process has gone on with it after another one died."""
    user_id: str | None = None
    """None for a run without one."""
    conversation_id: str | None = None
    by_error: bool = False
    """Of a waiting run: whether an error ended it, so that it waits for no person."""
    cancel_requested: bool = False
    """Whether somebody asked its process to cancel it."""


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
