"""`MergeRule`: when the endings of several members decide the ending of the whole, and which members decide it.

A rule knows members by their places only. What a member brought, a value, a result or an error, stays with the caller:
`ParallelRun` merges children by these rules, and `collect` and `first` merge futures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from .spec import GroupSpec


@dataclass(frozen=True, slots=True)
class OneDecides:
    """The whole ends as the member at `place` ended."""

    place: int


@dataclass(frozen=True, slots=True)
class AllDecide:
    """The whole succeeds, and the endings of all members are its result."""


@dataclass(frozen=True, slots=True)
class NoneSucceeded:
    """The whole fails with the errors of all members."""


Verdict: TypeAlias = OneDecides | AllDecide | NoneSucceeded


@dataclass(slots=True)
class MemberEnds:
    """The places of the members that ended, by the kind of their ending, in the order in which they ended."""

    total: int
    succeeded: list[int] = field(default_factory=list[int])
    failed: list[int] = field(default_factory=list[int])
    paused: list[int] = field(default_factory=list[int])
    """Only members whose pause is an ending. The child of a group goes on after its pause, so it is not one of them."""

    @property
    def complete(self) -> bool:
        """Whether all members have ended."""
        return len(self.succeeded) + len(self.failed) + len(self.paused) == self.total


class MergeRule(ABC):
    """Decides how the whole ends. It has no state; it is asked after each ending, so it must not go through all members."""

    __slots__ = ()
    any_will_do: ClassVar[bool] = False
    """Whether one success is enough; otherwise the whole needs every member."""
    keeps_errors: ClassVar[bool] = False
    """Whether an error stands beside the values of the other members and does not end the whole."""

    @abstractmethod
    def verdict(self, ends: MemberEnds) -> Verdict | None:
        """Return the decision once it is certain, else None."""

    def counted(self, ends: MemberEnds) -> Sequence[int]:
        """Return the places whose values count, in the order of the members."""
        return range(ends.total)


class AllValues(MergeRule):
    """All members must succeed; the first failure is the failure of the whole."""

    __slots__ = ()

    def verdict(self, ends: MemberEnds) -> Verdict | None:
        if ends.failed:
            return OneDecides(ends.failed[0])
        return AllDecide() if ends.complete else None


class ValuesAndErrors(MergeRule):
    """All members must end; the whole fails only if each of them failed."""

    __slots__ = ()
    keeps_errors = True

    def verdict(self, ends: MemberEnds) -> Verdict | None:
        if not ends.complete:
            return None
        return NoneSucceeded() if len(ends.failed) == ends.total else AllDecide()


class FirstSuccess(MergeRule):
    """The first success decides. A pause is no success: it decides only if all have ended, and then the lowest place."""

    __slots__ = ()
    any_will_do = True

    def verdict(self, ends: MemberEnds) -> Verdict | None:
        if ends.succeeded:
            return OneDecides(ends.succeeded[0])
        if not ends.complete:
            return None
        return OneDecides(min(ends.paused)) if ends.paused else NoneSucceeded()

    def counted(self, ends: MemberEnds) -> Sequence[int]:
        return ends.succeeded[:1]


def rule_of(spec: GroupSpec) -> MergeRule:
    """Return the rule of a parallel group."""
    if spec.merge == "first":
        return FirstSuccess()
    return ValuesAndErrors() if spec.on_error == "collect" else AllValues()
