"""`Supervisor` and `Child`: who watches over whom, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from understudy.messaging import Mailbox

from .supervision import OneForOne, Restart, Strategy


@dataclass(frozen=True, slots=True)
class Child:
    """How a supervisor starts one actor."""

    actor: Callable[[], object]
    """The class, or a function that makes the object; called again for each restart."""
    name: str = ""
    """Unique in the system; made from the class's name if empty."""
    restart: Restart = "transient"
    """`permanent` is restarted whenever it ends, `transient` when it fails, `temporary` never."""
    mailbox: Mailbox = field(default_factory=Mailbox)

    def __post_init__(self) -> None:
        if not callable(self.actor):
            raise TypeError(f"a child is a class or a function that makes an actor, got {self.actor!r}")
        if self.restart not in ("permanent", "transient", "temporary"):
            raise ValueError(f"restart must be 'permanent', 'transient' or 'temporary', got {self.restart!r}")


class Supervisor:
    """A group of actors with one strategy; a supervisor may stand in a group as well.

    Args:
        id: names the group; part of its children's addresses.
        children: classes, functions, `Child`s or supervisors; started in this order, stopped in reverse.
        strategy: what happens when one fails.

    Raises:
        ValueError: there are no children, or the id is empty.
    """

    __slots__ = ("children", "id", "strategy")

    def __init__(self, id: str, children: Iterable[ChildLike], *, strategy: Strategy | None = None) -> None:
        if not id or "/" in id:
            raise ValueError(f"a supervisor's id must not be empty or hold a '/', got {id!r}")
        self.id = id
        self.children = tuple([c if isinstance(c, (Child, Supervisor)) else Child(c) for c in children])
        self.strategy = strategy if strategy is not None else OneForOne()
        if not self.children:
            raise ValueError(f"supervisor {id!r} has no children")

    def __repr__(self) -> str:
        return f"Supervisor({self.id!r}, {len(self.children)} children, {type(self.strategy).__name__})"


ChildLike: TypeAlias = "Callable[[], object] | Child | Supervisor"
