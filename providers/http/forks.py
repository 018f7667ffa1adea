"""Renews locks and sockets in a forked child: another thread may have held a lock, and sockets belong to the parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    """Something that holds locks or connections."""

    def start_afresh(self) -> None:
        """Replace locks and connections without closing any; runs in the child, before it has other threads."""
        ...


_known: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(holder: Renewable) -> None:
    """Call `holder.start_afresh()` in every forked child, as long as `holder` is alive."""
    _known.add(holder)


def _in_child() -> None:
    for holder in list(_known):
        holder.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
