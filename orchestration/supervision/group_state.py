"""The state of a group of actors: its phase, its rounds and its budget. Plain data, which can be saved with its members' names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from .group_events import RestartDue
from .restarts import RestartBudget, Strategy

M = TypeVar("M")
R = TypeVar("R")

Phase: TypeAlias = Literal[
    "working",  # all members have begun; also before the first begin, for an actor that begins alone
    "beginning",  # the members begin, one after another
    "restarting",  # some members are halted, and begin again
    "beginning, restarting",  # both at once: a member that has begun fails while others begin
    "halted",  # the parent restarts the group with others: its members are halted, and begin with it
    "given up",  # the group failed too often, or a group above did
]
RoundKind: TypeAlias = Literal["begin", "restart", "start again", "halt", "give up", "escalate", "stop"]
Action: TypeAlias = Literal["halt", "begin", "give up", "stop"]

SUPERSEDED: frozenset[RoundKind] = frozenset({"begin", "restart", "start again"})
"""The rounds that end when the group is begun, halted or given up. The others run to their end, for others wait for it."""


@dataclass(slots=True)
class GroupRound(Generic[M, R]):
    """One pass over members, one after another."""

    number: int
    kind: RoundKind
    action: Action
    """The command that it gives at present; a restart halts first, and then begins."""
    members: tuple[M, ...]
    """The members concerned, in the order of their start."""
    left: list[M]
    """The members that have not got the command, the next one at the end."""
    cause: BaseException | None = None
    after: float = 0.0
    """Seconds until the first member begins."""
    reply: R | None = None
    """Where to answer when it is over, if it is not a begin."""
    starting: bool = False
    """For an escalation: whether the group gave up while it began."""
    waits_for: M | None = None
    """The member that has not answered yet."""
    unbegun: set[M] = field(default_factory=set[M])
    """For a restart: the members that have not begun again."""


class GroupState(Generic[M, R]):
    """All that is known of a group. Only the transitions of `group_machine` change it.

    Each lone actor has one too, so it is cheap to make: no dataclass.

    Attributes:
        name: the address of the group, for texts.
        strategy: which members restart together, and when.
        budget: how many failures the group bears, of all members together.
        members: in the order of their start.
        phase: where the group is in its life.
        cause: the reason why the group was given up; None in any other phase.
        rounds: the rounds under way, by number. The answer to a command of any other round is ignored.
        count: the number of the last round.
        epoch: the last round in which the group was begun, halted or given up.
        begun: the last round in which the group was begun.
        parent_round: the round of the parent in which the group was begun; orders of an earlier one come too late.
        reply: where the parent wants to be told when all members have begun; kept over halts and failures to begin.
        failed_meanwhile: members that have begun and failed during the restart under way; they are restarted after it, in turn.
    """

    __slots__ = (
        "begun",
        "budget",
        "cause",
        "count",
        "epoch",
        "failed_meanwhile",
        "members",
        "name",
        "parent_round",
        "phase",
        "reply",
        "rounds",
        "strategy",
    )

    def __init__(self, name: str, strategy: Strategy, budget: RestartBudget) -> None:
        self.name = name
        self.strategy = strategy
        self.budget = budget
        self.members: list[M] = []
        self.phase: Phase = "working"
        self.cause: BaseException | None = None
        self.rounds: dict[int, GroupRound[M, R]] = {}
        self.count = self.epoch = self.begun = self.parent_round = 0
        self.reply: R | None = None
        self.failed_meanwhile: tuple[RestartDue[M], ...] = ()

    def is_current(self, round: int) -> bool:
        """Whether a begin of this round still holds."""
        return round in self.rounds

    def start(
        self,
        kind: RoundKind,
        action: Action,
        members: Sequence[M],
        *,
        cause: BaseException | None = None,
        after: float = 0.0,
        reply: R | None = None,
    ) -> GroupRound[M, R]:
        """Add a round; the first member begins first, and the last one is halted, given up or stopped first."""
        self.count += 1
        left = list(reversed(members)) if action == "begin" else list(members)
        started: GroupRound[M, R] = GroupRound(self.count, kind, action, tuple(members), left, cause, after, reply)
        self.rounds[self.count] = started
        return started

    def supersede(self) -> None:
        """Begin a new epoch with the next round: no begin or restart that was decided before goes on."""
        self.rounds = {number: each for number, each in self.rounds.items() if each.kind not in SUPERSEDED}
        self.failed_meanwhile = ()
        self.epoch = self.count + 1

    def restart(self) -> GroupRound[M, R]:
        """Return the restart under way."""
        return next(each for each in self.rounds.values() if each.kind == "restart")

    def leave(self, cause: BaseException) -> None:
        """Be given up without a command to anybody: the members belong to another process."""
        self.phase, self.cause, self.rounds = "given up", cause, {}
