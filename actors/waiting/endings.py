"""How futures end, and the rule that makes one ending of several."""

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
    """A future of understudy or of the standard library; a union of the two classes would be invariant."""

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
    """Makes one ending of several. Called under the lock of its future unless a method says otherwise, so it calls nobody."""

    __slots__ = ()
    any_will_do: ClassVar[bool] = False
    """Whether one ending can decide alone, in the best case; else the rule needs all of them."""

    @abstractmethod
    def expects(self, place: int) -> bool:
        """Whether the future at `place` has not been noted. Any thread may ask, with or without the lock."""

    @abstractmethod
    def note(self, place: int, ending: Ending[V]) -> None:
        """Note how the future at `place` ended."""

    @abstractmethod
    def verdict(self) -> Ending[R] | None:
        """Return the result once it is certain, else None; called after each note."""

    @abstractmethod
    def lapse(self, error: TimeoutError) -> Ending[R]:
        """Return the result when the time is over before it is certain."""
