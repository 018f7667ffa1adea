"""The watchers of an actor: each hears once when it stops or is given up."""

from __future__ import annotations

import threading
from collections.abc import Callable

from understudy.vocabulary.actors.messages import Down


class Watchers:
    """Callbacks that hear that an actor is down, each once."""

    __slots__ = ("_last", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards both: a watcher that is added while the others are told hears once, from one of the two threads."""
        self._waiting: dict[object, Callable[[Down], object]] = {}
        self._last: Down | None = None

    def add(self, key: object, watcher: Callable[[Down], object]) -> None:
        """Have `watcher` called once; at once if the actor is down. A key hears once."""
        with self._lock:
            last = self._last
            if last is None:
                self._waiting[key] = watcher
        if last is not None:
            watcher(last)

    def take(self, down: Down) -> list[Callable[[Down], object]]:
        """Note that the actor is down, and return the watchers to call."""
        with self._lock:
            self._last = down
            waiting, self._waiting = self._waiting, {}
        return list(waiting.values())

    def renew(self) -> None:
        """Note that the actor works again."""
        with self._lock:
            self._last = None
