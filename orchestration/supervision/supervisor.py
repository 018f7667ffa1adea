"""`Supervisor` and `Child`: supervision trees, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

from understudy.orchestration.definitions.method_checks import fault_of_actor
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.actors.messages import Mailbox
from understudy.vocabulary.checks import checked_seconds, checked_text, is_async

from .restarts import OneForOne, Restart, Strategy

_USUAL = Mailbox()  # Made once: a burst of new agents makes a child for each.


@dataclass(frozen=True, slots=True)
class Child:
    """How a supervisor starts one actor."""

    actor: Callable[[], object] | Runner[object]
    """The class, or a function that makes the object; called again for each restart. Or a runner."""
    name: str = ""
    """Unique in the system; made from the class's name if empty. For a runner it is the runner's id."""
    restart: Restart = "transient"
    """`permanent` is restarted whenever it ends, `transient` when it fails, `temporary` never."""
    mailbox: Mailbox = _USUAL
    turn_timeout: float | None = None
    """Seconds in which a message must be handled; then the actor fails and a new object goes on. None for no limit."""

    def __post_init__(self) -> None:
        runner = self.runner
        if runner is not None:
            self._check_runner(runner)
        elif not callable(self.actor):
            raise TypeError(f"a child is a class or a function that makes an actor, or an agent; got {self.actor!r}")
        elif fault := fault_of_actor(self.actor) if isinstance(self.actor, type) else "":
            raise TypeError(fault)
        elif is_async(self.actor):
            raise TypeError(f"what makes an actor must be a plain function, not async def; got {self.actor!r}")
        if self.restart not in ("permanent", "transient", "temporary"):
            raise ValueError(f"restart must be 'permanent', 'transient' or 'temporary', got {self.restart!r}")
        checked_text("a child's name", self.name)
        if not isinstance(self.mailbox, Mailbox):
            raise TypeError(f"mailbox must be Mailbox(…), got {self.mailbox!r}")
        checked_seconds("turn_timeout", self.turn_timeout)

    @property
    def runner(self) -> Runner[object] | None:
        """The runner, if the child is one."""
        given: object = self.actor
        return cast("Runner[object]", given) if isinstance(given, Runner) else None

    def _check_runner(self, runner: Runner[object]) -> None:
        if self.name not in ("", runner.id):
            raise ValueError(f"agent {runner.id!r} goes by its id, and not by the name {self.name!r}")
        if self.mailbox != _USUAL or self.turn_timeout is not None:
            raise ValueError(f"agent {runner.id!r} takes runs, which no mailbox and no turn_timeout bounds")
        object.__setattr__(self, "name", runner.id)


class Supervisor:
    """A group of actors with one strategy; a supervisor may stand in a group as well.

    Args:
        id: names the group; part of its children's addresses.
        children: classes, functions, agents, `Child`s or supervisors; started in this order, stopped in reverse.
        strategy: what happens when one fails.

    Raises:
        ValueError: there are no children, or the id is empty.
    """

    __slots__ = ("children", "id", "strategy")

    def __init__(self, id: str, children: Iterable[ChildLike], *, strategy: Strategy | None = None) -> None:
        checked_text("a supervisor's id", id)
        if strategy is not None and not isinstance(strategy, Strategy):
            raise TypeError(f"supervisor {id!r}: strategy must be OneForOne(…) or another, got {strategy!r}")
        if isinstance(children, (str, Runner, Child, Supervisor)) or not isinstance(children, Iterable):
            raise TypeError(
                f"supervisor {id!r}: children must be a list of actors' classes or agents, got {children!r}"
            )
        children = tuple(children)
        if not id or "/" in id:
            raise ValueError(f"a supervisor's id must not be empty or hold a '/', got {id!r}")
        self.id = id
        for each in children:
            if not isinstance(each, (Runner, Child, Supervisor)) and not callable(each):
                raise TypeError(f"supervisor {id!r}: children must hold actors' classes or agents, got {each!r} in it")
        self.children = tuple([c if isinstance(c, (Child, Supervisor)) else Child(c) for c in children])
        self.strategy = strategy if strategy is not None else OneForOne()
        if not self.children:
            raise ValueError(f"supervisor {id!r} has no children")

    def everyone(self) -> Iterator[Child]:
        """Iterate over the children, and those of the supervisors among them."""
        for child in self.children:
            if isinstance(child, Supervisor):
                yield from child.everyone()
            else:
                yield child

    def __repr__(self) -> str:
        return f"Supervisor({self.id!r}, {len(self.children)} children, {type(self.strategy).__name__})"


ChildLike: TypeAlias = "Callable[[], object] | Runner[object] | Child | Supervisor"
