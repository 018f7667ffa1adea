"""What must be made anew in a forked child: locks that another thread may have held, sockets that are the parent's."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    """Something that holds locks or connections."""

    def start_afresh(self) -> None:
        """Forget them without closing anything; runs in the child, where no other thread is."""
        ...


_known: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(holder: Renewable) -> None:
    """Have `holder.start_afresh()` called in every forked child, for as long as it lives."""
    _known.add(holder)


def _in_child() -> None:
    for holder in list(_known):
        holder.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
