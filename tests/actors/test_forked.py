"""What a forked child makes anew is called in a fixed order, and all of it, whatever fails."""

from __future__ import annotations

from functools import partial

import pytest

from understudy.actors.threads.forked import ForkRegistry, Stage


def test_a_child_makes_lower_stages_anew_first_and_entries_of_one_stage_as_they_were_added() -> None:
    registry, called = ForkRegistry(), list[str]()
    registry.add(Stage.SYSTEMS, partial(called.append, "a system"))
    registry.add(Stage.THREADS, partial(called.append, "the pool"))
    registry.add(Stage.THREADS, partial(called.append, "the clock"))

    registry.in_child()

    assert called == ["the pool", "the clock", "a system"]


def test_locks_are_taken_in_reverse_before_a_fork_and_released_in_order_after_it() -> None:
    registry, called = ForkRegistry(), list[str]()
    for stage, name in ((Stage.TOOLS, "tools"), (Stage.STORES, "stores")):
        registry.add(
            stage,
            partial(called.append, f"{name} in the child"),
            before=partial(called.append, f"{name} held"),
            in_parent=partial(called.append, f"{name} free"),
        )

    registry.before()
    registry.in_parent()

    assert called == ["stores held", "tools held", "tools free", "stores free"]


def test_an_entry_without_a_part_in_the_parent_is_called_in_the_child_alone() -> None:
    registry, called = ForkRegistry(), list[str]()
    registry.add(Stage.WAITS, partial(called.append, "in the child"))

    registry.before()
    registry.in_parent()
    assert called == []

    registry.in_child()
    assert called == ["in the child"]


def test_an_entry_that_fails_keeps_no_other_from_being_called_and_its_error_is_raised() -> None:
    registry, called = ForkRegistry(), list[str]()

    def fail(word: str) -> None:
        raise ValueError(word)

    registry.add(Stage.THREADS, partial(fail, "the first"))
    registry.add(Stage.WAITS, partial(fail, "the second"))
    registry.add(Stage.SYSTEMS, partial(called.append, "a system"))

    with pytest.raises(ValueError, match="the first"):
        registry.in_child()

    assert called == ["a system"]
