"""What a wait can depend on: a run, a call, the reply of an actor, a seat, or several futures merged into one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, Union

from understudy.actors.threads.promise import Promise
from understudy.actors.threads.slots import Holder
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.scope import Clock, Scope


class Thing:
    """Something that runs wait for and that is neither a run nor an actor; its id is for people."""

    __slots__ = ("id",)

    def __init__(self, id: str) -> None:
        self.id = id


def link_of_thing(id: str) -> Link:
    """Return a link for something that runs use one after another; it is never over, and nobody calls it."""
    link = Link(Thing(id), id)
    link.begun_in = ()
    return link


class CallLink(Link):
    """A tool call that may hold a seat; it gives the seat back when its function returns, whatever its run waits for.

    Args:
        run: the run that makes the call.
    """

    __slots__ = ("run",)

    def __init__(self, run: Link) -> None:
        self.runner = run.runner
        self.run_id = ""  # a run that the call begins is begun in the run of the call
        self.begun_in = ()
        self.drop = None
        self.over = False
        self.permits = ()
        self.run = run


class CallScope(Scope):
    """The scope of a tool call that may hold a seat. A wait in it, or in a scope inside, keeps the seat."""

    __slots__ = ("link",)

    def __init__(self, deadline: float | None, clock: Clock, parent: Scope, link: CallLink) -> None:
        super().__init__(deadline, clock, parent)
        self.link = link


def call_of(waiter: Link, scope: Scope | None) -> CallLink | None:
    """Return the call of the run `waiter` that waits in `scope`; None if no call waits, or it can hold no seat."""
    while scope is not None:
        if type(scope) is CallScope and scope.link.run is waiter:
            return scope.link
        scope = scope.parent
    return None


class SlotHolder(Holder, Protocol):
    """What may hold a seat that runs wait for."""

    @property
    def link(self) -> Link | None:
        """The link that must go on before it gives the seat back."""
        ...


H = TypeVar("H", bound=SlotHolder)


class InLine(ABC):
    """A place in a queue for seats; each holder of a seat can end the wait."""

    __slots__ = ()

    @abstractmethod
    def holders(self) -> list[Link]:
        """Return the present holders of the seats; none if the wait is over, or a seat is free."""


class Line(Protocol[H]):
    """A queue before places that `H` may have, such as the mailbox of an executor."""

    def keep_waiting(self, member: H, /) -> list[H]:
        """Return those whose places a member in the queue waits for; none if it is not there, or a place is free."""
        ...


class Place(InLine, Generic[H]):
    """The place of `member` in a queue."""

    __slots__ = ("_line", "_member")

    def __init__(self, line: Line[H], member: H) -> None:
        self._line = line
        self._member = member

    def holders(self) -> list[Link]:
        found = [holder.link for holder in self._line.keep_waiting(self._member)]
        known = [link for link in found if link is not None]
        return known if len(known) == len(found) else []


class Asked:
    """The promise of the reply of an actor; the actor itself is never over."""

    __slots__ = ("actor", "promise")

    def __init__(self, actor: Link, promise: Promise[Any]) -> None:
        self.actor = actor
        self.promise = promise


class Expecting(Protocol):
    """A future that is told of its members one by one."""

    def expects(self, place: int) -> bool:
        """Whether the member at `place` may still decide how this future ends; any thread may ask, at any time."""
        ...


class Merged:
    """Several futures that are waited for as one.

    Args:
        future: the future that stands for them.
        members: what each of them waits for, by place.
        any_will_do: whether each of them can end the whole alone; else all of them must end.
    """

    __slots__ = ("any_will_do", "future", "members")

    def __init__(self, future: Expecting, members: Sequence[Awaited], *, any_will_do: bool) -> None:
        self.future = future
        self.members = members
        self.any_will_do = any_will_do


class Unseen(Merged):
    """A future that other code completes. A wait for it holds up nobody, for nobody sees for what that code waits."""

    __slots__ = ("promise",)

    def __init__(self, promise: Promise[object]) -> None:
        super().__init__(_Nobody(), (), any_will_do=False)
        self.promise = promise


class _Nobody:
    """Expects nothing."""

    __slots__ = ()

    def expects(self, place: int) -> bool:
        return False


class Driving:
    """Whether a group has something to do; while it has, it waits for nobody, for it may begin or end runs."""

    __slots__ = ("at_work",)

    def __init__(self) -> None:
        self.at_work = True

    def expects(self, place: int) -> bool:
        return not self.at_work


class Race(Merged):
    """Runs that come and go, each of which can end the wait; only the graph adds and removes them, under its lock."""

    __slots__ = ("driving", "links")

    def __init__(self) -> None:
        self.driving = Driving()
        self.links: list[Link] = []
        super().__init__(self.driving, self.links, any_will_do=True)


# `Union`, because a name in quotes has no `|` at run time.
Awaited: TypeAlias = Union[Link, Asked, InLine, "Merged", None]
"""None: completed by something outside the graph, so it cannot be part of a cycle."""


class Traceable(ABC):
    """A future that knows its place in the graph."""

    __slots__ = ()

    @abstractmethod
    def awaited(self) -> Awaited:
        """Return what a wait for this future depends on."""


def awaited_by(future: object) -> Awaited:
    """Return what a wait for `future` depends on; None for a future of the standard library or of the user."""
    return future.awaited() if isinstance(future, Traceable) else None


def links(awaited: Awaited) -> Sequence[Link]:
    """Return all runs and actors in it, done or not; without the holders of seats, for these change."""
    if isinstance(awaited, Merged):
        return [link for member in awaited.members for link in links(member)]
    if isinstance(awaited, Asked):
        return (awaited.actor,)
    return (awaited,) if isinstance(awaited, Link) else ()


def unseen(awaited: Awaited) -> bool:
    """Whether a future in it is completed by other code, and is not done yet."""
    if isinstance(awaited, Unseen):
        return not awaited.promise.done
    return isinstance(awaited, Merged) and any(unseen(member) for member in awaited.members)


def choices(awaited: Awaited) -> Sequence[Expecting]:
    """Return the futures in it that one of several members can end: each failure leaves fewer such members."""
    if not isinstance(awaited, Merged):
        return ()
    found = [awaited.future] if awaited.any_will_do else []
    return [*found, *(future for member in awaited.members for future in choices(member))]


def held_by(awaited: Awaited, held: Callable[[Link], bool]) -> list[Link]:
    """Return the runs and actors that keep it from ending, if those that are `held` never go on; none if it may still end.

    With a function that holds everybody, it returns all runs and actors that its end depends on.
    """
    if isinstance(awaited, Asked):
        return [awaited.actor] if not awaited.promise.done and held(awaited.actor) else []
    if isinstance(awaited, Link):
        return [awaited] if not awaited.over and held(awaited) else []
    if awaited is None:
        return []
    if isinstance(awaited, InLine):
        holders = awaited.holders()
        return holders if all(held(link) and not link.over for link in holders) else []
    found: list[Link] = []
    for place, member in enumerate(awaited.members):
        if not awaited.future.expects(place):
            continue
        holding = held_by(member, held)
        if awaited.any_will_do and not holding:
            return []  # this member may end it, also if it is done already and the future was not told
        found += holding
    return found
