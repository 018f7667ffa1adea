"""The wait-for graph of this process: who waits for whom, so that a circle is refused by whoever would close it.

It spans all systems, for a circle may. Only waits from inside of runs and actors are in it: what waits outside waits for a
run, and no run for it. A wait through other means than our futures (an event, a queue, a standard future) is not seen.
A wait may need several to end or any one of several, so it is not enough that a way leads back: asked is who can never go on.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from understudy.errors import CircularAgentCall
from understudy.vocabulary.context.ancestry import (
    Ancestry,
    Link,
    Runner,
    check_call,
    check_depth,
    circular,
    current_ancestry,
)
from understudy.vocabulary.context.scope import Scope, current_scope

from .waits import Awaited, CallLink, CallScope, Expecting, InLine, RaceWait, Refuse, Wait, call_of, held_by

Walk: TypeAlias = dict[Link, Link | None]
"""What was reached, nearest first -> from where; the start from nowhere."""

Waits: TypeAlias = dict[Wait, None]
"""In the order in which they began, each once."""

T = TypeVar("T")


class WaitGraph:
    """Who waits for whom. Safe to use from any thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a forked child, where the parent's threads do not wait."""
        self._lock = threading.Lock()
        """Guards all tables: of two waits that close a circle together, one sees the other. No user code runs under it."""
        self._by_waiter: dict[Link, Waits] = {}
        self._by_target: dict[Link, Waits] = {}
        """Whom a wait may depend on -> the waits, also those for which it is over by now."""
        self._by_choice: dict[Expecting, Waits] = {}
        self._in_line: Waits = {}
        """Those for slots. Who holds one is asked when it matters, and is no target."""

    def __len__(self) -> int:
        return sum(len(waits) for link, waits in list(self._by_waiter.items()) if not isinstance(link, CallLink))

    def check(self, callers: Ancestry, runner: Runner) -> None:
        """Refuse a run of `runner` that `callers` would wait for; call it before anything is done for that run.

        Raises:
            CircularAgentCall: `runner` would wait for itself.
            RunError: too many would wait for one another.
        """
        check_call(callers, runner)
        with self._lock:
            above = self._above(callers[-1])
            deep = self._deep_above(callers[-1], above)
        for link in above:
            if link.runner is runner:
                raise circular(*_ids(_way(above, link)), runner.id)
        way = _way(deep, _farthest(deep))
        check_depth(len(way) + 1, way[0].runner.id, runner.id)

    @contextmanager
    def waiting(self, callers: Ancestry, awaited: Awaited, refuse: Refuse | None = None) -> Generator[None]:
        """Have the last of `callers` wait for `awaited` inside the `with` block.

        Args:
            callers: who waits, outermost first.
            awaited: what for.
            refuse: called when the wait comes to close a circle later, because it lost its other ways out.

        Raises:
            CircularAgentCall: that would close a circle; nothing waits then.
            RunError: too many would wait for one another.
        """
        wait = self.begin(callers[-1], awaited, current_scope(), refuse)
        try:
            yield
        finally:
            self.end(wait)

    def begin(self, waiter: Link, awaited: Awaited, scope: Scope | None, refuse: Refuse | None = None) -> Wait:
        """Have `waiter` wait until `end`, without a thread that blocks; for what stands in line.

        Args:
            waiter: who waits.
            awaited: what for.
            scope: what the wait is part of; when that is cancelled or over, it holds nobody up any more.
            refuse: as for `waiting`.

        Raises:
            CircularAgentCall: that would close a circle; nothing waits then.
            RunError: too many would wait for one another.
        """
        wait = _wait_of(waiter, awaited, scope, refuse)
        with self._lock:
            self._add(wait)
            try:
                self._refuse_circle(wait)
            except BaseException:
                self._remove(wait)
                raise
        return wait

    def begin_unawaited(self, waiter: Link, awaited: Awaited, scope: Scope | None) -> Wait:
        """Have `waiter` wait as by `begin`; for a run that nobody knows of yet, and whose wait so closes no circle."""
        wait = Wait(waiter, awaited, scope, None)
        with self._lock:
            self._add(wait)
        return wait

    def end(self, wait: Wait) -> None:
        """End a wait that `begin` returned."""
        with self._lock:
            self._remove(wait)

    def end_all(self, waiter: Link) -> None:
        """End all waits of a run that is over, whatever became of those who were to end them."""
        with self._lock:
            for wait in list(self._by_waiter.get(waiter, ())):
                self._remove(wait)

    def tightened(self, future: Expecting) -> None:
        """Refuse the waits for `future` that close a circle now that one more of its members cannot end it."""
        refused: list[tuple[Refuse, CircularAgentCall]] = []
        with self._lock:
            for wait in list(self._by_choice.get(future, ())):
                path = None if wait.refuse is None else self._circle(wait)
                if path is not None and wait.refuse is not None:
                    self._remove(wait)  # so that of two that close one circle only the first is refused
                    refused.append((wait.refuse, circular(*_ids(path))))
        for refuse, error in refused:
            refuse(error)

    # --- races: waits for any one of several runs, which come and go

    def join(self, wait: RaceWait, link: Link) -> None:
        """Have a new run take part, which waits for nobody yet; so it closes no circle."""
        with self._lock:
            wait.race.links.append(link)
            if len(wait.race.links) == 1:
                self._add(wait)
            else:
                self._by_target.setdefault(link, {})[wait] = None

    def leave(self, wait: RaceWait, link: Link) -> None:
        """Have a run take part no more; the wait is over when nobody does."""
        with self._lock:
            if len(wait.race.links) == 1:
                self._remove(wait)
            else:
                _take_out(self._by_target, link, wait)
            wait.race.links.remove(link)

    def settle(self, wait: RaceWait) -> Sequence[Link]:
        """Note that only those who take part can end the race, for the driver has done what there was to do.

        Returns:
            A way from the waiter to itself, if all of them are stuck: then the driver has something to do after all, and
            the next one that comes here gets no such way before it has. Else nothing.
        """
        driving = wait.race.driving
        with self._lock:
            driving.at_work = False
            may_close = all(link in self._by_waiter for link in wait.race.links)  # else a child waits for nobody
            way = self._circle(wait) if may_close else None
            driving.at_work = way is not None
        return way or ()

    def _add(self, wait: Wait) -> None:
        self._by_waiter.setdefault(wait.waiter, {})[wait] = None
        for link in wait.links:
            self._by_target.setdefault(link, {})[wait] = None
        for future in wait.choices:
            self._by_choice.setdefault(future, {})[wait] = None
        if isinstance(wait.awaited, InLine):
            self._in_line[wait] = None
        if wait.of_call is not None:
            self._add(wait.of_call)

    def _remove(self, wait: Wait) -> None:
        _take_out(self._by_waiter, wait.waiter, wait)
        for link in wait.links:
            _take_out(self._by_target, link, wait)
        for future in wait.choices:
            _take_out(self._by_choice, future, wait)
        self._in_line.pop(wait, None)
        if wait.of_call is not None:
            self._remove(wait.of_call)

    # --- circles: who can never go on; `wait` is in the tables already

    def _refuse_circle(self, wait: Wait) -> None:
        path = self._circle(wait)
        if path is not None:
            raise circular(*_ids(path))
        for link in wait.links:
            if wait.asks(link):
                self._refuse_recursion(wait)
                break

    def _circle(self, wait: Wait) -> list[Link] | None:
        """Return a way from the waiter to itself, or from the call that waits, along waits that can never end, `wait` first."""
        path = self._circle_of(wait) if self._in_line or wait.waiter in self._by_target else None
        if path is None and wait.of_call is not None and self._in_line:
            path = self._circle_of(wait.of_call)
        return path

    def _circle_of(self, wait: Wait) -> list[Link] | None:
        waiter = wait.waiter
        reached = self._below(wait.held_by(_anybody), _anybody)
        if waiter not in reached:
            return None
        stuck = self._stuck(reached).__contains__
        circle = self._below(wait.held_by(stuck), stuck)
        return [waiter, *reversed(_way(circle, waiter))] if waiter in circle else None

    def _stuck(self, suspects: Walk) -> set[Link]:
        """Return those who can never go on, if nobody but `suspects` keeps them from it.

        All are held to be stuck until one is found whose waits can all end; then those who wait for it may go on too.
        """
        stuck, due = set(suspects), set(suspects)
        waiters: dict[Link, list[Link]] = {}
        for link in suspects:
            for wait in self._by_waiter.get(link, ()):
                for held in wait.held_by(stuck.__contains__):
                    waiters.setdefault(held, []).append(link)
        queue = deque(reversed(suspects))  # the farthest first, for they are the most likely to go on
        while queue:
            link = queue.popleft()
            due.discard(link)
            if link in stuck and not any(w.held_by(stuck.__contains__) for w in self._by_waiter.get(link, ())):
                stuck.discard(link)
                for waiter in [each for each in waiters.get(link, ()) if each in stuck]:
                    if waiter not in due:
                        due.add(waiter)
                        queue.append(waiter)
        return stuck

    def _below(self, start: Sequence[Link], held: Callable[[Link], bool]) -> Walk:
        """Return `start`, and who of those that are `held` keeps them from going on, directly or through others."""
        waits = self._by_waiter
        return _walk(start, lambda reached: [link for w in waits.get(reached, ()) for link in w.held_by(held)])

    # --- recursion: who is called again and again, although nobody may be stuck

    def _refuse_recursion(self, wait: Wait) -> None:
        """Refuse a runner that would be reached through itself: it may not block, but it has no end of its own."""
        asked = held_by(wait.awaited, wait.asks)
        if not asked:  # what it did not begin will do as well
            return
        above, below = self._above(wait.waiter), self._below_asked(asked)
        nearest = {id(link.runner): link for link in reversed(above)}
        again = [link for link in below if id(link.runner) in nearest and link is not wait.waiter]
        way = self._above(*again)
        if wait.waiter in way:  # else it has another way to go on
            down = _way(way, wait.waiter)
            raise circular(*_ids(_way(above, nearest[id(down[-1].runner)])), *_ids(down[1:]))
        deep = self._deep_above(wait.waiter, above)
        ids = _ids([*_way(deep, _farthest(deep)), *reversed(_way(below, _farthest(below)))])
        check_depth(len(ids), ids[0], ids[-1])

    def _above(self, *called: Link) -> Walk:
        """Return `called`, and who called them and cannot go on before they are over, directly or through others."""
        found: Walk = dict.fromkeys(called)
        for link in (queue := list(called)):  # it grows meanwhile
            for wait in self._by_target.get(link, ()):
                if wait.waiter not in found and wait.calls(found):
                    found[wait.waiter] = link
                    queue.append(wait.waiter)
        return found

    def _deep_above(self, link: Link, above: Walk) -> Walk:
        """Return also those above `link` who may go on without it; their threads count as well."""
        if not self._by_choice:
            return above
        waits = self._by_target
        return _walk([link], lambda r: [w.waiter for w in waits.get(r, ()) if not r.over and w.holds and w.asks(r)])

    def _below_asked(self, asked: Sequence[Link]) -> Walk:
        """Return `asked`, and whom they called and wait for, directly or through others."""
        waits = self._by_waiter
        return _walk(asked, lambda reached: [link for w in waits.get(reached, ()) for link in w.held_by(w.asks)])


