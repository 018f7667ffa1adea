"""The members of a group: what a supervisor asks of each of them, and how it asks all of them, one after another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.orchestration.supervision.restarts import Restart

OnDone = Callable[[], object]
"""Called once when something has happened."""
IsCurrent = Callable[[], bool]
"""Whether something that was decided earlier still holds, or was superseded."""

log = logging.getLogger("understudy")

SHUTDOWN = 5.0  # Seconds. OTP's supervisors give a child as many to end in, unless told otherwise.


def always() -> bool:
    """Always true: the start cannot be superseded."""
    return True


class Member(Protocol):
    """A child of a supervisor: the cell of an actor, or another supervisor.

    A supervisor counts its generations: each begin starts a new one. A member ignores orders of an earlier generation than
    the one in which it has begun last.
    """

    restart: Restart

    def halt(
        self, cause: BaseException | None, on_done: OnDone, generation: int = 0, *, with_siblings: bool = False
    ) -> None:
        """Let go of the object, keep the mailbox, handle no message; then call `on_done`, once, whatever happens.

        An order of an earlier `generation` only calls `on_done`. A temporary actor that is halted `with_siblings` ends: it
        begins again only together with its whole group.
        """
        ...

    def begin(self, delay: float, on_done: OnDone, is_current: IsCurrent = always, generation: int = 0) -> None:
        """Make a new object after `delay` seconds, in this `generation`, and handle messages again; then call `on_done`, once.

        If it is not current when its turn comes, nothing is done and `on_done` is not called.
        """
        ...

    def give_up(self, cause: BaseException, on_done: OnDone, generation: int = 0) -> None:
        """Stop working and answer everything with `cause`; then call `on_done`, once, whatever happens.

        An order of an earlier `generation` only calls `on_done`.
        """
        ...

    def stop_then(self, on_done: OnDone) -> None:
        """Stop for good, in an orderly way, and then call `on_done`."""
        ...


def call_all(callbacks: Sequence[OnDone]) -> None:
    """Call each of them."""
    for callback in callbacks:
        callback()


def halt_all(
    members: Sequence[Member],
    cause: BaseException | None,
    on_done: OnDone,
    generation: int,
    *,
    with_siblings: bool = False,
) -> None:
    """Halt the members of this generation, the last one first, each after the one before it; then call `on_done`."""

    def halt(member: Member, halted: OnDone) -> None:
        member.halt(cause, halted, generation, with_siblings=with_siblings)

    _one_by_one(reversed(members), halt, on_done)


def give_up_all(members: Sequence[Member], cause: BaseException, on_done: OnDone, generation: int) -> None:
    """Give up the members of this generation, the last one first, each after the one before it; then call `on_done`.

    A member that is still at a message `SHUTDOWN` seconds later is not waited for.
    """
    _one_by_one(reversed(members), lambda member, gone: member.give_up(cause, _in_time(gone), generation), on_done)


def _in_time(on_done: OnDone) -> OnDone:
    """Return a function that calls `on_done` once: when it is called itself, or when `SHUTDOWN` seconds have passed."""
    first = threading.Lock()
    alarm: Alarm | None = None

    def once() -> None:
        if first.acquire(blocking=False):
            if alarm is not None:
                alarm.call_off()
            on_done()

    try:
        alarm = ring_at(time.monotonic() + SHUTDOWN, once)
    except RuntimeError as error:
        log.warning("no thread can be had to limit the wait for an actor that is given up: %s", error)
    return once


def begin_all(
    members: Sequence[Member],
    delay: float,
    on_done: OnDone,
    is_current: IsCurrent,
    generation: int,
    each: Callable[[Member], object] = lambda member: None,
) -> None:
    """Begin the members, the first one after `delay`, each after the one before it, and then call `on_done`.

    `each` is called with every member that has begun, before it handles a message. Once the begin is not current any more,
    the remaining members do not begin, and `on_done` is not called.
    """

    def begin(member: Member, next_one: OnDone) -> None:
        def begun() -> None:
            if is_current():
                each(member)
                next_one()

        member.begin(delay if member is members[0] else 0.0, begun, is_current, generation)

    _one_by_one(iter(members), begin, on_done)


def stop_all(members: Sequence[Member], on_done: OnDone) -> None:
    """Stop the members, the last one first, each after the one before it, and then call `on_done`."""
    _one_by_one(reversed(members), lambda member, stopped: member.stop_then(stopped), on_done)


def _one_by_one(members: Iterator[Member], do: Callable[[Member, OnDone], object], on_done: OnDone) -> None:
    """Call `do` with each member and a callback, the next one when that callback was called; at the end call `on_done`.

    A member that is done at once, as one that has stopped is, is followed by the next in a loop, not in a nested call:
    there may be more members than the stack is deep.
    """

    def go_on() -> None:
        for member in members:
            first = threading.Lock()  # The second to take it goes on: this loop, or the callback.

            def done(first: threading.Lock = first) -> None:
                if not first.acquire(blocking=False):
                    go_on()

            do(member, done)
            if first.acquire(blocking=False):
                return
        on_done()

    go_on()
