"""The members of a group, as their supervisor sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import WARNING
from typing import Protocol

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.diagnostics import emit
from understudy.orchestration.supervision.restarts import Restart

OnDone = Callable[[], object]
"""Called once when something has happened."""
IsCurrent = Callable[[], bool]
"""Whether something that was decided earlier still holds, or was superseded."""

SHUTDOWN = 5.0  # Seconds. OTP's supervisors give a child as many to end in, unless told otherwise.


def always() -> bool:
    """Always true: the start cannot be superseded."""
    return True


class Member(Protocol):
    """A child of a supervisor: the cell of an actor, or another supervisor.

    A supervisor counts its rounds, and each order has the number of its round. A member ignores orders to halt or to give up
    of an earlier round than the one in which it has begun last.
    """

    restart: Restart

    def halt(
        self, cause: BaseException | None, on_done: OnDone, round: int = 0, *, with_siblings: bool = False
    ) -> None:
        """Let go of the object, keep the mailbox, handle no message; then call `on_done`, once, whatever happens.

        An order of an earlier `round` only calls `on_done`. A temporary actor that is halted `with_siblings` ends: it
        begins again only together with its whole group.
        """
        ...

    def begin(self, delay: float, on_done: OnDone, is_current: IsCurrent = always, round: int = 0) -> None:
        """Make a new object after `delay` seconds, and handle messages again; then call `on_done`, once. Note the `round`.

        If it is not current when its turn comes, nothing is done and `on_done` is not called.
        """
        ...

    def give_up(self, cause: BaseException, on_done: OnDone, round: int = 0) -> None:
        """Stop working and answer everything with `cause`; then call `on_done`, once, whatever happens.

        An order of an earlier `round` only calls `on_done`.
        """
        ...

    def stop_then(self, on_done: OnDone) -> None:
        """Stop for good, in an orderly way, and then call `on_done`."""
        ...

    def stay_in_parent(self) -> None:
        """Count as stopped in a forked child, where it has no thread."""
        ...


def give_up_in_time(member: Member, cause: BaseException, on_done: OnDone, round: int) -> None:
    """Give up a member, and call `on_done` when that is done; also after `SHUTDOWN` seconds, for it may hang in a message."""
    alarm: Alarm | None = None
    try:
        alarm = ring_at(time.monotonic() + SHUTDOWN, on_done)
    except RuntimeError as error:
        text = "no thread can be had to limit the wait for an actor that is given up: %s"
        emit(WARNING, "wait_not_limited", {}, text, error)

    def done() -> None:
        if alarm is not None:
            alarm.call_off()
        on_done()

    member.give_up(cause, done, round)
