"""What is due when a tool call takes its time, and until when each call of a round may take."""

from __future__ import annotations

from math import inf

import pytest

import understudy as us
from understudy.orchestration.supervision.call_time import (
    GRACE,
    CallAction,
    CallDeadlines,
    action_due,
    next_look,
    repeats_of,
)
from understudy.vocabulary.tools.definition import Tool

LATE = 100.0  # The deadline of these calls.


@pytest.mark.parametrize(
    ("now", "gives_up_at", "timed_out", "repeats", "due"),
    [
        (99.9, None, 0, 0, "wait"),
        (99.9, None, 0, 1, "wait"),
        (100.0, None, 0, 0, "warn"),
        (100.0, None, 0, 1, "retry"),
        (100.0, None, 1, 1, "warn"),
        (100.0, None, 1, 2, "retry"),
        (100.1, 100.25, 0, 0, "wait"),
        (100.1, 100.25, 0, 2, "wait"),  # it was warned, because the run had no retry left
        (100.25, 100.25, 0, 0, "give_up"),
        (200.0, 100.25, 1, 1, "give_up"),
        (200.0, None, 0, 0, "warn"),  # however late somebody looks, a call is warned before it is given up
    ],
)
def test_a_call_is_made_again_or_warned_at_its_deadline_and_given_up_after_the_warning(
    now: float, gives_up_at: float | None, timed_out: int, repeats: int, due: CallAction
) -> None:
    assert action_due(now, LATE, gives_up_at, timed_out, repeats) == due


def test_a_call_without_a_limit_is_waited_for() -> None:
    assert action_due(1e9, None, None, 0, 3) == "wait"
    assert next_look(None, None) == inf


def test_somebody_must_look_at_the_deadline_and_when_the_grace_is_over() -> None:
    assert next_look(LATE, None) == LATE
    assert next_look(LATE, LATE + GRACE) == LATE + GRACE


def test_only_a_call_that_may_happen_twice_is_made_again() -> None:
    def work() -> None: ...

    assert repeats_of(us.tool(retries=2, idempotent=True)(work)) == 2
    assert repeats_of(us.tool(retries=2)(work)) == 0


# --- calls for the caller's thread stand in line


def _tool(*, caller: bool, timeout: float | None) -> Tool[..., object]:
    def work() -> None: ...

    return us.tool(isolation="caller" if caller else "thread", timeout=timeout)(work)


def test_each_call_in_line_has_its_own_time_after_that_of_those_before() -> None:
    line: list[tuple[bool, float | None]] = [(True, 1.0), (False, 5.0), (True, 2.0), (False, None)]
    endless: list[tuple[bool, float | None]] = [(True, None), (True, 1.0), (False, 1.0)]

    def due(calls: list[tuple[bool, float | None]], *begun: float) -> list[float | None]:
        deadlines = CallDeadlines()
        return [deadlines.of(_tool(caller=c, timeout=t), now) for (c, t), now in zip(calls, begun, strict=True)]

    assert due(line, 100.0, 100.0, 100.0, 100.0) == [101.0, 105.0, 103.0, None]
    assert due(line, 100.0, 100.0, 100.5, 100.5) == [101.0, 105.0, 103.0, None]
    assert due(line, 100.0, 100.0, 109.0, 109.0) == [101.0, 105.0, 111.0, None]
    assert due(endless, 100.0, 100.0, 100.0) == [None, None, 101.0]
