"""What happens in an actor system, for those who look after it. What happens in one run is in `understudy.vocabulary.runs.events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LostBecause: TypeAlias = Literal["stopped", "given_up", "mailbox_full", "expired", "cancelled", "no_thread"]
"""Why nobody handled a message: its actor had stopped, or was given up; it found no room; it was reached after its deadline,
or when its reply was no longer wanted; no thread could be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEvent:
    """What all events of a system have in common."""

    address: str
    """Where it happened: the address of an actor, an agent or a supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStarted(SystemEvent):
    """An actor has its first object, and handles messages from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorFailed(SystemEvent):
    """An actor failed at a message, or at its start. What is done about it, the next event tells; none if it goes on as it was."""

    error: BaseException
    message_type: str = ""
    """The name of the message's class; empty if it failed at no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorRestarted(SystemEvent):
    """An actor has a new object, because it failed or its supervisor restarted it with others."""

    epoch: int
    restarts: int
    """How often it was restarted by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorBackedOff(SystemEvent):
    """A restart waits: of an actor, or of those children of a supervisor that are restarted together."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorGivenUp(SystemEvent):
    """An actor failed too often, or its supervisor did: it answers everything with `AgentDown`, until one more attempt."""

    reason: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStopped(SystemEvent):
    """An actor ended for good."""

    reason: BaseException | None = None
    """The failure that deserved no restart; None when it was stopped in an orderly way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(SystemEvent):
    """A supervisor's children failed more often than its strategy bears: all are given up, and the one above it decides."""

    reason: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(SystemEvent):
    """A message to an actor that nobody handled. What it said is not kept, for it may be personal."""

    reason: LostBecause
    message_type: str
    """The name of the message's class."""
    at: float
    """When, in seconds since the epoch, as `time.time()` counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOverdue(SystemEvent):
    """A tool call's time is over. Its scope is cancelled now; if it does not come back at once, it is abandoned."""

    run_id: str
    what: str
    """What is being done, in words, such as `running tool lookup`."""
    seconds: float
    """How long it has been at it."""
    stack: str
    """Where it is, as a traceback's lines; empty if it runs in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAbandoned(SystemEvent):
    """A tool or model call, or an actor's message, is waited for no longer; it holds a thread until it comes back.

    The address is the agent's or the actor's.
    """

    run_id: str = ""
    """Which run it was part of; empty for an actor's message."""
    what: str
    """What it is at, in words, such as `running tool lookup`."""
    seconds: float
    """How long it has been at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCrashed(SystemEvent):
    """Something of an agent's own failed in a run (not its model or a tool). The address is the agent's."""

    run_id: str
    error: BaseException
    crashes: int
    """How often this run failed so by now."""
    poison: bool
    """Whether the run is ended because of it; otherwise it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircleRefused(SystemEvent):
    """Somebody would have waited for itself, and was refused. The address is of what would have been waited for."""

    path: tuple[str, ...]
    """Everyone on the way around."""