def callers_here() -> Ancestry:
    """Return who waits for this code, as `current_ancestry` does; for a tool call that was given up, the call itself.

    Its run is over and nobody waits for it, but it may hold a slot until its thread comes back.
    """
    callers = current_ancestry()
    scope = None if callers else current_scope()
    while scope is not None:
        if type(scope) is CallScope:
            return (scope.link,)
        scope = scope.parent
    return callers


def _wait_of(waiter: Link, awaited: Awaited, scope: Scope | None, refuse: Refuse | None) -> Wait:
    if isinstance(waiter, CallLink):  # its run is over, and yet its slot is not free before it goes on
        return Wait(waiter, awaited, None, refuse)
    wait = Wait(waiter, awaited, scope, refuse)
    call = call_of(waiter, scope)
    if call is not None:  # it waits until its thread goes on, whether or not anybody wants its result
        wait.of_call = Wait(call, awaited, None, None)
    return wait


def _anybody(_: Link) -> bool:
    return True


def _walk(start: Iterable[Link], onward: Callable[[Link], list[Link]]) -> Walk:
    """Go from `start` wherever `onward` leads, once to each link."""
    found: Walk = dict.fromkeys(start)
    for reached in (queue := list(found)):  # it grows meanwhile
        for link in onward(reached):
            if link not in found:
                found[link] = reached
                queue.append(link)
    return found


def _way(found: Walk, link: Link) -> list[Link]:
    """Return the way from `link` back to where the walk started."""
    way: list[Link] = []
    at: Link | None = link
    while at is not None:
        way.append(at)
        at = found[at]
    return way


def _farthest(found: Walk) -> Link:
    return next(reversed(found))


def _ids(way: Iterable[Link]) -> list[str]:
    return [link.runner.id for link in way]


def _take_out(table: dict[T, Waits], key: T, wait: Wait) -> None:
    waits = table.get(key)
    if waits is not None:  # else it was refused, or this is a forked child
        waits.pop(wait, None)
        if not waits:
            del table[key]


graph = WaitGraph()
"""The one of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=graph.forget)
