"""Events of an actor system, for its operators. The events of a run are in `understudy.vocabulary.runs.events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LostBecause: TypeAlias = Literal[
    "stopped", "given_up", "mailbox_full", "expired", "cancelled", "no_thread", "broadcast", "not_accepted"
]
"""Why no actor handled a message: the actor had stopped; it was given up, or calls that were given up hold all its seats; the mailbox was full; the deadline had passed
or the reply was no longer wanted; there was no free thread; an agent was told it by its entry in Pykka's registry, as a broadcast does; a tool or a memory takes no messages by a reference of Pykka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEvent:
    """The base of all events of a system."""

    address: str
    """The address of the actor, agent or supervisor that the event is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStarted(SystemEvent):
    """An actor has its first object, and handles messages from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorFailed(SystemEvent):
    """An actor failed at a message, or at its start. The next event tells the directive, unless the actor resumes."""

    error: BaseException
    message_type: str = ""
    """The name of the message's class; empty if it failed at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorRestarted(SystemEvent):
    """An actor has a new object, because it failed, or its supervisor restarted it together with others.

    A memory that was given as an object goes on with it.
    """

    epoch: int
    restarts: int
    """How often it was restarted by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorBackedOff(SystemEvent):
    """A restart waits for its delay: of an actor, or of the children of a supervisor that restart together."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorGivenUp(SystemEvent):
    """An actor failed too often, or its supervisor did: it answers everything with `AgentDown`, until one more attempt.

    A memory that is given up is tried once by each run, until it works.
    """

    reason: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStopped(SystemEvent):
    """An actor ended for good."""

    reason: BaseException | None = None
    """The failure after which the actor was not restarted; None after an orderly stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalated(SystemEvent):
    """A supervisor's children failed more often than its strategy allows: it gives all up and escalates."""

    reason: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(SystemEvent):
    """A message that no actor handled. Its content is not kept, because it may be personal."""

    reason: LostBecause
    message_type: str
    """The name of the message's class."""
    at: float
    """When, in seconds since the epoch, as `time.time()` counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOverdue(SystemEvent):
    """A tool call's deadline has passed. Its scope is cancelled; if it does not return at once, it is abandoned."""

    run_id: str
    what: str
    """What is being done, in words, such as `running tool lookup`."""
    seconds: float
    """How long it has been at it."""
    stack: str
    """The present stack of the call, as a traceback's lines; empty if it runs in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAbandoned(SystemEvent):
    """A tool call, model call or actor's message was abandoned; it holds a thread until it returns.

    The address is the agent's or the actor's.
    """

    run_id: str = ""
    """Id of the run it was part of; empty for an actor's message."""
    what: str
    """The work, in words, such as `running tool lookup`."""
    seconds: float
    """How long it has been at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCrashed(SystemEvent):
    """An agent's own code failed in a run, not its model or a tool. The address is the agent's."""

    run_id: str
    error: BaseException
    crashes: int
    """How often this run has failed in this way."""
    poison: bool
    """Whether the failure ends the run; otherwise the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircleRefused(SystemEvent):
    """A wait was refused because it would have closed a cycle. The address is the target of the wait."""

    path: tuple[str, ...]
    """The members of the cycle."""
