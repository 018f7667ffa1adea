"""A wait of a thread inside of a run or an actor."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from understudy.errors import CircularAgentCall
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.scope import Scope

from .awaited import Asked, Awaited, Expecting, Race, call_of, choices, held_by, links

Refuse: TypeAlias = Callable[[CircularAgentCall], object]
"""Wakes a waiting thread with an error. It is quick, and is not called under the lock."""


class Wait:
    """One thread of `waiter` that blocks until `awaited` is over. A waiter ends only if all its threads go on.

    Attributes:
        links: the runs and actors in `awaited`, done or not.
        choices: the futures in it that one of several members can end.
        refuse: wakes the thread with an error; None if only the wait of another thread can close a cycle through this one.
        of_call: the same wait with the tool call as its waiter, if it is part of one that may hold a seat.
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
        # The thread of a tool call that was given up may wait on, but its run does not wait for it.
        scope = self._scope
        return scope is None or not (scope.cancelled or scope.remaining() == 0.0)

    def held_by(self, held: Callable[[Link], bool]) -> list[Link]:
        """Return the runs and actors that keep the waiter from going on, if those that are `held` never do; or none."""
        return held_by(self.awaited, held) if self.holds else []

    def calls(self, these: Container[Link]) -> bool:
        """Whether the waiter has called some of `these`, and cannot go on before they are over."""
        return bool(self.held_by(lambda link: link in these and self.asks(link)))

    def asks(self, link: Link) -> bool:
        """Whether `link` was begun by the waiter or inside of it; a wait for such a link is a call."""
        return self.waiter.run_id in link.begun_in


class RaceWait(Wait):
    """The wait of a group for the first success among its children, where no thread blocks; or of a map for the next answer.

    Attributes:
        race: the children.
    """

    __slots__ = ("race",)

    def __init__(self, waiter: Link, scope: Scope | None) -> None:
        self.race = Race()
        super().__init__(waiter, self.race, scope, None)
        call = call_of(waiter, scope)
        if call is not None:  # a map in a tool, which may hold a seat
            self.of_call = Wait(call, self.race, None, None)

    @property
    def parts(self) -> Sequence[Wait]:
        """The wait, and that of its tool call."""
        return (self,) if self.of_call is None else (self, self.of_call)
