"""What holds runs up until it is told to let go, and how one waits until they are held."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

import understudy as us

from .fakes import ANSWER

PATIENCE = 30.0  # Seconds after which a run that is not held yet never will be; a busy machine takes its time.


class Gate:
    """Holds whoever comes until it is opened, and then whoever comes after that."""

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        """Counts who has come."""
        self._door = threading.Event()

    def hold(self) -> str:
        """Wait for the gate to open."""
        door = self._door
        self.arrivals.release()
        door.wait()
        return ANSWER

    def open(self) -> None:
        """Let all go that are held."""
        door, self._door = self._door, threading.Event()
        door.set()


class Situation(ABC):
    """An agent whose runs are held up, any number of them, until `release`.

    A context manager; at the end of the block all is released, and what the situation had open is closed.

    Attributes:
        name: tells it from the others.
        at_once: how many calls of one run are held.
        conversation: which conversation the runs belong to.
        hangs: how many calls of one run do not notice that the run has ended, and are counted as hung until `release`.
    """

    name: ClassVar[str]
    at_once: ClassVar[int] = 1
    conversation: ClassVar[str | None] = None
    hangs: ClassVar[int] = 0

    def __init__(self, max_runs: int | None = None) -> None:
        self.system = us.ActorSystem(self.name, max_runs=max_runs)
        self.agent = self.make_agent()

    @abstractmethod
    def make_agent(self) -> us.Agent[str]:
        """Return the agent whose runs are held."""

    def submit(self, timeout: float | None = None) -> us.RunHandle[str]:
        """Begin a run that will be held."""
        self.prepare()
        return self.agent.submit("go", system=self.system, timeout=timeout, conversation_id=self.conversation)

    def run(self, timeout: float | None = None) -> us.Outcome[str]:
        """Begin a run that will be held, and wait for its end."""
        self.prepare()
        return self.agent.run("go", system=self.system, timeout=timeout, conversation_id=self.conversation)

    def prepare(self) -> None:  # noqa: B027 (most hold whatever comes)
        """See to it that the next run will be held."""

    @abstractmethod
    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        """Wait up to `within` seconds until `runs` more runs are held, and return whether they are."""

    @abstractmethod
    def release(self) -> None:
        """Let go of all runs that are held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.stop(0.0)  # first, or one in line would take the place of one that is let go
        self.release()


def comes_true(claim: Callable[[], bool], within: float) -> bool:
    """Wait up to `within` seconds for what no event announces, and return whether it is so."""
    latest = time.monotonic() + within
    while not claim():
        if time.monotonic() >= latest:
            return False
        time.sleep(0.001)
    return True


def all_come(arrivals: threading.Semaphore, number: int, within: float) -> bool:
    """Wait up to `within` seconds for so many to have come, and return whether they have."""
    latest = time.monotonic() + within
    return all(arrivals.acquire(timeout=max(0.0, latest - time.monotonic())) for _ in range(number))
