"""A future that the test itself completes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Self, TypeVar

from understudy.actors.threads.promise import Promise
from understudy.vocabulary.runs.handles import Future

V = TypeVar("V")


class FakeFuture(Future[V]):
    """A future completed by the test with a value or an error; only the first completion counts."""

    def __init__(self) -> None:
        self._reply: Promise[V] = Promise()

    def set(self, value: V) -> bool:  # type: ignore[override]  # Pykka's returns nothing
        """Give the value; False if it was done already."""
        return self._reply.set(value)

    def fail(self, error: BaseException) -> bool:
        """Give an error; False if it was done already."""
        return self._reply.fail(error)

    def result(self, timeout: float | None = None) -> V:
        self._wait(timeout)
        return self._reply.get()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return self._reply.error()

    def _wait(self, timeout: float | None) -> None:
        if not self._reply.wait(timeout):
            raise TimeoutError("the promise was not kept")

    def done(self) -> bool:
        return self._reply.done

    def running(self) -> bool:
        return not self._reply.done

    def cancelled(self) -> bool:
        return isinstance(self._reply.error(), CancelledError)

    def cancel(self) -> bool:
        return self._reply.fail(CancelledError())

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        self._reply.when_done(lambda: callback(self))


def kept(value: V) -> FakeFuture[V]:
    """Return a promise that is done."""
    promise: FakeFuture[V] = FakeFuture()
    promise.set(value)
    return promise


def broken(error: BaseException) -> FakeFuture[int]:
    """Return a promise that has failed."""
    promise: FakeFuture[int] = FakeFuture()
    promise.fail(error)
    return promise


def promises(number: int) -> list[FakeFuture[int]]:
    """Return pending promises."""
    return [FakeFuture() for _ in range(number)]
