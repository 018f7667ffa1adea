"""Slots, without a thread: who gets one, and who waits."""

from __future__ import annotations

import random
from functools import partial

import pytest

from understudy.actors.threads.slots import Slots, Taken


class Calls:
    """Holders by number that want slots, and what became of them."""

    def __init__(self, limit: int) -> None:
        self.slots: Slots[int] = Slots(limit)
        self.running: list[int] = []

    def take(self, call: int) -> Taken:
        taken = self.slots.take(call, lambda: self.running.append(call))
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


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_one_is_running_waiting_or_over(seed: int) -> None:
    chance, limit = random.Random(seed), 3
    calls, waiting, over = Calls(limit), set[int](), set[int]()
    for n in range(200):
        if calls.take(n) is Taken.LATER:
            waiting.add(n)
        running = [each for each in calls.running if each not in over]
        for each in chance.sample(running, min(len(running), chance.randint(0, 2))):
            over.add(each)
            calls.slots.release(each)
        waiting -= {*calls.running}
        running = [each for each in calls.running if each not in over]
        assert len(running) <= limit
        assert sorted([*over, *running, *waiting]) == list(range(n + 1))
        assert not waiting or len(running) == limit


def test_a_start_that_gives_its_slot_back_at_once_lets_the_next_one_start() -> None:
    slots: Slots[int] = Slots(1)
    started: list[int] = []

    def start(call: int) -> None:
        started.append(call)
        slots.release(call)

    slots.take(0, lambda: None)
    for call in range(1, 5_000):  # more than calls may stand in one another
        slots.take(call, partial(start, call))
    slots.release(0)

    assert started == list(range(1, 5_000))
    assert slots.take(5_000, lambda: None) is Taken.NOW


def test_a_start_that_fails_keeps_nobody_else_from_it(caplog: pytest.LogCaptureFixture) -> None:
    slots: Slots[str] = Slots(2)
    started: list[str] = []

    def fail() -> None:
        raise RuntimeError("can't start new thread")

    for call, start in (("a", fail), ("b", fail), ("broken", fail), ("sound", lambda: started.append("sound"))):
        slots.take(call, start)
    slots.release("a")
    slots.release("b")

    assert started == ["sound"]
    assert "could not be started" in caplog.text


@pytest.mark.parametrize(("limit", "expected"), [(1, ["a"]), (2, ["a", "b"])])
def test_who_keeps_a_call_waiting_is_who_holds_the_slots_now(limit: int, expected: list[str]) -> None:
    slots: Slots[str] = Slots(limit)
    for call in ("a", "b", "c", "d", "e"):
        slots.take(call, lambda: None)

    assert sorted(slots.keep_waiting("e")) == expected
    slots.release("a")
    assert sorted(slots.keep_waiting("e")) == sorted([*expected[1:], "bc"[limit - 1]])
    assert [slots.keep_waiting(call) for call in ("a", "b", "nobody")] == [[], [], []]
