"""How futures end, and the rule of what several endings come to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar, Union

T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
R = TypeVar("R")


class Member(Protocol[V_co]):
    """What understudy's futures and the standard library's have in common; theirs alone would be invariant."""

    def result(self, timeout: float | None = None) -> V_co: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def add_done_callback(self, callback: Callable[[object], object], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """A future brought a value."""

    value: T


@dataclass(frozen=True, slots=True)
class Failure:
    """A future brought an error, its cancellation included."""

    error: BaseException


# `Union`, because an alias that is subscripted must keep its parameter at run time too.
Ending: TypeAlias = Union[Value[T], Failure]  # noqa: UP007


class Rule(ABC, Generic[V, R]):
    """What several endings come to. Asked under the lock of its future unless it says otherwise, so it calls nobody."""

    __slots__ = ()
    any_will_do: ClassVar[bool] = False
    """Whether one of the endings can decide alone what they come to, in the best case; else it takes all."""

    @abstractmethod
    def expects(self, place: int) -> bool:
        """Whether the future at `place` has not been noted. Any thread may ask, with or without the lock."""

    @abstractmethod
    def note(self, place: int, ending: Ending[V]) -> None:
        """Note how the future at `place` ended."""

    @abstractmethod
    def verdict(self) -> Ending[R] | None:
        """Return what they come to, once that is certain; asked after each note."""

    @abstractmethod
    def lapse(self, error: TimeoutError) -> Ending[R]:
        """Return what they come to when the time is over before that is certain."""
