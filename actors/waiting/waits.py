"""A wait of a thread inside of a run or an actor: for a run, for a reply, or for several futures merged into one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar, Union

from understudy.actors.threads.promise import Promise
from understudy.actors.threads.slots import Holder, Slots
from understudy.errors import CircularAgentCall
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.scope import Clock, Scope


class Thing:
    """What runs wait for that is neither a run nor an actor; its id is for people."""

    __slots__ = ("id",)

    def __init__(self, id: str) -> None:
        self.id = id


def link_of_thing(id: str) -> Link:
    """Return a link for something that is used by one after another; it is never over, and nobody calls it."""
    link = Link(Thing(id), id)
    link.begun_in = ()
    return link


class CallLink(Link):
    """A tool call that may hold a slot; it gives that back when its function returns, whatever else its run waits for.

    Args:
        run: the run whose call it is.
    """

    __slots__ = ("run",)

    def __init__(self, run: Link) -> None:
        self.runner = run.runner
        self.run_id = ""  # nothing is begun in it: a run that the call begins is begun in its run
        self.begun_in = ()
        self.over = False
        self.permits = ()
        self.run = run


class CallScope(Scope):
    """The scope of a tool call that may hold a slot. What waits in it, or in a scope inside, keeps the slot."""

    __slots__ = ("link",)

    def __init__(self, deadline: float | None, clock: Clock, parent: Scope, link: CallLink) -> None:
        super().__init__(deadline, clock, parent)
        self.link = link


def call_of(waiter: Link, scope: Scope | None) -> CallLink | None:
    """Return the call of the run `waiter` that waits in `scope`; None if it can hold no slot, or the wait is of no call."""
    while scope is not None:
        if type(scope) is CallScope and scope.link.run is waiter:
            return scope.link
        scope = scope.parent
    return None


class SlotHolder(Holder, Protocol):
    """What may hold a slot that runs wait for."""

    @property
    def link(self) -> Link | None:
        """What must go on for it to give the slot back."""
        ...


H = TypeVar("H", bound=SlotHolder)


class InLine(ABC):
    """A place in a line before several slots; any one who holds a slot can end the wait."""

    __slots__ = ()

    @abstractmethod
    def holders(self) -> list[Link]:
        """Return who holds the slots at this moment; nobody if the wait is over, or one of them is free."""


class Place(InLine, Generic[H]):
    """The place of `member` in the line before `slots`."""

    __slots__ = ("_member", "_slots")

    def __init__(self, slots: Slots[H], member: H) -> None:
        self._slots = slots
        self._member = member

    def holders(self) -> list[Link]:
        found = [holder.link for holder in self._slots.keep_waiting(self._member)]
        known = [link for link in found if link is not None]
        return known if len(known) == len(found) else []


class Asked:
    """The reply that an actor owes; the actor itself is never over."""

    __slots__ = ("actor", "reply")

    def __init__(self, actor: Link, reply: Promise[object]) -> None:
        self.actor = actor
        self.reply = reply


class Expecting(Protocol):
    """A future that hears of its members one by one."""

    def expects(self, place: int) -> bool:
        """Whether the member at `place` may still decide how this future ends; any thread may ask, at any time."""
        ...


class Merged:
    """Several futures that are waited for as one.

    Args:
        future: who stands for them.
        members: what it was made of, by place.
        any_will_do: whether one of them can end the whole; else all of them must end.
    """

    __slots__ = ("any_will_do", "future", "members")

    def __init__(self, future: Expecting, members: Sequence[Awaited], *, any_will_do: bool) -> None:
        self.future = future
        self.members = members
        self.any_will_do = any_will_do


class Driving:
    """Whether a group is driven in this moment; if so it waits for nobody, for its driver may begin or end anything."""

    __slots__ = ("at_work",)

    def __init__(self) -> None:
        self.at_work = True

    def expects(self, place: int) -> bool:
        return not self.at_work


class Race(Merged):
    """Runs of which one will do, and which come and go; only the graph adds and removes some, under its lock."""

    __slots__ = ("driving", "links")

    def __init__(self) -> None:
        self.driving = Driving()
        self.links: list[Link] = []
        super().__init__(self.driving, self.links, any_will_do=True)


# `Union`, because a name in quotes has no `|` at run time.
Awaited: TypeAlias = Union[Link, Asked, InLine, "Merged", None]
"""None is what can end by means that nobody here knows of: it never leads back."""


class Traceable(ABC):
    """A future that can tell what it waits for."""

    __slots__ = ()

    @abstractmethod
    def awaited(self) -> Awaited:
        """Return what whoever waits for this future waits for."""


def awaited_by(future: object) -> Awaited:
    """Return what a wait for `future` is for; nothing is known of the standard library's, nor of a user's own kinds."""
    return future.awaited() if isinstance(future, Traceable) else None


def links(awaited: Awaited) -> Sequence[Link]:
    """Return all runs and actors in it, done or not; not who holds slots, for these change."""
    if isinstance(awaited, Merged):
        return [link for member in awaited.members for link in links(member)]
    if isinstance(awaited, Asked):
        return (awaited.actor,)
    return (awaited,) if isinstance(awaited, Link) else ()


def choices(awaited: Awaited) -> Sequence[Expecting]:
    """Return the futures in it that one of several can end: each failure leaves fewer of those."""
    if not isinstance(awaited, Merged):
        return ()
    found = [awaited.future] if awaited.any_will_do else []
    return [*found, *(future for member in awaited.members for future in choices(member))]


def held_by(awaited: Awaited, held: Callable[[Link], bool]) -> list[Link]:
    """Return which of the runs and actors that are `held` keep it from ever ending; none if it may end all the same.

    Asked with a function that holds everybody, it returns whoever has a say in whether it ends.
    """
    if isinstance(awaited, Asked):
        return [awaited.actor] if not awaited.reply.done and held(awaited.actor) else []
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
            return []  # also one that is done and was not heard of yet: it may be the one
        found += holding
    return found


Refuse: TypeAlias = Callable[[CircularAgentCall], object]
"""Quick, and not called under the lock."""


class Wait:
    """One thread of `waiter` that blocks until `awaited` is over; all threads of a waiter's must go on for it to end.

    Attributes:
        links: who is in `awaited`, done or not.
        choices: the futures in it that one of several can end.
        refuse: wakes the thread with an error; None where nothing but another's wait can close a circle through this one.
        of_call: the same wait as one of the tool call that it is part of, if that may hold a slot.
    """

    __slots__ = ("_scope", "awaited", "choices", "links", "of_call", "refuse", "waiter")

    def __init__(self, waiter: Link, awaited: Awaited, scope: Scope | None, refuse: Refuse | None) -> None:
        self.waiter = waiter
        self.awaited = awaited
        self.links: Sequence[Link]
        self.choices: Sequence[Expecting] = ()
        if isinstance(awaited, Asked):  # the common cases first: an ask, a run
            self.links = (awaited.actor,)
        elif isinstance(awaited, Link):
            self.links = (awaited,)
        elif isinstance(awaited, Race):
            self.links, self.choices = awaited.links, (awaited.driving,)
        else:
            self.links, self.choices = links(awaited), choices(awaited)
        self.refuse = refuse
        self.of_call: Wait | None = None
        self._scope = scope

    @property
    def holds(self) -> bool:
        """Whether the waiter cannot go on before this wait ends."""
        # The thread of a tool that was given up may go on waiting, but its run does not wait for it.
        scope = self._scope
        return scope is None or not (scope.cancelled or scope.remaining() == 0.0)

    def held_by(self, held: Callable[[Link], bool]) -> list[Link]:
        """Return who of those that are `held` keeps the waiter from going on; none if it may go on all the same."""
        return held_by(self.awaited, held) if self.holds else []

    def calls(self, these: Container[Link]) -> bool:
        """Whether the waiter called some of `these`, and cannot go on before they are over."""
        return bool(self.held_by(lambda link: link in these and self.asks(link)))

    def asks(self, link: Link) -> bool:
        """Whether `link` was begun by the waiter or inside of it: then to wait for it is to call it."""
        return self.waiter.run_id in link.begun_in


class RaceWait(Wait):
    """The wait of a group for the first of its children to succeed; no thread blocks.

    Attributes:
        race: the children.
    """

    __slots__ = ("race",)

    def __init__(self, waiter: Link, scope: Scope | None) -> None:
        self.race = Race()
        super().__init__(waiter, self.race, scope, None)
