"""A process that has no thread left."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.support.scripts import eventually
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.actor.ref import ActorRef
from understudy.actors.threads import alarms, pool

REFUSAL = "can't start new thread"
WATCHDOG = "understudy-watchdog"
CLOCK = "understudy-clockwork"


class Shortage:
    """Counts the threads that were refused."""

    def __init__(self, but: int) -> None:
        self.left = but
        self.refused = 0
        self.lock = threading.Lock()


@contextmanager
def no_threads(*spared: str, but: int = 0, arriving: int = pool.ARRIVING) -> Generator[Shortage]:
    """Have understudy find no thread inside the `with` block, parked or new.

    Whoever else starts threads, such as a test, gets them.

    Args:
        spared: names of threads that are started all the same.
        but: how many others are.
        arriving: how many may be on their way at once; who needs one more waits for another to arrive and find none.
    """
    shortage, start = Shortage(but), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("understudy-") and thread.name not in spared:
            with shortage.lock:
                shortage.left -= 1
                if shortage.left < 0:
                    shortage.refused += 1
                    raise RuntimeError(REFUSAL)
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(pool, "pool", pool.ThreadPool(arriving))
        patch.setattr(alarms, "_clockwork", alarms.AlarmClock())
        yield shortage


def idle(ref: ActorRef[object]) -> None:
    """Wait until no thread runs an actor: one that has just replied still looks for its next message."""
    cell = ref._cell  # pyright: ignore[reportPrivateUsage]  # it shows nowhere else
    assert isinstance(cell, ActorCell)
    mailbox = cell._mailbox  # pyright: ignore[reportPrivateUsage]
    eventually(lambda: not mailbox._running, "its thread went")  # pyright: ignore[reportPrivateUsage]
