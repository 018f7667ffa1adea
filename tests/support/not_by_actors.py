"""The tests that do not pass with `pytest --actors`. The table may only shrink: one that passes fails the session."""

from __future__ import annotations

from collections.abc import Mapping

DRIVER = "it patches or stops a part of the driver that an actor does not have"
THREAD = "after calls at once, a run goes on on the thread that ended the last one"
WAITS = "it counts the thread of a driver that waits for calls"

ENDS = "tests/actors/test_endings.py::test_a_run_ends_whatever_fails_at_its_end_and_lets_go_of_all_it_has"
PARTS = ("AgentDriver._pause", "CallbackDispatcher.replaced")

NOT_BY_ACTORS: Mapping[str, str] = {
    **{f"{ENDS}[{part}{when}]": DRIVER for part in PARTS for when in ("", " (after)")},
    "tests/actors/test_callbacks.py::test_a_run_asks_at_every_moment_in_order_on_the_thread_that_drives_it": THREAD,
    "tests/actors/test_no_threads.py::test_of_calls_at_once_those_without_a_thread_become_error_results_and_the_run_goes_on": WAITS,
    "tests/actors/test_parallel_calls.py::test_calls_under_way_are_given_up_when_the_next_one_cannot_begin": DRIVER,
    "tests/actors/test_tool_calls.py::test_a_call_that_was_given_up_before_it_began_is_not_run_and_not_counted_as_hung": DRIVER,
}
"""Test, with or without its parameters -> why."""
