"""What a thread inside of a run or an actor waits for: a run, a reply, or several futures merged into one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, Union

from understudy.ancestry import Link

from .reply import Reply


class Asked:
    """The reply that an actor owes; the actor itself is never over."""

    __slots__ = ("actor", "reply")

    def __init__(self, actor: Link, reply: Reply[object]) -> None:
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


# `Union`, because a name in quotes has no `|` at run time.
Awaited: TypeAlias = Union[Link, Asked, "Merged", None]
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
    """Return all runs and actors in it, done or not."""
    if isinstance(awaited, Merged):
        return [link for member in awaited.members for link in links(member)]
    if isinstance(awaited, Asked):
        return (awaited.actor,)
    return () if awaited is None else (awaited,)


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
    found: list[Link] = []
    for place, member in enumerate(awaited.members):
        if not awaited.future.expects(place):
            continue
        holding = held_by(member, held)
        if awaited.any_will_do and not holding:
            return []  # also one that is done and was not heard of yet: it may be the one
        found += holding
    return found
