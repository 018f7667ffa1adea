"""The wait-for graph of this process: runs and actors that wait for one another. A wait that would close a cycle is refused.

It spans all systems, for a cycle may. Only waits inside of runs and actors are in it: no run waits for other threads. A wait
by other means than understudy's futures (an event, a queue, a standard future) is not seen. A wait may need all of several
ends or any one of them, so a way back alone is no cycle: the graph asks which waiters can never go on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import CircularAgentCall, RunError
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

from .awaited import Awaited, CallLink, CallScope, Expecting, InLine, call_of, held_by
from .waits import RaceWait, Refuse, Wait

Walk: TypeAlias = dict[Link, Link | None]
"""Each link that was reached, nearest first -> the link before it; None for a start."""

Waits: TypeAlias = dict[Wait, None]
"""In the order in which they began, each once."""

T = TypeVar("T")


class WaitGraph:
    """The waits of this process. Safe to use from any thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a forked child, where the parent's threads do not wait."""
        self._lock = threading.Lock()
        """Guards all tables: of two waits that close a cycle together, one sees the other. No user code runs under it."""
        self._by_waiter: dict[Link, Waits] = {}
        self._by_target: dict[Link, Waits] = {}
        """A run or actor -> the waits that may depend on it, also if it is over by now."""
        self._by_choice: dict[Expecting, Waits] = {}
        self._in_line: Waits = {}
        """The waits for seats. Holders are asked when it matters, and are in no table."""

    def __len__(self) -> int:
        with self._lock:  # a wait that is about to be refused is in the tables for a moment
            return sum(len(waits) for link, waits in self._by_waiter.items() if not isinstance(link, CallLink))

    def check(self, callers: Ancestry, runner: Runner) -> None:
        """Refuse a run of `runner` that `callers` would wait for; call it before the run is made.

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
            callers: the waiters, outermost first.
            awaited: what they wait for.
            refuse: called if the wait comes to close a cycle later, when it has lost its other ways out.

        Raises:
            CircularAgentCall: that would close a cycle; nothing waits then.
            RunError: too many would wait for one another.
        """
        wait = self.begin(callers[-1], awaited, current_scope(), refuse)
        try:
            yield
        finally:
            self.end(wait)

    def begin(self, waiter: Link, awaited: Awaited, scope: Scope | None, refuse: Refuse | None = None) -> Wait:
        """Have `waiter` wait until `end`, without a thread that blocks, as queued work does.

        Args:
            waiter: the waiter.
            awaited: what it waits for.
            scope: the scope of the wait; once it is cancelled or over, the wait holds up nobody.
            refuse: as for `waiting`.

        Raises:
            CircularAgentCall: that would close a cycle; nothing waits then.
            RunError: too many would wait for one another.
        """
        wait = _wait_of(waiter, awaited, scope, refuse)
        unwanted: list[Link] = []
        try:
            with self._lock:
                self._add(wait)
                try:
                    self._refuse_cycle(wait)
                except BaseException as error:
                    unwanted = self._unwanted(wait, error)
                    self._remove(wait)
                    raise
        finally:
            _drop(unwanted)
        return wait

    def begin_unawaited(self, waiter: Link, awaited: Awaited, scope: Scope | None) -> Wait:
        """Have `waiter` wait as by `begin`, if nothing can know the run yet: then the wait closes no cycle."""
        wait = Wait(waiter, awaited, scope, None)
        with self._lock:
            self._add(wait)
        return wait

    def end(self, wait: Wait) -> None:
        """End a wait that `begin` returned."""
        with self._lock:
            self._remove(wait)

    def end_all(self, waiter: Link) -> None:
        """End all waits of a run that is over, also those that nothing else ends any more."""
        with self._lock:
            for wait in list(self._by_waiter.get(waiter, ())):
                self._remove(wait)

    def tightened(self, future: Expecting) -> None:
        """Refuse the waits for `future` that close a cycle, now that one member less can end it."""
        refused: list[tuple[Refuse, CircularAgentCall]] = []
        unwanted: list[Link] = []
        with self._lock:
            for wait in list(self._by_choice.get(future, ())):
                path = None if wait.refuse is None else self._cycle(wait)
                if path is not None and wait.refuse is not None:
                    error = circular(*_ids(path))
                    unwanted += self._unwanted(wait, error)
                    self._remove(wait)  # of two waits that close one cycle, only the first is refused
                    refused.append((wait.refuse, error))
        for refuse, error in refused:
            refuse(error)
        _drop(unwanted)

    # --- races: waits for any one of several runs that come and go

    def join(self, wait: RaceWait, link: Link) -> None:
        """Add a new run; it waits for nobody yet, so it closes no cycle."""
        with self._lock:
            wait.race.links.append(link)
            if len(wait.race.links) == 1:
                self._add(wait)
            else:
                for each in wait.parts:
                    self._by_target.setdefault(link, {})[each] = None

    def leave(self, wait: RaceWait, link: Link) -> None:
        """Remove a run; the wait ends with the last one."""
        with self._lock:
            if len(wait.race.links) == 1:
                self._remove(wait)
            else:
                for each in wait.parts:
                    _take_out(self._by_target, link, each)
            wait.race.links.remove(link)

    def settle(self, wait: RaceWait) -> Sequence[Link]:
        """Note that the waiter has done what there was to do, so that only the runs in the race can end it.

        Returns:
            A way from the waiter to itself, if all those runs are stuck: then the waiter has something to do, and counts as at
            work until it settles again. Else nothing.
        """
        driving = wait.race.driving
        with self._lock:
            driving.at_work = False
            may_close = all(link in self._by_waiter for link in wait.race.links)  # else a child waits for nobody
            way = self._cycle(wait) if may_close else None
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

    # --- cycles: waiters that can never go on; `wait` is in the tables already

    def _refuse_cycle(self, wait: Wait) -> None:
        path = self._cycle(wait)
        if path is not None:
            raise circular(*_ids(path))
        for link in wait.links:
            if wait.asks(link):
                self._refuse_recursion(wait)
                break

    def _cycle(self, wait: Wait) -> list[Link] | None:
        """Return a way from the waiter to itself, or from the call that waits, along waits that can never end, `wait` first."""
        path = self._cycle_of(wait) if self._in_line or wait.waiter in self._by_target else None
        if path is None and wait.of_call is not None and self._in_line:
            path = self._cycle_of(wait.of_call)
        return path

    def _cycle_of(self, wait: Wait) -> list[Link] | None:
        waiter = wait.waiter
        reached = self._below(wait.held_by(_anybody), _anybody)
        if waiter not in reached:
            return None
        stuck = self._stuck(reached).__contains__
        cycle = self._below(wait.held_by(stuck), stuck)
        return [waiter, *reversed(_way(cycle, waiter))] if waiter in cycle else None

    def _stuck(self, suspects: Walk) -> set[Link]:
        """Return the suspects that can never go on, if nobody but `suspects` holds them up.

        All count as stuck until one is found whose waits can all end; then its waiters may go on too.
        """
        stuck, due = set(suspects), set(suspects)
        waiters: dict[Link, list[Link]] = {}
        for link in suspects:
            for wait in self._by_waiter.get(link, ()):
                for held in wait.held_by(stuck.__contains__):
                    waiters.setdefault(held, []).append(link)
        queue = deque(reversed(suspects))  # the farthest first: they are the most likely to go on
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
        """Return `start` and all links that hold them up, directly or through others, if those that are `held` never go on."""
        waits = self._by_waiter
        return _walk(start, lambda reached: [link for w in waits.get(reached, ()) for link in w.held_by(held)])

    def count_waiting(self, *links: Link) -> int:
        """Return how many runs and actors, `links` included, wait for these, directly or through others."""
        with self._lock:
            return len(_walk(links, lambda reached: [wait.waiter for wait in self._by_target.get(reached, ())]))

    # --- recursion: a runner that calls itself again and again, although nobody may be stuck

    def _refuse_recursion(self, wait: Wait) -> None:
        """Refuse a runner that is reached through itself: such calls may not block, but never end."""
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

    def _unwanted(self, wait: Wait, error: BaseException) -> list[Link]:
        """Return the runs that the waiter submitted and that are to end, as the wait for them is refused.

        Each of them could submit the next one for ever: it leads to a runner that waits for it, or the chain is too long.
        """
        submitted = [link for link in wait.links if link.drop is not None and wait.asks(link)]
        if not submitted or not isinstance(error, CircularAgentCall):
            return submitted if isinstance(error, RunError) else []
        runners = {id(link.runner) for link in self._above(wait.waiter)}
        return [link for link in submitted if any(id(each.runner) in runners for each in self._below_asked([link]))]

    def _above(self, *called: Link) -> Walk:
        """Return `called` and their callers that cannot go on before they are over, directly or through others."""
        found: Walk = dict.fromkeys(called)
        for link in (queue := list(called)):  # it grows meanwhile
            for wait in self._by_target.get(link, ()):
                if wait.waiter not in found and wait.calls(found):
                    found[wait.waiter] = link
                    queue.append(wait.waiter)
        return found

    def _deep_above(self, link: Link, above: Walk) -> Walk:
        """Return also the callers above `link` that may go on without it; their threads count as well."""
        if not self._by_choice:
            return above
        waits = self._by_target
        return _walk([link], lambda r: [w.waiter for w in waits.get(r, ()) if not r.over and w.holds and w.asks(r)])

    def _below_asked(self, asked: Sequence[Link]) -> Walk:
        """Return `asked` and the links that they called and wait for, directly or through others."""
        waits = self._by_waiter
        return _walk(asked, lambda reached: [link for w in waits.get(reached, ()) for link in w.held_by(w.asks)])


def callers_here() -> Ancestry:
    """Return the callers of this code, as `current_ancestry` does; in a tool call that was given up, the call itself.

    The run of such a call is over, but it may hold a seat until its thread returns.
    """
    callers = current_ancestry()
    scope = None if callers else current_scope()
    while scope is not None:
        if type(scope) is CallScope:
            return (scope.link,)
        scope = scope.parent
    return callers


def _wait_of(waiter: Link, awaited: Awaited, scope: Scope | None, refuse: Refuse | None) -> Wait:
    if isinstance(waiter, CallLink):  # its run is over, but it holds a seat until it goes on
        return Wait(waiter, awaited, None, refuse)
    wait = Wait(waiter, awaited, scope, refuse)
    call = call_of(waiter, scope)
    if call is not None:  # the call waits until its thread goes on, also after its scope is over
        wait.of_call = Wait(call, awaited, None, None)
    return wait


def _drop(unwanted: Iterable[Link]) -> None:
    """Cancel runs, and wait for nothing that they do about it."""
    with cancel_hooks.Settling(0.0):
        for link in unwanted:
            drop = link.drop  # one that is over by now has none
            if drop is not None:
                drop()


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

at_fork(Stage.WAITS, graph.forget)
