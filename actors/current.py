"""Which system a run uses: the one that this code runs inside of, else the process's default one."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .system import ActorSystem

_inside: ContextVar[ActorSystem | None] = ContextVar("understudy_system", default=None)
_default: ActorSystem | None = None
_default_lock = threading.Lock()


def current_system() -> ActorSystem:
    """Return the system this code runs inside of, else the process's default one, made at the first call."""
    inside = _inside.get()
    if inside is not None:
        return inside
    global _default
    if _default is None:
        from .system import ActorSystem

        with _default_lock:
            if _default is None:
                _default = ActorSystem()
    return _default


def enter_system(system: ActorSystem) -> None:
    """Make `system` the current one of this context, which is left with the context."""
    _inside.set(system)


@contextmanager
def inside(system: ActorSystem) -> Generator[None]:
    """Let `system` be the current one of this context, in the `with` block."""
    token = _inside.set(system)
    try:
        yield
    finally:
        _inside.reset(token)


def _begin_anew_in_child() -> None:
    """Make the lock anew in a forked child: another thread may have held it."""
    global _default_lock
    _default_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_in_child)
