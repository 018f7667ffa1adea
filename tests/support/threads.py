"""Simulates a process that cannot start threads."""

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
    """Give understudy no thread, parked or new, inside the `with` block. Other code, such as a test, gets threads.

    Args:
        spared: names of threads that may start.
        but: how many other threads may start.
        arriving: how many threads may be starting at once; further work waits in the queue.
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

    earlier = alarms._clockwork._changed  # pyright: ignore[reportPrivateUsage]
    # Held, so that no alarm of an earlier test, such as the beat of a store's owner, takes a thread that is spared here.
    with earlier, pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(pool, "pool", pool.ThreadPool(arriving))
        patch.setattr(alarms, "_clockwork", alarms.AlarmClock())
        yield shortage


def idle(ref: ActorRef[object]) -> None:
    """Wait until no thread runs an actor: after a reply its thread still looks for the next message."""
    cell = ref._cell  # pyright: ignore[reportPrivateUsage]  # it shows nowhere else
    assert isinstance(cell, ActorCell)
    mailbox = cell._mailbox  # pyright: ignore[reportPrivateUsage]
    eventually(lambda: not mailbox._running, "its thread went")  # pyright: ignore[reportPrivateUsage]
