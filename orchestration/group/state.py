"""What the runs of orchestrators remember: all that is saved of them, besides the definition."""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import Part

from .children import ChildState


@dataclass(slots=True, kw_only=True)
class GroupState:
    """What the run of a group remembers."""

    spending: Spending = field(default_factory=Spending)
    """What all inside of it has spent; whoever drives the run keeps it."""
    input: str | tuple[Part, ...]
    children: list[ChildState]
    order: list[int] = field(default_factory=list[int])
    """Positions of the children that are done or failed, in the order in which they ended."""

    @property
    def size(self) -> int:
        """How many parts of the definition the run knows of: children, or tasks."""
        return len(self.children)
