"""What one holds of a run in flight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

from understudy.events import Event
from understudy.outcomes import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

RunPhase: TypeAlias = Literal[
    "running", "needs_input", "needs_approval", "incomplete", "complete", "failed", "cancelled"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands."""

    run_id: str
    agent_id: str
    phase: RunPhase
    turns: int
    """Model calls so far."""
    iterations: int
    """Rounds of tool calls so far."""
    doing: str
    """What it does at this moment, in words; empty when it is not running."""


class RunHandle(ABC, Generic[T_co]):
    """A run in flight: all that `concurrent.futures.Future` has, and what runs have besides. Safe to share."""

    __slots__ = ()

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The run's id, unique in its system."""

    @abstractmethod
    def result(self, timeout: float | None = None) -> Outcome[T_co]:
        """Return the outcome, waiting up to `timeout` seconds; the wait ending does not end the run.

        Raises:
            TimeoutError: the run is not done in that time; it goes on.
            RunCancelled: the run was cancelled.
        """

    @abstractmethod
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the run failed with, or None if it has an outcome; waits like `result`."""

    @abstractmethod
    def done(self) -> bool:
        """Whether there is an outcome or an error."""

    @abstractmethod
    def running(self) -> bool:
        """Whether there is neither outcome nor error yet."""

    @abstractmethod
    def cancelled(self) -> bool:
        """Whether the run was cancelled."""

    @abstractmethod
    def cancel(self) -> bool:
        """End the run with `RunCancelled`, at once whatever it is doing.

        Returns:
            False if it was already done.
        """

    @abstractmethod
    def add_done_callback(self, callback: Callable[[RunHandle[T_co]], object]) -> None:
        """Call `callback(handle)` once when the run is done, on the thread that ends it; at once if it is done."""

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Iterate over the run's events, from its first one on, however late; ends after the terminal event."""

    @abstractmethod
    def status(self) -> RunStatus:
        """Return where the run stands; never blocks on the run."""

    @abstractmethod
    def future(self) -> Future[Outcome[T_co]]:
        """Return a standard-library future of the outcome, for `concurrent.futures.wait` and `asyncio.wrap_future`."""
