"""A supervisor at run time: the machine of its group decides, and the cell here carries out its commands.

A supervisor has no thread. A member that fails asks it what to do. Where others are affected, they are halted, the last one
first, and begun again, the first one first: each by a message in its system queue, whose callback is the machine's next event.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging import ERROR
from typing import TypeAlias

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.threads.alarms import ring_at
from understudy.diagnostics import emit
from understudy.errors import AgentDown
from understudy.orchestration.supervision.group_events import (
    Begin,
    Begun,
    ChildFailed,
    Command,
    Done,
    Escalate,
    Event,
    FailureEscalated,
    Forgiven,
    GivenUp,
    GiveUp,
    Halt,
    Halted,
    ParentBegins,
    ParentGivesUp,
    ParentHalts,
    RestartDue,
    Rule,
    StartDue,
    StaysDown,
    StopAsked,
    StopMember,
    Stopped,
    TellDelay,
    TellEscalation,
    TryAgain,
    Worked,
)
from understudy.orchestration.supervision.group_machine import handle
from understudy.orchestration.supervision.group_state import GroupState
from understudy.orchestration.supervision.restarts import (
    DIRECTIVES,
    LONGEST_BACKOFF,
    Directive,
    Restart,
    RestartBudget,
    Strategy,
)
from understudy.vocabulary.actors.system_events import Escalated

from .event_notices import tell_delay
from .members import IsCurrent, Member, OnDone, always, give_up_in_time

GroupEvent: TypeAlias = "Event[Member, OnDone]"
GroupCommand: TypeAlias = "Command[Member, OnDone]"


class SupervisorCell:
    """A running supervisor; itself a member, if another one is above it. Any thread may call it; it never waits.

    Args:
        name: the supervisor's address.
        strategy: what happens when a member fails.
        parent: the supervisor above, told when this one gives up; None at the top of a system.
        events: where its events are published; None for the supervisor of a lone actor, which publishes its own.
        restart: what the parent does when this one gives up.
        budget: how many failures it bears; None for the strategy's number.
        comes_back: whether it begins again by itself, a while after it was given up, if it stands at the top: actors may live
            by their timers. False for a lone agent, which only runs need.
    """

    __slots__ = (
        "_above",
        "_blamed",
        "_comes_back",
        "_events",
        "_group",
        "_lock",
        "_parent",
        "members",
        "name",
        "restart",
    )

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        *,
        parent: SupervisorCell | None = None,
        events: EventStream | None = None,
        restart: Restart = "transient",
        budget: RestartBudget | None = None,
        comes_back: bool = True,
    ) -> None:
        self.name = name
        self.restart: Restart = restart
        budget = RestartBudget(strategy) if budget is None else budget
        group: GroupState[Member, OnDone] = GroupState(name, strategy, budget)
        self._group = group
        self.members = group.members
        self._parent = parent
        self._events = events
        self._above: IsCurrent = always
        """Whether the parent's last order to begin still holds."""
        self._blamed = ""
        """The member whose failure was too much, since this one was begun; empty for none."""
        self._comes_back = comes_back
        self._lock = threading.Lock()
        """Guards the machine. No command is carried out under it."""

    @property
    def cause(self) -> BaseException | None:
        """Why it was given up; None while it works."""
        return self._group.cause

    @property
    def blamed(self) -> str:
        """The address of the member because of which it was given up, or the one above; empty if nobody knows."""
        return self._blamed or ("" if self._parent is None else self._parent.blamed)

    # --- called by a member, on its own thread

    def decide(self, member: Member, error: BaseException, *, starting: bool = False, run: str = "") -> Directive:
        """Return what to do about a failure, in a `run` if the member is an agent; all members share the budget."""
        wanted = wanted_directive(self._group.strategy, error, self.name)  # a user's function, so outside of the lock
        (rule,) = self._handle(ChildFailed(member, wanted, member.restart, time.monotonic(), run, starting))
        assert isinstance(rule, Rule)
        return rule.directive

    def is_only(self, member: Member) -> bool:
        """Whether `member` has no siblings, and no supervisor above this one."""
        return self._parent is None and self.members == [member]

    def worked(self) -> None:
        """Note that a run of a member has succeeded."""
        self._feed(Worked())

    def concerns_others(self, member: Member) -> bool:
        """Whether a restart of `member` restarts others too."""
        return self._group.strategy.affected(self.members, member) != (member,)

    @property
    def backs_off(self) -> bool:
        """Whether a restart comes after a delay."""
        return self._group.strategy.backoff is not None

    def undisturbed(self) -> IsCurrent:
        """Return a function that is true until the supervisor is next begun, halted or given up; never, if it does not work."""
        with self._lock:
            epoch = self._group.epoch if self._group.phase not in ("halted", "given up") else -1
        return lambda: self._group.epoch == epoch

    def delay(self) -> float:
        """Return the seconds to wait before the restart that was decided last."""
        with self._lock:
            return self._group.budget.delay(random.random())

    def regroup(self, member: Member, cause: BaseException) -> None:
        """Restart `member` and those that the strategy restarts with it: now, or after the restart under way."""
        self._feed(RestartDue(member, cause, random.random()))

    def escalate(self, cause: BaseException, blamed: str) -> None:
        """Give up all members, the last one first, because of the member `blamed`, and then tell the parent."""
        self._blamed = blamed
        self._feed(FailureEscalated(cause))

    def _member_failed(self, member: SupervisorCell, failed: Escalate) -> None:
        """Decide about a member that is a supervisor and has given up."""
        epoch = self._group.epoch
        if member.has_begun_since(failed.round):
            return
        match self.decide(member, failed.cause, starting=failed.starting):
            case "restart" if failed.starting:
                self._feed(StartDue(member, epoch, random.random()))
            case "restart":
                self.regroup(member, failed.cause)
            case "escalate":
                self.escalate(failed.cause, member.blamed)
            case "resume" | "stop":
                self._feed(StaysDown(member))

    def has_begun_since(self, round: int) -> bool:
        """Whether it was begun after this round of its own."""
        with self._lock:
            return self._group.begun > round

    # --- a supervisor as a member

    def halt(
        self, cause: BaseException | None, on_done: OnDone, round: int = 0, *, with_siblings: bool = False
    ) -> None:
        self._feed(ParentHalts(round, cause, on_done))

    def begin(self, delay: float, on_done: OnDone, is_current: IsCurrent = always, round: int = 0) -> None:
        with self._lock:
            if not is_current():
                return
            self._above, self._blamed = is_current, ""
            commands = handle(self._group, ParentBegins(round, delay, on_done))
        self._carry_out(commands)

    def give_up(self, cause: BaseException, on_done: OnDone, round: int = 0) -> None:
        self._feed(ParentGivesUp(round, cause, on_done))

    def stop_then(self, on_done: OnDone) -> None:
        """Stop the members, the last one first, each after the one before it, and then call `on_done`."""
        self._feed(StopAsked(on_done))

    def forgive(self) -> None:
        """Forget the failures, for a new attempt."""
        self._feed(Forgiven())

    def try_again(self) -> None:
        """Begin all members again after it was given up, and those of the supervisors above that were given up with it."""
        if self._parent is not None and self._parent.cause is not None:
            self._parent.try_again()
            return
        with self._lock:
            self._above = always
            commands = handle(self._group, TryAgain())
        self._carry_out(commands)

    def stay_in_parent(self) -> None:
        """Be given up in this forked child, with all members: they are the parent's."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._group.leave(AgentDown(f"{self.name} belongs to the process that forked this one", actor=self.name))
        for member in self.members:
            member.stay_in_parent()

    # --- the machine

    def _feed(self, event: GroupEvent) -> None:
        self._carry_out(self._handle(event))

    def _handle(self, event: GroupEvent) -> list[GroupCommand]:
        with self._lock:
            return handle(self._group, event)

    def _carry_out(self, commands: list[GroupCommand]) -> None:
        """Carry out commands, and those that follow from answers that come at once.

        A member that answers at once, as one that has stopped does, is followed by the next in a loop, not in a nested call:
        there may be more members than the stack is deep.
        """
        if not commands:
            return
        due, here = deque(commands), threading.get_ident()
        in_loop = True

        def answered(event: GroupEvent) -> None:
            following = self._handle(event)
            if in_loop and threading.get_ident() == here:
                due.extend(following)
            else:
                self._carry_out(following)

        try:
            while due:
                self._do(due.popleft(), answered)
        finally:
            in_loop = False
            self._carry_out(list(due))  # after an error: other members wait for these

    def _do(self, command: GroupCommand, answered: Callable[[GroupEvent], None]) -> None:
        match command:
            case Halt(member=member, round=round):
                done = partial(answered, Halted(member, round))
                member.halt(command.cause, done, round, with_siblings=command.with_siblings)
            case Begin(member=member, round=round, after=after):
                is_current = self._is_current(round, self._above if command.with_group else always)
                member.begin(after, partial(answered, Begun(member, round)), is_current, round)
            case GiveUp(member=member, round=round):
                give_up_in_time(member, command.cause, partial(answered, GivenUp(member, round)), round)
            case StopMember(member=member, round=round):
                member.stop_then(partial(answered, Stopped(member, round)))
            case Done(reply=reply):
                reply()
            case _:
                self._tell(command)

    def _is_current(self, round: int, above: IsCurrent) -> IsCurrent:
        return lambda: self._group.is_current(round) and above()

    def _tell(self, command: GroupCommand) -> None:
        """Tell the parent, or those who subscribed to events."""
        match command:
            case Escalate() if self._parent is not None:
                self._parent._member_failed(self, command)
            case Escalate(round=round) if self._comes_back:
                self._try_again_later(round)
            case TellDelay(seconds=seconds) if self._events is not None:
                tell_delay(self._events, self.name, seconds)
            case TellEscalation(cause=cause) if self._events is not None and self._events.wants(Escalated):
                self._events.publish(Escalated(address=self.name, reason=cause))
            case _:
                pass

    def _try_again_later(self, round: int) -> None:
        """Begin again after a while, unless a message to a member has led to it before."""

        def try_again() -> None:
            if self.cause is not None and not self.has_begun_since(round):
                self.try_again()

        with suppress(RuntimeError):  # no thread for the clock: the next message tries it
            ring_at(time.monotonic() + LONGEST_BACKOFF, try_again)


def wanted_directive(strategy: Strategy, error: BaseException, name: str) -> Directive:
    """Return what the decider wants; "restart" without one, "escalate" if it fails or returns no directive.

    Args:
        strategy: has the decider, or none.
        error: the failure.
        name: the group's address, for the log.
    """
    if strategy.decider is None:
        return "restart"
    try:
        wanted: object = strategy.decider(error)
        for directive in DIRECTIVES:
            if isinstance(wanted, str) and wanted == directive:
                return directive
        expected = ", ".join(DIRECTIVES)
        text = "%s: the failure escalates: its decider must return %s; got %r"
        emit(ERROR, "decider_failed", {"actor": name}, text, name, expected, wanted)
    except BaseException:  # also SystemExit, which would end this actor's thread before anything is decided
        text = "%s: the failure escalates: its decider failed"
        emit(ERROR, "decider_failed", {"actor": name}, text, name, exc_info=True)
    return "escalate"
