"""Trees of supervisors as machines alone: no thread runs, and chance decides which step is next.

Actors and the threads that carry out commands are generators. Each `yield` is a moment at which another one may go on, as with
real threads: between a decision and what follows from it, and between two commands. Now and then a machine is saved and loaded.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.orchestration.supervision.group_events import (
    Begin,
    Begun,
    ChildFailed,
    Command,
    Done,
    Escalate,
    Event,
    FailureEscalated,
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
    TryAgain,
)
from understudy.orchestration.supervision.group_machine import handle
from understudy.orchestration.supervision.group_state import GroupState
from understudy.orchestration.supervision.restarts import Directive, RestartBudget, Strategy

from .otp import Group, Leaf
from .otp import Rule as OtpRule

MOST_STEPS = 100_000
SAVES = 0.02
"""The share of steps before which a machine is saved and loaded."""
LATE = 0.02
"""The share of members that take too long to give up."""

Answer: TypeAlias = "Halted[str] | Begun[str] | GivenUp[str] | Stopped[str]"
Reply: TypeAlias = "tuple[str, Answer] | None"
"""The group above, and its next event; None for nobody."""
Machine: TypeAlias = "GroupState[str, Reply]"
Thread: TypeAlias = Generator[None]
IsCurrent: TypeAlias = Callable[[], bool]
State: TypeAlias = Literal["starting", "running", "restarting", "down", "stopped"]


def always() -> bool:
    return True


@dataclass
class Actor:
    """An actor, as its lifecycle has it: its state, its object, and what waits for it."""

    leaf: Leaf
    group: str
    state: State = "starting"
    has_object: bool = False
    begun_round: int = 0
    orders: deque[Callable[[], Thread]] = field(default_factory=deque[Callable[[], Thread]])
    failures: int = 0
    """Messages at which it fails."""
    busy: bool = False

    @property
    def has_work(self) -> bool:
        return not self.busy and bool(self.orders or (self.failures and self.state not in ("starting", "restarting")))


class Play:
    """One tree of machines, and all that happens to it."""

    def __init__(self, root: Group, strategies: Mapping[OtpRule, type[Strategy]], chance: random.Random) -> None:
        self._root = root
        self._chance = chance
        self._threads: list[Thread] = []
        self._groups = {group.name: group for group in root.inner()}
        self._parents = {
            child.name: group.name for group in root.inner() for child in group.children if isinstance(child, Group)
        }
        self._above: dict[str, IsCurrent] = dict.fromkeys(self._groups, always)
        self.machines = {name: _machine(group, strategies) for name, group in self._groups.items()}
        self.actors = {
            leaf.name: Actor(leaf, group.name)
            for group in root.inner()
            for leaf in group.children
            if isinstance(leaf, Leaf)
        }
        self.starts_to_fail: Counter[str] = Counter()
        self.stops = 0
        """How often the whole tree has stopped."""

    # --- from outside

    def begin(self) -> None:
        """Have the tree begin."""
        self._threads.append(self._feed(self._root.name, ParentBegins(0, 0.0, None)))

    def fail(self, name: str) -> None:
        """Send an actor a message at which it fails."""
        self.actors[name].failures += 1

    def stop(self) -> None:
        """Stop the tree."""
        self._threads.append(self._feed(self._root.name, StopAsked(None)))

    def try_again(self, name: str) -> None:
        """Let an actor that is down get a message long after it was given up."""
        group = self.actors[name].group
        while group in self._parents and self.machines[self._parents[group]].cause is not None:
            group = self._parents[group]
        self._above[group] = always
        self._threads.append(self._feed(group, TryAgain()))

    def settle(self) -> None:
        """Take steps until there are none left."""
        for _ in range(MOST_STEPS):
            if not self.step():
                return
        raise AssertionError("the steps do not end")

    def step(self) -> bool:
        """Take one step; return whether there was one."""
        idle = [actor for actor in self.actors.values() if actor.has_work]
        if not self._threads and not idle:
            return False
        if self._chance.random() < SAVES:
            name = self._chance.choice(list(self.machines))
            self.machines[name] = pickle.loads(pickle.dumps(self.machines[name]))
        number = self._chance.randrange(len(self._threads) + len(idle))
        if number >= len(self._threads):
            actor = idle[number - len(self._threads)]
            actor.busy = True
            self._threads.append(self._turn(actor))
        elif next(self._threads[number], self) is self:
            del self._threads[number]
        return True

    # --- an actor

    def _turn(self, actor: Actor) -> Thread:
        if actor.orders:
            yield from actor.orders.popleft()()
        else:
            actor.failures -= 1
            if actor.state == "running":
                yield from self._fail_over(actor)
        actor.busy = False

    def _fail_over(self, actor: Actor) -> Thread:
        is_current = self._undisturbed(actor.group)
        yield
        directive = self._decide(actor.group, actor.leaf.name, actor.leaf.restart)
        yield
        machine = self.machines[actor.group]
        match directive:
            case "restart":
                actor.has_object = False
                yield
                if machine.strategy.affected(machine.members, actor.leaf.name) != (actor.leaf.name,):
                    actor.state = "restarting"
                    yield from self._feed(actor.group, RestartDue(actor.leaf.name, ValueError("it failed"), 0.0))
                elif is_current():
                    yield from self._begin(actor, None)
                else:
                    actor.state = "restarting"
            case "escalate":
                _give_up(actor)
                yield from self._feed(actor.group, FailureEscalated(ValueError("it failed")))
            case _:
                actor.state, actor.has_object = "stopped", False

    def _begin(self, actor: Actor, answer: Answer | None) -> Thread:
        if actor.state == "stopped":
            yield from self._answer(actor.group, answer)
            return
        actor.has_object = False
        self.starts_to_fail[actor.leaf.name] -= 1
        if self.starts_to_fail[actor.leaf.name] >= 0:
            yield from self._start_failed(actor, answer)
            return
        actor.state, actor.has_object = "running", True
        yield from self._answer(actor.group, answer)

    def _start_failed(self, actor: Actor, answer: Answer | None) -> Thread:
        is_current = self._undisturbed(actor.group)
        yield
        directive = self._decide(actor.group, actor.leaf.name, actor.leaf.restart, starting=True)
        yield
        match directive:
            case "restart":
                actor.state = "restarting"
                actor.orders.append(lambda: self._ordered_begin(actor, actor.begun_round, is_current, answer))
            case "escalate":
                _give_up(actor)
                yield from self._feed(actor.group, FailureEscalated(LookupError("it did not start")))
            case _:
                actor.state = "stopped"
                yield from self._answer(actor.group, answer)

    def _ordered_begin(self, actor: Actor, round: int, is_current: IsCurrent, answer: Answer | None) -> Thread:
        if is_current():
            actor.begun_round = round
            yield
            yield from self._begin(actor, answer)

    def _ordered_halt(self, actor: Actor, order: Halt[str]) -> Thread:
        if order.round >= actor.begun_round and actor.state not in ("down", "stopped"):
            ends = order.with_siblings and actor.leaf.restart == "temporary"
            actor.state, actor.has_object = "stopped" if ends else "restarting", False
        yield
        yield from self._answer(actor.group, Halted(order.member, order.round))

    def _ordered_give_up(self, actor: Actor, order: GiveUp[str]) -> Thread:
        if order.round >= actor.begun_round:
            _give_up(actor)
        yield
        yield from self._answer(actor.group, GivenUp(order.member, order.round))

    def _ordered_stop(self, actor: Actor, order: StopMember[str]) -> Thread:
        actor.state, actor.has_object = "stopped", False
        yield
        yield from self._answer(actor.group, Stopped(order.member, order.round))

    # --- a group

    def _undisturbed(self, group: str) -> IsCurrent:
        machine = self.machines[group]
        epoch = machine.epoch if machine.phase not in ("halted", "given up") else -1
        return lambda: self.machines[group].epoch == epoch

    def _decide(
        self,
        group: str,
        member: str,
        restart: Literal["permanent", "transient", "temporary"],
        *,
        starting: bool = False,
    ) -> Directive:
        wanted: Directive = "escalate" if self._groups[group].broken else "restart"
        (rule,) = handle(self.machines[group], ChildFailed(member, wanted, restart, 0.0, "", starting))
        assert isinstance(rule, Rule)
        return rule.directive

    def _answer(self, group: str, answer: Answer | None) -> Thread:
        if answer is not None:
            yield from self._feed(group, answer)

    def _feed(self, group: str, event: Event[str, Reply]) -> Thread:
        commands = handle(self.machines[group], event)
        for command in commands:
            yield
            yield from self._do(group, command)
        if isinstance(event, StopAsked) and group == self._root.name:
            self.stops += 1

    def _do(self, group: str, command: Command[str, Reply]) -> Thread:
        match command:
            case Halt() | Begin() | GiveUp() | StopMember() if command.member in self.actors:
                self._order(self.actors[command.member], command)
            case Halt(member=member, round=round):
                yield from self._feed(member, ParentHalts(round, command.cause, (group, Halted(member, round))))
            case Begin(member=member, round=round):
                is_current = self._is_current(group, command)
                if is_current():
                    self._above[member] = is_current
                    yield from self._feed(member, ParentBegins(round, 0.0, (group, Begun(member, round))))
            case GiveUp(member=member, round=round):
                yield from self._feed(member, ParentGivesUp(round, command.cause, (group, GivenUp(member, round))))
            case StopMember(member=member, round=round):
                yield from self._feed(member, StopAsked((group, Stopped(member, round))))
            case Done(reply=(above, event)):
                yield from self._feed(above, event)
            case Escalate() if group in self._parents:
                yield from self._member_failed(self._parents[group], group, command)
            case _:
                pass

    def _order(self, actor: Actor, command: Halt[str] | Begin[str] | GiveUp[str] | StopMember[str]) -> None:
        match command:
            case Halt():
                actor.orders.append(lambda: self._ordered_halt(actor, command))
            case Begin(round=round):
                is_current, answer = self._is_current(actor.group, command), Begun(command.member, round)
                actor.orders.append(lambda: self._ordered_begin(actor, round, is_current, answer))
            case GiveUp():
                actor.orders.append(lambda: self._ordered_give_up(actor, command))
                if self._chance.random() < LATE:
                    self._threads.append(self._answer(actor.group, GivenUp(command.member, command.round)))
            case StopMember():
                actor.orders.append(lambda: self._ordered_stop(actor, command))

    def _is_current(self, group: str, command: Begin[str]) -> IsCurrent:
        above = self._above[group] if command.with_group else always
        return lambda: self.machines[group].is_current(command.round) and above()

    def _member_failed(self, group: str, member: str, failed: Escalate) -> Thread:
        epoch = self.machines[group].epoch
        yield
        if self.machines[member].begun > failed.round:
            return
        yield
        match self._decide(group, member, "transient", starting=failed.starting):
            case "restart" if failed.starting:
                event: Event[str, Reply] = StartDue(member, epoch, 0.0)
            case "restart":
                event = RestartDue(member, failed.cause, 0.0)
            case "escalate":
                event = FailureEscalated(failed.cause)
            case _:
                event = StaysDown(member)
        yield
        yield from self._feed(group, event)


def _machine(group: Group, strategies: Mapping[OtpRule, type[Strategy]]) -> Machine:
    strategy = strategies[group.rule](max_restarts=group.max_restarts, within=3600)
    machine: Machine = GroupState(group.name, strategy, RestartBudget(strategy))
    machine.members += [child.name for child in group.children]
    return machine


def _give_up(actor: Actor) -> None:
    if actor.state != "stopped":
        actor.state, actor.has_object = "down", False
