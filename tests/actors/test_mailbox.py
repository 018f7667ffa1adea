"""The mailbox: two lanes, one bounded, closed and emptied under the lock that puts."""

from __future__ import annotations

import threading

from understudy.actors.mailbox import Lanes, Put


def test_the_first_message_wakes_and_the_next_does_not() -> None:
    mailbox: Lanes[str] = Lanes()

    assert mailbox.put("a") is Put.WAKE
    assert mailbox.put("b") is Put.QUEUED


def test_after_the_last_was_taken_the_next_message_wakes_again() -> None:
    mailbox: Lanes[str] = Lanes()
    mailbox.put("a")

    assert [mailbox.take(), mailbox.take()] == ["a", None]
    assert mailbox.put("b") is Put.WAKE


def test_the_system_lane_comes_first_and_keeps_its_order() -> None:
    mailbox: Lanes[str] = Lanes()
    for item, system in (("user 1", False), ("system 1", True), ("user 2", False), ("system 2", True)):
        mailbox.put(item, system=system)

    assert [mailbox.take() for _ in range(4)] == ["system 1", "system 2", "user 1", "user 2"]


def test_a_full_user_lane_refuses_and_the_system_lane_never_does() -> None:
    mailbox: Lanes[int] = Lanes(capacity=2)
    mailbox.put(1)
    mailbox.put(2)

    assert mailbox.put(3) is Put.FULL
    assert [mailbox.put(n, system=True) for n in range(100)] == [Put.QUEUED] * 100
    assert len(mailbox) == 102


def test_a_closed_mailbox_gives_back_what_waited_and_takes_no_more() -> None:
    mailbox: Lanes[str] = Lanes()
    mailbox.put("user")
    mailbox.put("system", system=True)

    assert mailbox.drain(close=True) == ["system", "user"]
    assert mailbox.put("late") is Put.CLOSED
    assert mailbox.put("late", system=True) is Put.CLOSED
    assert mailbox.drain(close=True) == []


def test_a_drained_mailbox_wakes_again() -> None:
    mailbox: Lanes[str] = Lanes()
    mailbox.put("lost")

    assert mailbox.drain(close=False) == ["lost"]
    assert mailbox.put("next") is Put.WAKE


def test_puts_that_race_a_close_are_each_either_given_back_or_refused() -> None:
    for _ in range(50):
        mailbox: Lanes[int] = Lanes(capacity=10_000)
        go = threading.Barrier(5)
        accepted: list[int] = []

        def put_many(mailbox: Lanes[int] = mailbox, go: threading.Barrier = go, accepted: list[int] = accepted) -> None:
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
