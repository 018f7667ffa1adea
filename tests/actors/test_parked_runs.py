"""Runs with which a system could not go on: when it tries again, on a simulated clock."""

from __future__ import annotations

from understudy.actors.stores.runs import StoredRun
from understudy.actors.system.recovery.parked_runs import ParkedRuns

LEFT = StoredRun(1, "r-1", "clerk", "ada", None, "gone", 1, 0, "", None, None)


def test_the_pauses_between_the_attempts_of_a_run_grow() -> None:
    now = 0.0
    parked, pauses = ParkedRuns(clock=lambda: now), list[float]()

    for _ in range(8):
        parked.park(LEFT, "no shop", "LookupError")
        began = now
        while parked.is_resting("r-1"):
            now += 1.0
        pauses.append(now - began)

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_attempt_by_hand_begins_the_pauses_anew_and_its_reason_is_news() -> None:
    now = 0.0
    parked = ParkedRuns(clock=lambda: now)
    assert [parked.park(LEFT, "no shop", "LookupError") for _ in range(3)] == [True, False, False]

    parked.begin_anew()

    assert parked.park(LEFT, "no shop", "LookupError")
    now += 1.0
    assert not parked.is_resting("r-1")
