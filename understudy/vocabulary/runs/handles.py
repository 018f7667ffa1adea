"""Handles of work in flight: futures, and run handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, overload

from understudy.vocabulary.other_names import OF_FUTURES, OF_HANDLES, explains_attributes

from .events import Event
from .outcomes import Outcome

if TYPE_CHECKING:
    from concurrent.futures import Future as StandardFuture

    import pykka
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=str)
    _PykkaFuture: TypeAlias = pykka.Future[Any]  # Pykka's is invariant
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

    class _PykkaFuture:
        """Nothing: the futures of the runtime derive from Pykka's own, which `import understudy` must not load."""

        __slots__ = ()


V_co = TypeVar("V_co", covariant=True)
J = TypeVar("J")
M = TypeVar("M")

RunPhase: TypeAlias = Literal[
    "running", "needs_input", "needs_approval", "incomplete", "more_turns", "complete", "failed", "cancelled"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The present state of a run."""

    run_id: str
    agent_id: str
    phase: RunPhase
    turns: int
    """Model calls so far."""
    iterations: int
    """Rounds of tool calls so far."""
    doing: str
    """The present activity, in words; empty if the run is not running."""


@explains_attributes(OF_FUTURES)
class Future(_PykkaFuture, ABC, Generic[V_co]):
    """A value to come, with the methods of `concurrent.futures.Future` and of `pykka.Future`. Safe to share between threads.

    The futures that this package returns are instances of `pykka.Future`. A kind of your own need not have the methods
    that are not abstract.
    """

    __slots__ = ()

    @abstractmethod
    def result(self, timeout: float | None = None) -> V_co:
        """Return the value, waiting up to `timeout` seconds; the end of the wait does not end the work.

        Raises:
            TimeoutError: there is neither value nor error in that time; the work goes on.
            CircularAgentCall: this is inside of a run, and the work that it would wait for waits for that run.
        """

    @abstractmethod
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error in place of a value, or None; waits like `result`."""

    @abstractmethod
    def done(self) -> bool:
        """Whether there is a value or an error."""

    @abstractmethod
    def running(self) -> bool:
        """Whether there is neither value nor error yet."""

    @abstractmethod
    def cancelled(self) -> bool:
        """Whether it was cancelled."""

    @abstractmethod
    def cancel(self) -> bool:
        """Cancel the future at once: all waiters get an error.

        Returns:
            False if it was already done.
        """

    @abstractmethod
    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call `callback(self)` once when it is done, on the thread that completes it; at once if it is done.

        An error of the callback is logged and not raised.
        """

    # --- as Pykka names them

    def get(self, *, timeout: float | None = None) -> V_co:
        """Return `result(timeout)`. The `TimeoutError` is a `pykka.Timeout` too."""
        return self.result(timeout)

    def map(self, func: Callable[[V_co], M]) -> Future[M]:
        """Return the future of `func(value)`.

        `func` is called once, when the value is there, on a thread lent for it, as part of the present run or actor and
        with the context variables of this moment. Its error is the error of the new future; an error of this future is so
        too, without a call. To cancel the new future cancels this one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map")

    def filter(self: Future[Iterable[J]], func: Callable[[J], bool]) -> Future[Iterable[J]]:
        """Return the future of a list: the items of the value for which `func(item)` is true; as by `map`."""
        raise NotImplementedError(f"{type(self).__name__} has no filter")

    @overload  # type: ignore[override]  # Pykka's says nothing of the type without an initial value
    def reduce(self: Future[Iterable[J]], func: Callable[[J, J], J]) -> Future[J]: ...
    @overload
    def reduce(self: Future[Iterable[J]], func: Callable[[M, J], M], initial: M, /) -> Future[M]: ...
    def reduce(self: Future[Iterable[Any]], func: Callable[[Any, Any], Any], *args: Any) -> Future[Any]:
        """Return the future of `functools.reduce(func, value, *args)`; as by `map`."""
        raise NotImplementedError(f"{type(self).__name__} has no reduce")

    @overload  # type: ignore[override]  # Pykka's without futures is a future of one value in a list
    def join(self, timeout: float | None = None) -> None: ...
    @overload
    def join(self, future: pykka.Future[Any], /, *futures: pykka.Future[Any]) -> Future[list[Any]]: ...
    def join(  # pyright: ignore[reportIncompatibleMethodOverride] (as above)
        self, *futures: Any, timeout: float | None = None
    ) -> Future[list[Any]] | None:
        """Wait until it is done, or up to `timeout` seconds, and return None, as of a thread; or join it with `futures`.

        With futures this waits for nothing: it returns the future of a list, the values of this future and of `futures`, in
        order. The first error is its error; it cancels nothing. To cancel it cancels all of them.

        Raises:
            CircularAgentCall: as for `result`. The error of the work is not raised.
        """
        raise NotImplementedError(f"{type(self).__name__} has no join")

    def __await__(self) -> Generator[Any, None, V_co]:
        """Wait in an asyncio event loop, which goes on meanwhile; the end of the wait does not end the work."""
        raise NotImplementedError(f"{type(self).__name__} cannot be awaited")


@explains_attributes(OF_HANDLES)
class RunHandle(Future[Outcome[T_co]]):
    """A run in flight, and the future of its outcome."""

    __slots__ = ()

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The run's id, unique in its system."""

    @abstractmethod
    def cancel(self) -> bool:
        """End the run with `RunCancelled`, at once whatever it is doing.

        Returns:
            False if it was already done.
        """

    @abstractmethod
    def events(
        self, *, inner: bool = False, after: int | str | None = None, timeout: float | None = None
    ) -> Iterator[Event]:
        """Iterate over the run's events, from its first one on, however late; ends after the terminal event.

        Any number of readers read at their own pace, and none of them slows the run. Leaving the loop ends nothing.

        Args:
            after: where to go on: the `seq` or the `id` of the last event that the reader had; None for the first event. Of a
                delta that it had in part, the rest comes.
            timeout: seconds to wait for each event; None for no limit.
            inner: also tell what happens in runs inside of this one, at any depth: children of groups and sub-agents.
                Their events have the `path` and the `run_id` of their own run. How they end is told by `ChildFinished`
                and `ToolFinished` of the run around them, which come after all else; the one terminal event is this run's.

        Raises:
            ValueError: `after` is no event's id, or is given with `inner`. Raised at once. It is also raised if `after` is behind the
                last event of this run: at once if the run is over, else when it ends.
            TimeoutError: no event came in that time; the run goes on, and so does the iterator if it is asked again.
            CircularAgentCall: this code is part of the run, or of one inside of it, and would wait: no event, or no last
                one, comes before it goes on.
            RunError: the run is under way in the process that this one was forked from.
        """

    @abstractmethod
    def status(self) -> RunStatus:
        """Return the present state of the run; never waits for the run."""

    @abstractmethod
    def future(self) -> StandardFuture[Outcome[T_co]]:
        """Return a standard-library future of the outcome, for `concurrent.futures.wait` and `asyncio.wrap_future`."""
