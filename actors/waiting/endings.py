"""How futures end, and how one ending is made of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar, Union

from understudy.orchestration.group.merge_rule import MemberEnds, MergeRule, Verdict
from understudy.vocabulary.runs.outcomes import Incomplete, NeedsApproval, NeedsInput

T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
R = TypeVar("R")

PAUSES = (NeedsInput, NeedsApproval, Incomplete)


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


class Endings(ABC, Generic[V, R]):
    """How each of several futures ended, and the result that a rule makes of it.

    Called under the lock of the merged future unless a method says otherwise, so it calls nobody.
    """

    __slots__ = ("_ends", "_kept")
    rule: ClassVar[MergeRule]

    def __init__(self, total: int) -> None:
        self._kept: list[Ending[V] | None] = [None] * total
        self._ends = MemberEnds(total)

    def expects(self, place: int) -> bool:
        """Whether the future at `place` has not been noted. Any thread may ask, with or without the lock."""
        return self._kept[place] is None

    def note(self, place: int, ending: Ending[V]) -> None:
        """Note how the future at `place` ended."""
        self._kept[place] = ending
        if isinstance(ending, Failure):
            self._ends.failed.append(place)
        elif issubclass(type(ending.value), PAUSES):
            self._ends.paused.append(place)
        else:
            self._ends.succeeded.append(place)

    def verdict(self) -> Ending[R] | None:
        """Return the result once it is certain, else None; called after each note."""
        verdict = self.rule.verdict(self._ends)
        return None if verdict is None else self._result(verdict)

    @abstractmethod
    def _result(self, verdict: Verdict) -> Ending[R]:
        """Return the result that the rule has decided for."""

    @abstractmethod
    def lapse(self, error: TimeoutError) -> Ending[R]:
        """Return the result when the time is over before it is certain."""

    def ending(self, place: int) -> Ending[V]:
        """Return how the future at `place` ended, which was noted."""
        ending = self._kept[place]
        assert ending is not None
        return ending

    def errors(self) -> list[BaseException]:
        """Return the errors so far, in the order of the futures."""
        return [ending.error for ending in self._kept if isinstance(ending, Failure)]
