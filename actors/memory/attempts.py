"""The attempts of a run at one use of a memory: a step that the memory failed in is done again, a few times."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TypeVar

from understudy.actors.run_view.errors import memory_failure
from understudy.errors import AgentCrashed, had_its_retries
from understudy.vocabulary.backoff import backoff_wait
from understudy.vocabulary.checks import WrongReturn

from .memory_actor import MemoryActor, MemoryMessage, MemoryRaised, MemoryUser

T = TypeVar("T")
ATTEMPTS = 3  # The memory's failures in one step after which the run ends, as many as failures of its driver.
PAUSE = 0.1  # Seconds before the second attempt; doubled for the third.


class MemoryFailed(Exception):
    """A memory went on failing: the run is to end, and its agent has not failed.

    Attributes:
        error: what the run ends with.
    """

    def __init__(self, error: AgentCrashed) -> None:
        super().__init__(error)
        self.error = error


def use_memory(record: MemoryUser, epoch: int, doing: str, actor: MemoryActor, message: MemoryMessage[T]) -> T:
    """Have a memory handle a message, again if it fails in its own code. On the thread of the run's driver.

    Raises:
        MemoryFailed: it failed too often, or another attempt cannot help or is not left.
        Stale: the run is over or in other hands; also between two attempts.
        UnderstudyError: as `MemoryActor.call`.
    """
    causes: tuple[BaseException, ...] = ()
    while True:
        try:
            return record.through_outage(epoch, partial(actor.call, record, epoch, doing, message))
        except MemoryRaised as raised:
            causes = (*causes, raised.cause)
        if actor.is_down or not _may_try_again(record, causes):
            raise MemoryFailed(memory_failure(record, causes))
        record.begin_step(epoch, doing)  # the time of a use begins anew with it
        record.scope.sleep(_pause(causes))


def _pause(causes: tuple[BaseException, ...]) -> float:
    return backoff_wait(PAUSE, inf, len(causes) - 1)


def _may_try_again(record: MemoryUser, causes: tuple[BaseException, ...]) -> bool:
    """Whether there is another attempt; if so, take one of the run's retries."""
    cause, left = causes[-1], record.scope.remaining()
    if len(causes) >= ATTEMPTS or isinstance(cause, WrongReturn) or had_its_retries(cause):
        return False
    return (left is None or left > _pause(causes)) and record.scope.take_retry(cause)
