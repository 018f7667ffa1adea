"""What a future that is made of others does with them: take them, read them, cancel them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future as StandardFuture
from logging import ERROR
from typing import Any, TypeVar, cast

import pykka

from understudy.actors.threads import cancel_hooks
from understudy.diagnostics import emit
from understudy.vocabulary.runs.handles import Future

from .endings import Ending, Failure, Member, Value
from .foreign_future import ForeignFuture

V = TypeVar("V")


class Droppable(ABC):
    """A member that tells a cancel on request from one that comes because nobody wants its value any more."""

    __slots__ = ()

    @abstractmethod
    def drop(self) -> None:
        """Cancel the work because nobody wants its value."""


def as_members(name: str, futures: Iterable[Member[V] | pykka.Future[V]]) -> tuple[Member[V], ...]:
    """Return the futures as members; nothing waits for a future of Pykka's own before its first callback.

    Raises:
        TypeError: one is no future.
    """
    members: list[Member[Any]] = []
    for place, each in enumerate(cast("Iterable[object]", futures)):
        if isinstance(each, Future | StandardFuture):
            members.append(cast("Member[Any]", each))
        elif isinstance(each, pykka.Future):
            members.append(ForeignFuture(each))  # pyright: ignore[reportUnknownArgumentType]  # a future of anything
        else:
            raise TypeError(f"{name} takes futures, got {each!r} at place {place}")
    return tuple(members)


def ending_of(member: Member[V]) -> Ending[V]:
    """Return how a future that is done has ended."""
    try:
        error = member.exception(0)
        if error is None:
            return Value(member.result(0))
    except Exception as raised:  # a cancelled standard future raises it
        error = raised.with_traceback(None)  # its frames refer to the member
    return Failure(error)


def cancel_all(members: Iterable[Member[object]]) -> None:
    """Cancel the members that are not done, and wait for nothing that they do about it."""
    with cancel_hooks.Settling(0.0):
        for member in members:
            if not member.done():
                try:
                    if isinstance(member, Droppable):
                        member.drop()
                    else:
                        member.cancel()
                except Exception:
                    emit(ERROR, "future_not_cancelled", {}, "a future could not be cancelled", exc_info=True)
