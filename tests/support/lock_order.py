"""The order in which the package's locks are taken, seen while tests run: `pytest -p tests.support.lock_order …`.

Two threads that take two locks in opposite orders can stop each other for ever, and no test need notice. This plugin names each
lock by the class that makes it, notes which lock is taken while which is held, and fails the session if the order has a
cycle. Only `with lock:` counts: a lock that one thread takes and another releases is a signal, and holds nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import pytest

REAL_LOCK, REAL_RLOCK = threading.Lock, threading.RLock
ALLOWED = {("Account", "Account"), ("Scope", "Scope")}
"""Classes whose objects form a chain and are taken from inner to outer."""

Order = dict[tuple[str, str], str]
"""(held, taken) -> where the second was taken, the first time."""


class Watched:
    """A lock that knows its name, and what its thread held when it was taken."""

    def __init__(self, inner: Any, name: str, order: Order) -> None:
        self._inner = inner
        self._name = name
        self._order = order

    def __enter__(self) -> bool:
        self._inner.acquire()
        held = _held.stack
        for lock in held:
            if lock is not self and (lock._name, self._name) not in self._order:
                self._order[lock._name, self._name] = _caller(2)
        held.append(self)
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _held.stack.remove(self)
        self._inner.release()

    def __getattr__(self, name: str) -> Any:  # acquire, release, locked, and what a Condition needs of an RLock
        return getattr(self._inner, name)


class _Held(threading.local):
    def __init__(self) -> None:
        self.stack: list[Watched] = []


_held = _Held()
SEEN: Order = {}


def _caller(depth: int) -> str:
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage] (documented all the same)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _made(make: Any) -> Any:
    def made() -> Any:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("understudy."):
            return make()
        owner = frame.f_locals.get("self")
        return Watched(make(), module if owner is None else type(owner).__name__, SEEN)

    return made


def cycle_in(order: Iterable[tuple[str, str]]) -> list[str]:
    """Return names of locks that lead in a circle, each taken while the one before is held; empty if there is none."""
    after: dict[str, set[str]] = {}
    for held, taken in order:
        if (held, taken) not in ALLOWED:
            after.setdefault(held, set()).add(taken)
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for each in sorted(after.get(name, ())):
            if found := search(each, [*path, name]):
                return found
        done.add(name)
        return []

    for name in sorted(after):
        if circle := search(name, []):
            return circle
    return []


def told(order: Mapping[tuple[str, str], str]) -> str:
    """Return the order, one pair a line."""
    return "\n".join(f"{held} -> {taken}  ({where})" for (held, taken), where in sorted(order.items()))


def pytest_configure(config: pytest.Config) -> None:
    """Watch the locks that are made from now on."""
    threading.Lock = _made(REAL_LOCK)
    threading.RLock = _made(REAL_RLOCK)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if the order has a cycle."""
    threading.Lock, threading.RLock = REAL_LOCK, REAL_RLOCK
    print(f"\nlocks taken while others are held:\n{told(SEEN)}")
    if circle := cycle_in(SEEN):
        print(f"CIRCLE OF LOCKS: {' -> '.join(circle)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
