"""Which system a run uses: the one that this code runs inside of, else the process's default one, and how that is set up."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .stores import MEMORY, open_store

if TYPE_CHECKING:
    from understudy.storing import PauseStore

    from .system import ActorSystem

STORE = "UNDERSTUDY_STORE"
"""The variable of the environment that names the default system's store; read when that system starts."""

_inside: ContextVar[ActorSystem | None] = ContextVar("understudy_system", default=None)
_default: ActorSystem | None = None
_inherited: ActorSystem | None = None
"""In a forked child: the parent's default system, until somebody here uses it or sets up another."""
_store: str | PauseStore | None = None
"""What `configure` was given, opened."""
_default_lock = threading.Lock()
"""Guards the three."""


def configure(*, store: str | PauseStore) -> None:
    """Say where the default system of this process keeps paused runs; call it before that system is used.

    It stands above the variable `UNDERSTUDY_STORE`. A forked child has what its parent had, and may be set up anew before
    it uses the default system. Systems that you make yourself have their own `store=`.

    Args:
        store: as for `ActorSystem`; "memory:" for none. It is opened now.

    Raises:
        RuntimeError: the default system of this process is in use.
        ValueError: `store` names no store.
        StoreError: the store cannot be opened.
    """
    global _store, _inherited
    if store is None:
        raise TypeError('store must be a URL, such as "sqlite:///shop.db" or "memory:", or a store; got None')
    opened = open_store(store)
    with _default_lock:
        if _default is not None:
            raise RuntimeError(
                "the default system of this process is in use already; call us.configure(store=…) before the first run"
            )
        _store = MEMORY if opened is None else opened
        _inherited = None


def current_system() -> ActorSystem:
    """Return the system this code runs inside of, else the process's default one, made at the first call.

    Raises:
        ValueError: `UNDERSTUDY_STORE` names no store.
        StoreError: its store cannot be opened.
    """
    inside = _inside.get()
    if inside is not None:
        return inside
    return _default if _default is not None else _start_default()


def _start_default() -> ActorSystem:
    from .system import ActorSystem

    global _default, _inherited
    with _default_lock:
        if _default is None:
            if _inherited is not None:
                _default, _inherited = _inherited, None
            else:
                _default = ActorSystem(store=_store if _store is not None else _store_named_outside())
        return _default


def _store_named_outside() -> PauseStore | None:
    """Open the store that the environment names."""
    try:
        return open_store(os.environ.get(STORE) or None)
    except ValueError as error:
        raise ValueError(f"{STORE}: {error}") from None


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
    """Make the lock anew in a forked child: another thread may have held it. The default system is not in use yet."""
    global _default_lock, _default, _inherited
    _default_lock = threading.Lock()
    if _default is not None:
        _default, _inherited = None, _default


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_in_child)
