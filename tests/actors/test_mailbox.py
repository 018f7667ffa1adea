"""The mailbox: two lanes, one bounded, closed and emptied under the lock that puts."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

import pytest

from tests.support.scripts import WAIT, eventually
from understudy.actors.cells.mailbox import MailboxQueue, Put
from understudy.actors.runs.turns import RunMailbox


def test_the_first_message_wakes_and_the_next_does_not() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()

    assert mailbox.put("a") is Put.WAKE
    assert mailbox.put("b") is Put.QUEUED


def test_after_the_last_was_taken_the_next_message_wakes_again() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    mailbox.put("a")

    assert [mailbox.take(), mailbox.take()] == ["a", None]
    assert mailbox.put("b") is Put.WAKE


def test_the_system_lane_comes_first_and_keeps_its_order() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    for item, system in (("user 1", False), ("system 1", True), ("user 2", False), ("system 2", True)):
        mailbox.put(item, system=system)

    assert [mailbox.take() for _ in range(4)] == ["system 1", "system 2", "user 1", "user 2"]


def test_a_full_user_lane_refuses_and_the_system_lane_never_does() -> None:
    mailbox: MailboxQueue[int] = MailboxQueue(capacity=2)
    mailbox.put(1)
    mailbox.put(2)

    assert mailbox.put(3) is Put.FULL
    assert [mailbox.put(n, system=True) for n in range(100)] == [Put.QUEUED] * 100
    assert len(mailbox) == 102


def test_a_closed_mailbox_gives_back_what_waited_and_takes_no_more() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    mailbox.put("user")
    mailbox.put("system", system=True)

    assert mailbox.drain(close=True) == ["system", "user"]
    assert mailbox.put("late") is Put.CLOSED
    assert mailbox.put("late", system=True) is Put.CLOSED
    assert mailbox.drain(close=True) == []


def test_a_drained_mailbox_wakes_again() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    mailbox.put("lost")

    assert mailbox.drain(close=False) == ["lost"]
    assert mailbox.put("next") is Put.WAKE


def test_puts_that_race_a_close_are_each_either_given_back_or_refused() -> None:
    for _ in range(50):
        mailbox: MailboxQueue[int] = MailboxQueue(capacity=10_000)
        go = threading.Barrier(5)
        accepted: list[int] = []

        def put_many(
            mailbox: MailboxQueue[int] = mailbox, go: threading.Barrier = go, accepted: list[int] = accepted
        ) -> None:
            go.wait(10)
            for n in range(50):
                if mailbox.put(n) is not Put.CLOSED:
                    accepted.append(n)

        threads = [threading.Thread(target=put_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        go.wait(10)
        returned = mailbox.drain(close=True)
        for thread in threads:
            thread.join(10)

        assert len(returned) == len(accepted)


class ClosesWhenItCan:
    """A lock that somebody waits for who closes the mailbox, and gets it as soon as it is free."""

    def __init__(self, mailbox: MailboxQueue[str]) -> None:
        self._mailbox = mailbox
        self._lock = threading.Lock()
        self.returned: list[str] | None = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        if self.returned is None:
            self.returned = []
            self.returned = self._mailbox.drain(close=True)


def test_what_was_accepted_before_a_close_is_given_back_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    lock = ClosesWhenItCan(mailbox)
    monkeypatch.setattr(mailbox, "_lock", lock)

    accepted = mailbox.put("message") is not Put.CLOSED

    assert accepted
    assert lock.returned == ["message"]
    assert len(mailbox) == 0


@pytest.mark.parametrize("orderly", [True, False])
def test_who_waits_for_room_hears_of_the_end_at_once(orderly: bool) -> None:
    mailbox: MailboxQueue[str] = MailboxQueue(capacity=1)
    mailbox.put("first")
    puts: list[Put] = []
    waiting = threading.Thread(target=lambda: puts.append(mailbox.put_waiting("second", 10 * WAIT)), daemon=True)
    waiting.start()
    eventually(lambda: mailbox._waiting == 1, "it waits")  # pyright: ignore[reportPrivateUsage]  # shows nowhere else

    if orderly:
        mailbox.close("last")
    else:
        mailbox.drain(close=True)
    waiting.join(WAIT)

    assert puts == [Put.CLOSED]


def test_a_lane_that_was_closed_waits_for_nothing_more() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    mailbox.put("first")

    mailbox.close("last")
    mailbox.suspend()

    assert [mailbox.take(), mailbox.take()] == ["first", "last"]


def test_until_the_end_is_taken_a_closed_mailbox_takes_what_the_runtime_sends() -> None:
    mailbox: MailboxQueue[str] = MailboxQueue()
    mailbox.put("first")
    mailbox.close("last")

    assert mailbox.put("user") is Put.CLOSED
    assert mailbox.put("system", system=True) is Put.QUEUED
    assert [mailbox.take() for _ in range(4)] == ["system", "first", "last", None]


def test_the_most_that_waited_counts_those_that_waited_for_room() -> None:
    mailbox: MailboxQueue[int] = MailboxQueue(capacity=3)
    for number in range(3):
        mailbox.put_waiting(number, WAIT)
    while mailbox.take() is not None:
        pass
    mailbox.put_waiting(4, WAIT)

    assert mailbox.high_water == 3


def test_items_are_taken_out_of_the_user_lane_wherever_they_stand() -> None:
    mailbox: MailboxQueue[int] = MailboxQueue(capacity=4)
    mailbox.put(9, system=True)
    for item in (1, 2, 3, 4):
        mailbox.put(item)

    assert mailbox.take_out(lambda item: item % 2 == 1) == ([1, 3], True)
    assert mailbox.least(float) == 2.0

    assert mailbox.put(5) is Put.QUEUED  # there is room again
    assert [mailbox.take() for _ in range(5)] == [9, 2, 4, 5, None]
    assert mailbox.take_out(lambda item: True) == ([], False)
    assert mailbox.least(float) == float("inf")


def test_who_waits_for_room_gets_that_of_what_is_taken_out() -> None:
    mailbox: MailboxQueue[int] = MailboxQueue(capacity=1)
    mailbox.put(1)
    puts: list[Put] = []
    waiting = threading.Thread(target=lambda: puts.append(mailbox.put_waiting(2, WAIT)))
    waiting.start()
    eventually(lambda: mailbox._waiting == 1, "it waits for room")  # pyright: ignore[reportPrivateUsage]

    mailbox.take_out(lambda item: item == 1)

    waiting.join(WAIT)
    assert puts == [Put.QUEUED]


# --- the mailbox of a run


def test_only_the_first_message_to_a_run_asks_for_a_thread() -> None:
    mailbox = RunMailbox()

    assert [mailbox.put("a"), mailbox.put("b"), mailbox.put("c")] == [True, False, False]
    assert [mailbox.take() for _ in range(4)] == ["a", "b", "c", None]
    assert mailbox.put("c")


class LetsOneIn:
    """The turn of a run, to which a message comes right before the turn is given back."""

    def __init__(self, mailbox: RunMailbox, late: str) -> None:
        self._mailbox, self._late = mailbox, [late]
        self._lock = threading.Lock()
        self.refused: list[str] = []

    def acquire(self, blocking: bool) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self.refused += [late for late in self._late if not self._mailbox.put(late)]
        self._late = []
        self._lock.release()


def test_a_message_to_a_run_that_comes_when_the_turn_is_given_back_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = RunMailbox()
    turn = LetsOneIn(mailbox, "late")
    monkeypatch.setattr(mailbox, "turn", turn)

    assert mailbox.put("first")
    assert [mailbox.take() for _ in range(3)] == ["first", "late", None]
    assert turn.refused == ["late"], "nobody else was to take it"


def test_messages_to_a_run_that_race_are_each_taken_once_and_one_at_a_time() -> None:
    mailbox, go = RunMailbox(), threading.Barrier(4)
    taken: list[object] = []
    at_a_message, clashes = threading.Lock(), list[object]()

    def send(sender: int) -> None:
        go.wait(WAIT)
        for number in range(500):
            if mailbox.put(f"{sender} {number:03}"):
                take_turn()

    def take_turn() -> None:
        while (message := mailbox.take()) is not None:
            if not at_a_message.acquire(blocking=False):
                clashes.append(message)
                continue
            taken.append(message)
            at_a_message.release()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=send, args=(sender,), daemon=True) for sender in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
    finally:
        sys.setswitchinterval(interval)

    assert not clashes
    assert sorted(map(str, taken)) == [f"{sender} {number:03}" for sender in range(4) for number in range(500)]
