"""What OTP's supervisors would make of failures: a small model that has neither threads nor time.

A storm of failures that come at the same time may be taken in any order, and a failure of an actor that another one of the
storm restarts may cost nothing. So a storm leads from a set of worlds to a set of worlds, each of which is allowed.

The rules are those of the Erlang/OTP documentation, Supervisor Behaviour, and `supervisor.erl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, TypeAlias

from understudy.orchestration.supervision.restarts import Restart

Rule: TypeAlias = Literal["one for one", "one for all", "rest for one"]


@dataclass(frozen=True)
class Leaf:
    """An actor."""

    name: str
    restart: Restart


@dataclass(frozen=True)
class Group:
    """A supervisor. One whose decider is `broken` escalates every failure."""

    name: str
    rule: Rule
    max_restarts: int
    children: tuple[Leaf | Group, ...]
    broken: bool = False

    def below(self) -> Iterator[Leaf]:
        """Return all actors, in the order of their start."""
        for child in self.children:
            if isinstance(child, Leaf):
                yield child
            else:
                yield from child.below()

    def inner(self) -> Iterator[Group]:
        """Return this group and all groups inside of it."""
        yield self
        for child in self.children:
            if isinstance(child, Group):
                yield from child.inner()

    def affected(self, child: Leaf | Group) -> tuple[Leaf | Group, ...]:
        """Return who is restarted when `child` is."""
        if self.rule == "one for one":
            return (child,)
        return self.children if self.rule == "one for all" else self.children[self.children.index(child) :]


@dataclass(frozen=True)
class World:
    """Who has ended, how many restarts each group has spent, and whether the outermost one was given up."""

    ended: frozenset[str] = frozenset()
    spent: frozenset[tuple[str, int]] = frozenset()
    down: bool = False

    def spend(self, group: Group) -> World | None:
        """Take a restart; None if there is none left."""
        spent = dict(self.spent)
        number = spent.get(group.name, 0)
        if number >= group.max_restarts:
            return None
        return replace(self, spent=frozenset((spent | {group.name: number + 1}).items()))

    def renew(self, group: Group) -> World:
        """Reset the restart budgets of the groups inside a restarted child."""
        names = {each.name for each in group.inner()}
        return replace(self, spent=frozenset([pair for pair in self.spent if pair[0] not in names]))


@dataclass(frozen=True)
class Failure:
    """An actor fails: at a message, or, if it is restarted at all, at its next start."""

    actor: str
    at_start: bool = False


Reached: TypeAlias = tuple[World, frozenset[str]]
"""A world, and the actors and groups that the storm has restarted or given up on the way to it."""


@dataclass(frozen=True)
class Model:
    """The rules for one tree."""

    root: Group

    @cached_property
    def _leaves(self) -> dict[str, Leaf]:
        return {leaf.name: leaf for leaf in self.root.below()}

    @cached_property
    def _parents(self) -> dict[str, Group]:
        return {child.name: group for group in self.root.inner() for child in group.children}

    def storm(self, worlds: set[World], failures: tuple[Failure, ...]) -> set[World]:
        """Return the worlds that failures at the same time may lead to."""
        found: set[World] = set()
        seen: set[tuple[Reached, tuple[Failure, ...]]] = set()
        open_: list[tuple[Reached, tuple[Failure, ...]]] = [((world, frozenset()), failures) for world in worlds]
        while open_:
            entry = open_.pop()
            if entry in seen:
                continue
            seen.add(entry)
            (world, touched), left = entry
            if all(failure.at_start for failure in left):
                found.add(world)  # starts that did not come
            for index, failure in enumerate(left):
                rest = left[:index] + left[index + 1 :]
                open_ += [(reached, rest) for reached in self._fail(world, touched, failure, alone=len(failures) == 1)]
        return found

    def _fail(self, world: World, touched: frozenset[str], failure: Failure, *, alone: bool) -> Iterator[Reached]:
        leaf, group = self._leaves[failure.actor], self._parents[failure.actor]
        if failure.at_start and failure.actor not in touched:
            return  # nobody starts it
        if world.down or leaf.name in world.ended or leaf.name in touched:
            yield world, touched
        if world.down or leaf.name in world.ended:
            return
        if group.broken:
            yield from self._escalate(world, touched, group, alone=alone, at_start=failure.at_start)
        elif leaf.restart == "temporary":
            yield replace(world, ended=world.ended | {leaf.name}), touched
        elif (spent := world.spend(group)) is None:
            yield from self._escalate(world, touched, group, alone=alone, at_start=failure.at_start)
        elif failure.at_start:
            yield spent, touched  # it alone begins again
        else:
            yield from self._regroup(spent, touched, group, leaf, alone=alone)

    def _escalate(
        self, world: World, touched: frozenset[str], group: Group, *, alone: bool, at_start: bool
    ) -> Iterator[Reached]:
        hit = touched | names_of(group)
        if group is self.root:
            yield replace(world, down=True), hit
            return
        parent = self._parents[group.name]
        if group.name in touched:  # it is being restarted anyway
            yield world.renew(group), hit
        if parent.broken or (spent := world.spend(parent)) is None:
            yield from self._escalate(world, hit, parent, alone=alone, at_start=at_start)
            return
        if at_start:
            yield spent.renew(group), hit  # it alone begins again
        yield from self._regroup(spent, hit, parent, group, alone=alone)

    def _regroup(
        self, world: World, touched: frozenset[str], group: Group, failed: Leaf | Group, *, alone: bool
    ) -> Iterator[Reached]:
        affected = group.affected(failed)
        temporary = [
            each.name for each in affected if isinstance(each, Leaf) and each.restart == "temporary" and each != failed
        ]
        for each in affected:
            touched |= names_of(each)
            world = world.renew(each) if isinstance(each, Group) else world
        # Others of a storm may end the restart before all of these had their turn.
        for number in [len(temporary)] if alone else range(len(temporary) + 1):
            for some in combinations(temporary, number):
                yield replace(world, ended=world.ended | set(some)), touched


def names_of(each: Leaf | Group) -> frozenset[str]:
    """Return the names of an actor, or of a group and all inside of it."""
    if isinstance(each, Leaf):
        return frozenset([each.name])
    return frozenset([group.name for group in each.inner()] + [leaf.name for leaf in each.below()])
