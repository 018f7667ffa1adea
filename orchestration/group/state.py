"""The state of an orchestrator's run, as data: everything that is saved except the definition."""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Part

from .children import ChildState


@dataclass(slots=True, kw_only=True)
class GroupState:
    """The state of a group's run."""

    spending: Spending = field(default_factory=Spending)
    """The spending of all runs inside of this one; the runtime updates it."""
    input: str | tuple[Part, ...]
    children: list[ChildState]
    order: list[int] = field(default_factory=list[int])
    """Positions of the done and failed children, in the order in which they ended.

    If errors are collected, children at a limit are among them.
    """

    @property
    def size(self) -> int:
        """How many children or tasks the state has."""
        return len(self.children)
