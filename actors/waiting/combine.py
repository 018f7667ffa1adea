"""`collect` and `first`: several futures made into one, of all their values or of the first one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar, overload

import pykka

from understudy.errors import joined
from understudy.orchestration.group.merge_rule import AllValues, FirstSuccess, OneDecides, ValuesAndErrors, Verdict
from understudy.vocabulary.checks import checked_wait
from understudy.vocabulary.runs.handles import Future

from .endings import Ending, Endings, Failure, Member, Value
from .members import as_members
from .merged_future import MergedFuture

V = TypeVar("V")


@overload
def collect(
    futures: Iterable[Member[V]], *, timeout: float | None = None, keep_errors: Literal[False] = False
) -> Future[list[V]]: ...


@overload
def collect(
    futures: Iterable[Member[V]], *, timeout: float | None = None, keep_errors: Literal[True]
) -> Future[list[V | BaseException]]: ...


@overload
def collect(
    futures: Iterable[Member[V] | pykka.Future[V]], *, timeout: float | None = None, keep_errors: Literal[False] = False
) -> Future[list[V]]: ...


@overload
def collect(
    futures: Iterable[Member[V] | pykka.Future[V]], *, timeout: float | None = None, keep_errors: Literal[True]
) -> Future[list[V | BaseException]]: ...


def collect(
    futures: Iterable[Member[V] | pykka.Future[V]], *, timeout: float | None = None, keep_errors: bool = False
) -> Future[list[V]] | Future[list[V | BaseException]]:
    """Return the future of all values, in the order of `futures`, whatever the order they come in.

    No thread waits for them, but for futures of Pykka's own: a lent thread waits for each. The first error is the error of the whole, as it is, and the other futures are cancelled;
    so they are when the time is over (`TimeoutError`) and when the whole is cancelled. That a wait for the whole ends
    (`result(timeout=…)`) cancels nothing.

    Args:
        futures: understudy's, the standard library's and Pykka's, mixed at will; run handles are futures of outcomes,
            and a paused outcome is a value like any other.
        timeout: seconds from now that all of them have together; None for no limit.
        keep_errors: let an error stand in its future's place, and the others go on. What is not done in time then has a
            `TimeoutError` in its place.

    Raises:
        TypeError: something in `futures` is no future.
        ValueError: `timeout` is below 0.
    """
    members = _members("collect", futures, timeout)
    if keep_errors:
        return MergedFuture("collect", members, _ValuesAndErrors[V](len(members)), timeout)
    return MergedFuture("collect", members, _AllValues[V](len(members)), timeout)


@overload
def first(futures: Iterable[Member[V]], *, timeout: float | None = None) -> Future[V]: ...
@overload
def first(futures: Iterable[Member[V] | pykka.Future[V]], *, timeout: float | None = None) -> Future[V]: ...
def first(futures: Iterable[Member[V] | pykka.Future[V]], *, timeout: float | None = None) -> Future[V]:
    """Return the future of the first value; once it is certain which one that is, the others are cancelled.

    No thread waits for them, but for futures of Pykka's own: a lent thread waits for each, and lets it go half a second
    after the end at most. Nobody waits for the losers: one that has not begun never will, and what cannot be interrupted
    goes on unheard. Of futures that are done already, the first in order wins; Pykka's own come after all others. A run that paused has not
    succeeded: its outcome is the value only if all are done and none succeeded; of several, the first in order.

    Args:
        futures: understudy's, the standard library's and Pykka's, mixed at will; at least one.
        timeout: seconds from now until one must have succeeded, else all are cancelled; None for no limit. The
            `TimeoutError` has the errors so far as its cause.

    Returns:
        A future whose error, when all fail, is a `SeveralErrors` of all errors, in the order of `futures`.

    Raises:
        TypeError: something in `futures` is no future.
        ValueError: there is none, or `timeout` is below 0.
    """
    members = _members("first", futures, timeout)
    if not members:
        raise ValueError("first needs at least one future, got none")
    return MergedFuture("first", members, _FirstSuccess[V](len(members)), timeout)


def _members(name: str, futures: Iterable[Member[V] | pykka.Future[V]], timeout: float | None) -> tuple[Member[V], ...]:
    """Find a caller's mistakes before anything starts."""
    if not isinstance(futures, Iterable):
        raise TypeError(f"{name} takes an iterable of futures, got {futures!r}")
    members = as_members(name, futures)
    checked_wait(name, timeout)
    return members


class _AllValues(Endings[V, list[V]]):
    """All values, unless there is an error."""

    __slots__ = ()
    rule = AllValues()

    def _result(self, verdict: Verdict) -> Ending[list[V]]:
        if isinstance(verdict, OneDecides) and isinstance(failure := self.ending(verdict.place), Failure):
            return failure
        return Value([ending.value for ending in self._kept if isinstance(ending, Value)])

    def lapse(self, error: TimeoutError) -> Ending[list[V]]:
        return Failure(error)


class _ValuesAndErrors(Endings[V, list[V | BaseException]]):
    """All values and errors, even if all are errors."""

    __slots__ = ()
    rule = ValuesAndErrors()

    def _result(self, verdict: Verdict) -> Ending[list[V | BaseException]]:
        return self._with(None)

    def lapse(self, error: TimeoutError) -> Ending[list[V | BaseException]]:
        return self._with(Failure(error))

    def _with(self, missing: Failure | None) -> Value[list[V | BaseException]]:
        endings = (missing if ending is None else ending for ending in self._kept)
        return Value([ending.value if isinstance(ending, Value) else ending.error for ending in endings if ending])


class _FirstSuccess(Endings[V, V]):
    """The value that decides, or the errors of all."""

    __slots__ = ()
    rule = FirstSuccess()

    def _result(self, verdict: Verdict) -> Ending[V]:
        if isinstance(verdict, OneDecides):
            return self.ending(verdict.place)
        errors = self.errors()
        return Failure(joined(f"none of {_futures(len(errors))} succeeded", errors))

    def lapse(self, error: TimeoutError) -> Ending[V]:
        errors = self.errors()
        if errors:
            error.__cause__ = joined(f"{_futures(len(errors))} failed before", errors)
        return Failure(error)


def _futures(number: int) -> str:
    return "1 future" if number == 1 else f"{number} futures"
