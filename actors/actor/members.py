"""The members of a group: what each of them can do, and how all of them do it, one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.orchestration.supervision.restarts import Restart

Then = Callable[[], object]
Still = Callable[[], bool]
SHUTDOWN = 5.0  # Seconds. What OTP's supervisors give a child to end in, unless told otherwise.


def always() -> bool:
    """Be what a beginning is that nothing comes between."""
    return True


class Member(Protocol):
    """A child: an actor's cell, or a family of its own."""

    restart: Restart

    def halt(self, cause: BaseException | None, then: Then, life: int = 0, *, with_siblings: bool = False) -> None:
        """Let go of the object, keep the mailbox, handle no message; then call `then`, once, whatever happens.

        If it has begun in a later `life` of its family's when its turn comes, only `then` is called. A temporary actor
        that is halted `with_siblings` ends: it begins again only together with its whole family.
        """
        ...

    def begin(self, delay: float, then: Then, still: Still = always, life: int = 0) -> None:
        """Make a new object after `delay` seconds, in a `life` of its family's, and handle messages again; then call `then`, once.

        If it is not to be `still` when its turn comes, nothing is done and `then` is not called.
        """
        ...

    def give_up(self, cause: BaseException, then: Then, life: int = 0) -> None:
        """Stop working and answer everything with `cause`; then call `then`, once, whatever happens.

        If it has begun in a later `life` of its family's when its turn comes, only `then` is called.
        """
        ...

    def stop_then(self, then: Then) -> None:
        """Stop for good, in an orderly way, and then call `then`."""
        ...


def call_all(thens: Sequence[Then]) -> None:
    for then in thens:
        then()


def halt_all(
    members: Sequence[Member], cause: BaseException | None, then: Then, life: int, *, with_siblings: bool = False
) -> None:
    """Halt the members that have not begun since `life`, the last one first, each after the one before it; then call `then`."""

    def halt(member: Member, halted: Then) -> None:
        member.halt(cause, halted, life, with_siblings=with_siblings)

    _one_by_one(reversed(members), halt, then)


def give_up_all(members: Sequence[Member], cause: BaseException, then: Then, life: int) -> None:
    """Give up the members that have not begun since `life`, the last one first, each after the one before it; then call `then`.

    One that is still at a message `SHUTDOWN` seconds later is not waited for.
    """
    _one_by_one(reversed(members), lambda member, gone: member.give_up(cause, _in_time(gone), life), then)


def _in_time(then: Then) -> Then:
    """Return what calls `then`, once: when it is called itself, or when `SHUTDOWN` seconds have passed."""
    first = threading.Lock()
    alarm: Alarm | None = None

    def once() -> None:
        if first.acquire(blocking=False):
            if alarm is not None:
                alarm.call_off()
            then()

    try:
        alarm = ring_at(time.monotonic() + SHUTDOWN, once)
    except RuntimeError:  # no thread can be had: it is waited for
        pass
    return once


def begin_all(
    members: Sequence[Member],
    delay: float,
    then: Then,
    still: Still,
    life: int,
    each: Callable[[Member], object] = lambda member: None,
) -> None:
    """Begin the members, the first one after `delay`, each after the one before it, and then call `then`.

    `each` is called with every member that has begun, before it handles a message. Once they are not to begin `still`,
    neither what is left nor `then` follows.
    """

    def begin(member: Member, next_one: Then) -> None:
        def begun() -> None:
            if still():
                each(member)
                next_one()

        member.begin(delay if member is members[0] else 0.0, begun, still, life)

    _one_by_one(iter(members), begin, then)


def stop_all(members: Sequence[Member], then: Then) -> None:
    """Stop the members, the last one first, each after the one before it, and then call `then`."""
    _one_by_one(reversed(members), lambda member, stopped: member.stop_then(stopped), then)


def _one_by_one(members: Iterator[Member], do: Callable[[Member, Then], object], then: Then) -> None:
    """Call `do` with each member and what to call when that is done, each after the one before it; and then `then`.

    Members that are done at once, as those that have stopped are, come one after another in a loop and not each inside of
    the one before it: there may be more of them than the stack is deep.
    """

    def go_on() -> None:
        for member in members:
            first = threading.Lock()  # Whose second taker goes on: this loop, or who is done later.

            def done(first: threading.Lock = first) -> None:
                if not first.acquire(blocking=False):
                    go_on()

            do(member, done)
            if first.acquire(blocking=False):
                return
        then()

    go_on()
