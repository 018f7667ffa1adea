"""Which system a run uses: the one that this code runs inside of, else the process's default one, and how that is set up."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.store import Store
from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.checks import UNSET, Unset, checked_flag, checked_whole
from understudy.vocabulary.context.ancestry import DEFAULT_MAX_HOPS
from understudy.vocabulary.other_names import OF_SYSTEMS, explains_parameters

from .actor_system import ActorSystem, entered

if TYPE_CHECKING:
    from understudy.vocabulary.runs.pause_store import PauseStore

STORE = "UNDERSTUDY_STORE"
"""The variable of the environment that names the default system's store; read when that system starts."""

_default: ActorSystem | None = None
_inherited: ActorSystem | None = None
"""In a forked child: the parent's default system, until somebody here uses it or sets up another."""
_store: Store | None = None
"""What `configure` was given, opened."""
_max_hops = DEFAULT_MAX_HOPS
_require_user = False
_default_lock = threading.Lock()
"""Guards all of these."""


@explains_parameters("configure", OF_SYSTEMS)
def configure(
    *,
    store: str | PauseStore | Unset = UNSET,
    max_hops: int | None = None,
    require_user: bool | None = None,
) -> None:
    """Set up the default system of this process; call it before that system is used. What is not given stays as it was.

    A forked child has what its parent had, and may be set up anew before it uses the default system. Systems that you make
    yourself have arguments of their own.

    Args:
        store: where it keeps paused runs, as for `ActorSystem`; "memory:" for none. It is opened now. It stands above
            the variable `UNDERSTUDY_STORE`.
        max_hops, require_user: as for `ActorSystem`.

    Raises:
        RuntimeError: the default system of this process is in use.
        ValueError: `store` names no store.
        StoreError: the store cannot be opened.
    """
    global _store, _inherited, _max_hops, _require_user
    if store is None:  # mostly a variable of the environment that is not set
        raise TypeError('store must be a URL, such as "sqlite:///shop.db" or "memory:", or a store; got None')
    if store is UNSET and max_hops is None and require_user is None:
        raise TypeError("configure needs store=…, max_hops=… or require_user=…")
    if max_hops is not None:
        checked_whole("max_hops", max_hops, 1)
    if require_user is not None:
        checked_flag("require_user", require_user)
    opened = None if isinstance(store, Unset) else open_store(store)
    with _default_lock:
        if _default is not None:
            raise RuntimeError(
                "the default system of this process is in use already; call us.configure(…) before the first run"
            )
        if store is not UNSET:
            _store = opened
        if max_hops is not None:
            _max_hops = max_hops
        if require_user is not None:
            _require_user = require_user
        _inherited = None


def current_system() -> ActorSystem:
    """Return the system this code runs inside of, else the process's default one, which `agent.run()` uses.

    The default system is made at its first use; `configure` comes before. Once it is stopped, runs need a system of your own.

    Raises:
        ValueError: `UNDERSTUDY_STORE` names no store.
        StoreError: its store cannot be opened.
    """
    inside = entered.get()
    if inside is not None:
        return inside
    return _default if _default is not None else _start_default()


def _start_default() -> ActorSystem:
    global _default, _inherited
    with _default_lock:
        if _default is None:
            if _inherited is not None:
                _default, _inherited = _inherited, None
            else:
                store = _store if _store is not None else _store_named_outside()
                _default = ActorSystem(store=store, max_hops=_max_hops, require_user=_require_user)
        return _default


def _store_named_outside() -> Store:
    """Open the store that the environment names."""
    try:
        return open_store(os.environ.get(STORE) or None)
    except ValueError as error:
        raise ValueError(f"{STORE}: {error}") from None


def _begin_anew_in_child() -> None:
    """Make the lock anew in a forked child: another thread may have held it. The default system is not in use yet."""
    global _default_lock, _default, _inherited
    _default_lock = threading.Lock()
    if _default is not None:
        _default, _inherited = None, _default


at_fork(Stage.DEFAULT_SYSTEM, _begin_anew_in_child)
