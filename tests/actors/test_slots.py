"""The slots of a tool, without a thread: who gets one, who waits, and who is refused."""

from __future__ import annotations

import random
from functools import partial

import pytest

from understudy.actors.threads.slots import Slots, Taken


class Calls:
    """Calls by number that want slots, and what became of them."""

    def __init__(self, limit: int) -> None:
        self.slots: Slots[int] = Slots(limit)
        self.running: list[int] = []
        self.refused: list[int] = []

    def take(self, call: int) -> Taken:
        taken = self.slots.take(call, lambda: self.running.append(call), lambda: self.refused.append(call))
        if taken is Taken.NOW:
            self.running.append(call)
        return taken


def test_so_many_run_and_the_others_come_in_order() -> None:
    calls = Calls(2)

    assert [calls.take(n) for n in range(4)] == [Taken.NOW, Taken.NOW, Taken.LATER, Taken.LATER]
    calls.slots.release(1)
    assert calls.running == [0, 1, 2]
    calls.slots.release(0)
    calls.slots.release(2)
    calls.slots.release(3)

    assert calls.running == [0, 1, 2, 3]
    assert calls.take(4) is Taken.NOW


def test_who_leaves_the_line_is_not_started() -> None:
    calls = Calls(1)
    for n in range(3):
        calls.take(n)

    calls.slots.release(1)
    calls.slots.release(0)

    assert calls.running == [0, 2]


def test_a_slot_is_given_back_once() -> None:
    calls = Calls(1)
    for n in range(3):
        calls.take(n)

    calls.slots.release(0)
    calls.slots.release(0)

    assert calls.running == [0, 1]


def test_a_call_that_was_given_up_keeps_its_slot_until_it_returns() -> None:
    calls = Calls(2)
    calls.take(0)
    calls.slots.give_up(0)

    assert (calls.take(1), calls.take(2)) == (Taken.NOW, Taken.LATER)
    assert calls.slots.hung == 1
    calls.slots.release(1)
    assert calls.running == [0, 1, 2]
    calls.slots.release(0)
    assert calls.slots.hung == 0


def test_when_calls_that_were_given_up_hold_all_slots_everyone_is_refused_at_once() -> None:
    calls = Calls(2)
    for n in range(4):
        calls.take(n)

    calls.slots.give_up(0)
    assert calls.refused == []
    calls.slots.give_up(1)

    assert calls.refused == [2, 3]
    assert calls.take(5) is Taken.NEVER
    calls.slots.release(0)
    assert calls.take(6) is Taken.NOW
    assert calls.running == [0, 1, 6]


def test_to_give_up_a_call_that_holds_no_slot_changes_nothing() -> None:
    calls = Calls(1)
    calls.take(0)
    calls.slots.release(0)
    calls.slots.give_up(0)

    assert calls.slots.hung == 0
    assert calls.take(1) is Taken.NOW


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_call_is_running_waiting_refused_or_over(seed: int) -> None:
    chance, limit = random.Random(seed), 3
    calls, waiting, over, hung = Calls(limit), set[int](), set[int](), set[int]()
    for n in range(200):
        taken = calls.take(n)
        if taken is Taken.LATER:
            waiting.add(n)
        elif taken is Taken.NEVER:
            calls.refused.append(n)
        running = [each for each in calls.running if each not in over]
        for each in chance.sample(running, min(len(running), chance.randint(0, 2))):
            if chance.random() < 0.3 and each not in hung:
                hung.add(each)
                calls.slots.give_up(each)
            else:
                over.add(each)
                calls.slots.release(each)
        waiting -= {*calls.running, *calls.refused}
        running = [each for each in calls.running if each not in over]
        assert len(running) <= limit
        assert sorted([*over, *running, *waiting, *calls.refused]) == list(range(n + 1))
        assert not waiting or len(running) == limit
        assert not waiting or not set(running) <= hung


def test_a_start_that_gives_its_slot_back_at_once_lets_the_next_one_start() -> None:
    slots: Slots[int] = Slots(1)
    started: list[int] = []

    def start(call: int) -> None:
        started.append(call)
        slots.release(call)

    slots.take(0, lambda: None, lambda: None)
    for call in range(1, 5_000):  # more than calls may stand in one another
        slots.take(call, partial(start, call), lambda: None)
    slots.release(0)

    assert started == list(range(1, 5_000))
    assert slots.take_now(5_000)


def test_a_start_that_fails_keeps_nobody_else_from_it(caplog: pytest.LogCaptureFixture) -> None:
    slots: Slots[str] = Slots(2)
    started: list[str] = []

    def fail() -> None:
        raise RuntimeError("can't start new thread")

    for call, start in (("a", fail), ("b", fail), ("broken", fail), ("sound", lambda: started.append("sound"))):
        slots.take(call, start, lambda: None)
    slots.release("a")
    slots.release("b")

    assert started == ["sound"]
    assert "could not be started" in caplog.text


def test_who_leaves_the_line_was_in_it() -> None:
    slots: Slots[str] = Slots(1)
    for call in ("holds", "waits"):
        slots.take(call, lambda: None, lambda: None)

    assert [slots.leave(call) for call in ("holds", "waits", "waits", "nobody")] == [False, True, False, False]


@pytest.mark.parametrize(("limit", "expected"), [(1, ["a"]), (2, ["a", "b"])])
def test_who_keeps_a_call_waiting_is_who_holds_the_slots_now(limit: int, expected: list[str]) -> None:
    slots: Slots[str] = Slots(limit)
    for call in ("a", "b", "c", "d", "e"):
        slots.take(call, lambda: None, lambda: None)

    assert sorted(slots.keep_waiting("e")) == expected
    slots.release("a")
    assert sorted(slots.keep_waiting("e")) == sorted([*expected[1:], "bc"[limit - 1]])
    assert [slots.keep_waiting(call) for call in ("a", "b", "nobody")] == [[], [], []]
