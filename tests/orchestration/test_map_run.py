"""`MapRun`: when a map takes one more input, what it hands out next, and when it ends."""

from __future__ import annotations

from understudy.errors import RunError
from understudy.orchestration.group.map_run import AwaitAnswers, HandOut, MapDone, MapFailed, MapRun, TakeInput
from understudy.vocabulary.runs.outcomes import Complete, MapAnswer, MapFailure


def a_map(max_parallel: int = 2, *, ordered: bool = False, keep_errors: bool = False) -> MapRun:
    return MapRun(max_parallel=max_parallel, ordered=ordered, keep_errors=keep_errors)


def answer(index: int) -> MapAnswer[object]:
    return MapAnswer(index, Complete(text=str(index), output=str(index)))


def failure(index: int) -> MapFailure:
    return MapFailure(index, RunError(f"input {index}"))


def taken(run: MapRun) -> int:
    """Take inputs for as long as the machine says so; returns how many."""
    count = 0
    while run.next_step() == TakeInput():
        count += 1
        run.took()
    return count


def handed_out(run: MapRun) -> list[int]:
    """Hand out for as long as the machine says so, and return the indexes."""
    found: list[int] = []
    while isinstance(step := run.next_step(), HandOut):
        found.append(step.answer.index)
        run.handed_out()
    return found


def test_a_map_without_inputs_is_done() -> None:
    run = a_map()
    run.no_more_inputs()

    assert run.next_step() == MapDone()


def test_as_many_inputs_are_taken_as_runs_may_be_under_way() -> None:
    run = a_map(3)

    assert taken(run) == 3
    assert run.next_step() == AwaitAnswers()


def test_an_answer_that_was_not_handed_out_keeps_the_place_of_its_run() -> None:
    run = a_map(2)
    taken(run)

    run.answered(answer(1))

    assert run.next_step() == HandOut(answer(1))
    run.handed_out()
    assert run.next_step() == TakeInput()


def test_answers_come_as_the_runs_end() -> None:
    run = a_map(3)
    taken(run)
    run.no_more_inputs()

    for index in (2, 0, 1):
        run.answered(answer(index))

    assert handed_out(run) == [2, 0, 1]
    assert run.next_step() == MapDone()


def test_in_order_an_answer_waits_for_those_before_it() -> None:
    run = a_map(3, ordered=True)
    taken(run)

    run.answered(answer(1))
    assert not isinstance(run.next_step(), HandOut)
    run.answered(answer(0))
    taken(run)

    assert handed_out(run)[:2] == [0, 1]


def test_in_order_one_slow_run_lets_only_as_many_pass_as_may_run() -> None:
    run = a_map(2, ordered=True)
    count = taken(run)

    for index in range(1, 10):
        if index < count:
            run.answered(answer(index))
        count += taken(run)

    assert count == 4
    assert run.next_step() == AwaitAnswers()


def test_a_failure_ends_the_map_after_the_answers_before_it() -> None:
    run = a_map(3)
    taken(run)

    run.answered(answer(1))
    run.answered(broken := failure(0))
    run.answered(answer(2))

    assert run.failure is broken
    assert handed_out(run) == [1]
    assert run.next_step() == MapFailed(broken)


def test_no_input_is_taken_after_a_failure() -> None:
    run = a_map(2)
    taken(run)

    run.answered(failure(0))

    assert not isinstance(run.next_step(), TakeInput)


def test_failures_that_are_kept_are_answers_like_others() -> None:
    run = a_map(2, keep_errors=True)
    taken(run)
    run.no_more_inputs()

    run.answered(failure(0))
    run.answered(answer(1))

    assert run.failure is None
    assert handed_out(run) == [0, 1]
    assert run.next_step() == MapDone()
