"""`SupervisorRef`: the address of a group of actors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast, overload

from understudy.actors.threads.promise import Late, Promise
from understudy.actors.waiting.base_future import DerivedFuture
from understudy.vocabulary.checks import checked_wait
from understudy.vocabulary.runs.handles import Future

from .actor_cell import ActorCell
from .ask_future import StopFuture
from .supervisor import SupervisorCell


class SupervisorRef:
    """A group of actors that was spawned together."""

    __slots__ = ("_supervisor",)

    def __init__(self, supervisor: SupervisorCell) -> None:
        self._supervisor = supervisor

    @property
    def address(self) -> str:
        """The group's name in its system: `SYSTEM/ID`."""
        return self._supervisor.name

    def is_alive(self) -> bool:
        """Whether it works; False once it has failed more often than its strategy bears, or all its actors have stopped."""
        return self._supervisor.cause is None and not self._has_stopped()

    def _has_stopped(self) -> bool:
        return all(cell.stopped.done for cell in _cells(self._supervisor))

    @overload
    def stop(self, *, block: Literal[True] = True, timeout: float | None = None) -> bool: ...
    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> Future[bool]: ...
    @overload
    def stop(self, *, block: bool, timeout: float | None = None) -> bool | Future[bool]: ...
    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | Future[bool]:
        """Stop the children, the last one first, each after the messages it has, and wait until all have stopped.

        Inside of one of them this does not wait.

        Args:
            block: False returns the future of the result at once.
            timeout: seconds to wait for the end, None for any time; the end of the wait does not keep the actors alive.

        Returns:
            Whether this, or an earlier call, stops the group; False if all had stopped before.

        Raises:
            TimeoutError: not all have stopped in that time. It is a `pykka.Timeout` too.
            CircularAgentCall: a child waits, directly or through others, for who waits for its end. All stop all the same.
        """
        checked_wait("stop", timeout)
        was_there, cells = not self._has_stopped(), _cells(self._supervisor)
        self._supervisor.stop_then(_nothing)
        end = _GroupEnd(self.address, [_end_of(cell) for cell in cells], lambda _: was_there)
        if not block:
            return end
        return True if any(cell.is_here for cell in cells) else end.result(timeout)

    def __repr__(self) -> str:
        return f"SupervisorRef({self.address!r})"


class _GroupEnd(DerivedFuture[bool]):
    """The end of a group; to cancel it does nothing, for the actors stop all the same."""

    __slots__ = ("_address",)

    def __init__(self, address: str, ends: list[StopFuture[object]], make: Callable[[list[Any]], bool]) -> None:
        self._address = address
        super().__init__(ends, make)

    def _late(self, timeout: float) -> Late:
        return Late(
            f"{self._address} has not stopped within {timeout:g} s; its actors stop after the messages they have"
        )

    def cancel(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<end of {self._address}: {self.state}>"


def _end_of(cell: ActorCell) -> StopFuture[object]:
    end: Promise[object] = Promise()
    cell.stopped.when_done(partial(end.set, None))
    return StopFuture(end, cell)


def _cells(supervisor: SupervisorCell) -> list[ActorCell]:
    """Return the actors of a group, and those of the groups inside."""
    found: list[ActorCell] = []
    for member in supervisor.members:
        if isinstance(member, SupervisorCell):
            found.extend(_cells(member))
        else:
            found.append(cast(ActorCell, member))
    return found


def _nothing() -> None:
    """Answer nobody."""
