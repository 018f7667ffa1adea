"""Processes that are stopped by a signal, and systems that take their runs over, for tests of both."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

import understudy as us
from understudy.actors.stores.open_store import open_store

LEASE = 1.0


@contextmanager
def watching(store: str, *agents: us.Agent) -> Generator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store, recover="always", runners=agents, lease=LEASE) as system:
        yield system


def stop() -> None:
    """Stop this process. The signal is for this thread, which cannot go on a little while another one takes the signal."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def is_all_over(store: str) -> bool:
    runs = open_store(store).runs
    assert runs is not None
    return not runs.left("shop")


def outcome_of(agent: us.Agent, system: us.ActorSystem) -> str:
    try:
        return agent.run("go", system=system).text
    except us.UnderstudyError as error:
        return type(error).__name__
