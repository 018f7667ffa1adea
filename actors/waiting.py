"""The wait-for graph of this process: which run waits for which, so that a circle is refused by whoever would close it.

It spans all systems, for a circle may. Only waits from inside of runs are in it: what waits outside waits for a run, and
no run for it. A wait through other means than a run's handle (an event, a queue) is not seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from understudy.ancestry import Ancestry, Link, Runner, check_call, check_depth, circular
from understudy.scope import Scope, current_scope


class Wait:
    """One thread of `waiter` that blocks until `target` is over; an edge of the graph."""

    __slots__ = ("_scope", "target", "waiter")

    def __init__(self, waiter: Link, target: Link, scope: Scope | None) -> None:
        self.waiter = waiter
        self.target = target
        self._scope = scope

    @property
    def holds(self) -> bool:
        """Whether the waiter cannot go on before the target is over."""
        if self.target.over:
            return False
        # The thread of a tool that was given up may go on waiting, but its run does not wait for it.
        scope = self._scope
        return scope is None or not (scope.cancelled or scope.remaining() == 0.0)

    @property
    def asks(self) -> bool:
        """Whether the target was begun by the waiter or inside of it: then to wait is to call."""
        return self.waiter.run_id in self.target.begun_in


Walk: TypeAlias = dict[Link, Link | None]
"""What was reached, nearest first -> from where; the start from nowhere."""


class WaitGraph:
    """Who waits for whom. Safe to use from any thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a forked child, where the parent's threads do not wait."""
        self._lock = threading.Lock()
        """Guards both tables: of two waits that close a circle together, one sees the other. No user code runs under it."""
        self._by_waiter: dict[Link, list[Wait]] = {}
        self._by_target: dict[Link, list[Wait]] = {}

    def __len__(self) -> int:
        return sum(len(waits) for waits in list(self._by_waiter.values()))

    def check(self, callers: Ancestry, runner: Runner) -> None:
        """Refuse a run of `runner` that `callers` would wait for; call it before anything is done for that run.

        Raises:
            CircularAgentCall: `runner` would wait for itself.
            RunError: too many would wait for one another.
        """
        check_call(callers, runner)
        with self._lock:
            above = self._above(callers[-1])
        for link in above:
            if link.runner is runner:
                raise circular(*_up(above, link), runner.id)
        way = _up(above, _farthest(above))
        check_depth(len(way) + 1, way[0], runner.id)

    @contextmanager
    def waiting(self, callers: Ancestry, target: Link) -> Generator[None]:
        """Have the last of `callers` wait for `target` inside the `with` block.

        Raises:
            CircularAgentCall: that would close a circle; nothing waits then.
            RunError: too many would wait for one another.
        """
        wait = Wait(callers[-1], target, current_scope())
        with self._lock:
            self._refuse_circle(wait)
            self._by_waiter.setdefault(wait.waiter, []).append(wait)
            self._by_target.setdefault(target, []).append(wait)
        try:
            yield
        finally:
            with self._lock:
                _remove(self._by_waiter, wait.waiter, wait)
                _remove(self._by_target, target, wait)

    def _refuse_circle(self, wait: Wait) -> None:
        waiter, target = wait.waiter, wait.target
        if waiter is target or waiter in self._by_target:  # a circle leads back to the waiter
            blocked = self._below(target)
            if waiter in blocked:
                raise circular(waiter.runner.id, *_down(blocked, waiter))
        if wait.asks:
            self._refuse_recursion(self._above(waiter), self._below(target, asked=True))

    def _refuse_recursion(self, above: Walk, below: Walk) -> None:
        """Refuse a runner that would be reached through itself: it may not block, but it has no end of its own."""
        for link in above:
            for reached in below:
                if link.runner is reached.runner:
                    raise circular(*_up(above, link), *_down(below, reached))
        way = [*_up(above, _farthest(above)), *_down(below, _farthest(below))]
        check_depth(len(way), way[0], way[-1])

    def _above(self, link: Link) -> Walk:
        """Return who called `link` and waits for it, directly or through others."""
        waits = self._by_target
        return _walk(link, lambda reached: [w.waiter for w in waits.get(reached, ()) if w.holds and w.asks])

    def _below(self, link: Link, *, asked: bool = False) -> Walk:
        """Return what `link` waits for, directly or through others; with `asked`, only what was called."""
        waits = self._by_waiter
        return _walk(
            link, lambda reached: [w.target for w in waits.get(reached, ()) if w.holds and (w.asks or not asked)]
        )


def _walk(start: Link, onward: Callable[[Link], list[Link]]) -> Walk:
    """Go from `start` wherever `onward` leads, once to each link."""
    found: Walk = {start: None}
    queue = [start]
    for reached in queue:  # it grows meanwhile
        for link in onward(reached):
            if link not in found:
                found[link] = reached
                queue.append(link)
    return found


def _up(found: Walk, link: Link) -> list[str]:
    """Return the ids on the way from `link` to where the walk started."""
    ids: list[str] = []
    at: Link | None = link
    while at is not None:
        ids.append(at.runner.id)
        at = found[at]
    return ids


def _down(found: Walk, link: Link) -> list[str]:
    """Return the ids on the way from where the walk started to `link`."""
    return _up(found, link)[::-1]


def _farthest(found: Walk) -> Link:
    return next(reversed(found))


def _remove(table: dict[Link, list[Wait]], link: Link, wait: Wait) -> None:
    waits = table.get(link, [])
    if wait in waits:  # not after a fork
        waits.remove(wait)
    if not waits:
        table.pop(link, None)


graph = WaitGraph()
"""The one of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=graph.forget)
