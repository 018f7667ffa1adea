"""The events that the machine of a group takes, and the commands that it returns; all of them are values.

A round is one pass over the members of a group, one after another, such as a restart of three of them. Each round has a
number. A command to a member carries the number of its round, and the answer to the command carries it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from .restarts import Directive, Restart

M = TypeVar("M")
"""A member of the group: any value that can be hashed, such as a name."""
R = TypeVar("R")
"""The address for an answer to the parent: any value; the machine only carries it."""


# --- events: of the members


@dataclass(frozen=True, slots=True)
class ChildFailed(Generic[M]):
    """A member failed, and asks for a decision: the machine returns one `Rule`."""

    member: M
    wanted: Directive
    """The directive of the strategy's decider."""
    restart: Restart
    """The restart type of the member."""
    now: float
    """The present time, in seconds, on the same clock in each event."""
    run: str = ""
    """The run in which the member failed; empty if there was none."""
    starting: bool = False
    """Whether the member failed while it started."""


@dataclass(frozen=True, slots=True)
class RestartDue(Generic[M]):
    """A member that failed has let go of its object: it restarts, with the members that the strategy names."""

    member: M
    cause: BaseException
    chance: float
    """From 0 up to 1: takes a part off the delay."""


@dataclass(frozen=True, slots=True)
class StartDue(Generic[M]):
    """A group in this group gave up while it started: it starts again, without its siblings."""

    member: M
    epoch: int
    """The epoch of the machine when the group gave up; in a later one there is nothing to do."""
    chance: float


@dataclass(frozen=True, slots=True)
class StaysDown(Generic[M]):
    """A group in this group gave up while it started, and is not restarted: the members after it begin without it."""

    member: M


@dataclass(frozen=True, slots=True)
class FailureEscalated:
    """A member failed, and this group does not bear it: all members are given up."""

    cause: BaseException


@dataclass(frozen=True, slots=True)
class Halted(Generic[M]):
    """A member has let go of its object: the answer to `Halt`."""

    member: M
    round: int


@dataclass(frozen=True, slots=True)
class Begun(Generic[M]):
    """A member has begun, or has stopped and never will: the answer to `Begin`."""

    member: M
    round: int


@dataclass(frozen=True, slots=True)
class GivenUp(Generic[M]):
    """A member is given up, or has taken too long: the answer to `GiveUp`."""

    member: M
    round: int


@dataclass(frozen=True, slots=True)
class Stopped(Generic[M]):
    """A member has stopped: the answer to `StopMember`."""

    member: M
    round: int


@dataclass(frozen=True, slots=True)
class Worked:
    """A run of a member has succeeded."""


# --- events: of the parent, and of the actors that get a message after they were given up


@dataclass(frozen=True, slots=True)
class ParentBegins(Generic[R]):
    """The parent has the group begin; the machine returns `Done` when all members have begun, unless it is superseded."""

    round: int
    """The round of the parent."""
    after: float
    """Seconds until the first member begins."""
    reply: R


@dataclass(frozen=True, slots=True)
class ParentHalts(Generic[R]):
    """The parent has the group halted; the machine returns `Done` when all members are, in any case."""

    round: int
    cause: BaseException | None
    reply: R


@dataclass(frozen=True, slots=True)
class ParentGivesUp(Generic[R]):
    """The parent gives the group up; the machine returns `Done` when all members are given up, in any case."""

    round: int
    cause: BaseException
    reply: R


@dataclass(frozen=True, slots=True)
class StopAsked(Generic[R]):
    """The group is stopped; the machine returns `Done` when all members have stopped, in any case."""

    reply: R


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The group was given up, and all members begin again; no answer is wanted."""


@dataclass(frozen=True, slots=True)
class Forgiven:
    """The failures are forgotten, because the only member begins again by itself."""


# --- commands


@dataclass(frozen=True, slots=True)
class Rule:
    """What the member that failed has to do."""

    directive: Directive


@dataclass(frozen=True, slots=True)
class Halt(Generic[M]):
    """Let the member drop its object."""

    member: M
    round: int
    cause: BaseException | None
    with_siblings: bool
    """Whether it is halted because a sibling failed: a temporary member ends then."""


@dataclass(frozen=True, slots=True)
class Begin(Generic[M]):
    """Let the member make an object, if the round is still current then."""

    member: M
    round: int
    after: float
    """Seconds until then."""
    with_group: bool
    """Whether the whole group begins, so that the order of the parent must be current too."""


@dataclass(frozen=True, slots=True)
class GiveUp(Generic[M]):
    """Let the member answer everything with the cause. A member that takes too long counts as given up."""

    member: M
    round: int
    cause: BaseException


@dataclass(frozen=True, slots=True)
class StopMember(Generic[M]):
    """Stop the member in an orderly way."""

    member: M
    round: int


@dataclass(frozen=True, slots=True)
class TellDelay:
    """Publish that a restart comes only after some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TellEscalation:
    """Publish that the group is given up."""

    cause: BaseException


@dataclass(frozen=True, slots=True)
class Escalate:
    """All members are given up: tell the parent, which decides about the group."""

    cause: BaseException
    round: int
    """The round in which the group gave up: if it has begun since, there is nothing to decide."""
    starting: bool
    """Whether it gave up while it began."""


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """Answer the order that came with this `reply`."""

    reply: R


Event: TypeAlias = (
    ChildFailed[M]
    | RestartDue[M]
    | StartDue[M]
    | StaysDown[M]
    | FailureEscalated
    | Halted[M]
    | Begun[M]
    | GivenUp[M]
    | Stopped[M]
    | Worked
    | ParentBegins[R]
    | ParentHalts[R]
    | ParentGivesUp[R]
    | StopAsked[R]
    | TryAgain
    | Forgiven
)
Command: TypeAlias = (
    Rule | Halt[M] | Begin[M] | GiveUp[M] | StopMember[M] | TellDelay | TellEscalation | Escalate | Done[R]
)
