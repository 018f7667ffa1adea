"""Situations that block runs until they are released, and waiting until the runs are blocked."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Self

import understudy as us

from .fakes import ANSWER

PATIENCE = 30.0  # Seconds to wait until a run is blocked; generous, for a busy machine.


class Gate:
    """Blocks its callers until it is opened; then it closes again for later callers."""

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
        """Release all blocked callers."""
        door, self._door = self._door, threading.Event()
        door.set()


class Situation(ABC):
    """An agent whose runs block, any number of them, until `release`.

    A context manager; the end of the block releases all runs, and closes the situation's resources.

    Attributes:
        name: unique among the situations.
        at_once: the number of blocked calls in one run.
        conversation: the conversation of the runs.
        hangs: the number of calls in one run that do not notice its end, and count as hung until `release`.
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
        """Return the agent whose runs block."""

    def submit(self, timeout: float | None = None) -> us.RunHandle[str]:
        """Start a run that will block."""
        self.prepare()
        return self.agent.submit("go", system=self.system, timeout=timeout, conversation_id=self.conversation)

    def run(self, timeout: float | None = None) -> us.Outcome[str]:
        """Start a run that will block, and wait for its end."""
        self.prepare()
        return self.agent.run("go", system=self.system, timeout=timeout, conversation_id=self.conversation)

    def prepare(self) -> None:  # noqa: B027 (most situations block any run)
        """Make sure that the next run will block."""

    @abstractmethod
    def held(self, runs: int = 1, within: float = PATIENCE) -> bool:
        """Wait up to `within` seconds until `runs` more runs are blocked, and return whether they are."""

    @abstractmethod
    def release(self) -> None:
        """Release all blocked runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.stop(0.0)  # first, else a queued run would take a released run's place
        self.release()


def comes_true(claim: Callable[[], bool], within: float) -> bool:
    """Wait up to `within` seconds for a claim that no event announces, and return whether it holds."""
    latest = time.monotonic() + within
    while not claim():
        if time.monotonic() >= latest:
            return False
        time.sleep(0.001)
    return True


def all_come(arrivals: threading.Semaphore, number: int, within: float) -> bool:
    """Wait up to `within` seconds for `number` arrivals, and return whether all came."""
    latest = time.monotonic() + within
    return all(arrivals.acquire(timeout=max(0.0, latest - time.monotonic())) for _ in range(number))
