"""The tests whose runs `pytest --replay` cannot replay yet. The table may only shrink: one that passes fails the session."""

from __future__ import annotations

from collections.abc import Mapping

BY_HAND = "it changes a figure of the state itself, which no run does"
COUNTS = "it counts what a machine does for one report more, and an oracle does more for each"
KEEPS = "it counts what is left behind, and an oracle keeps all lines"
OWN = "its runs have an oracle of their own"

NOT_REPLAYED: Mapping[str, str] = {
    "tests/orchestration/test_graph.py::test_what_is_new_costs_the_same_however_many_run_besides": COUNTS,
    "tests/orchestration/test_groups.py::test_what_is_new_costs_the_same_however_many_run_besides": COUNTS,
    "tests/orchestration/test_journal_rows.py::test_a_round_after_which_more_has_changed_writes_a_head[tool_calls]": BY_HAND,
    "tests/soak/test_soak.py::test_every_one_of_many_runs_is_accounted_for_and_nothing_grows": KEEPS,
    "tests/soak/test_soak.py::test_runs_that_were_ended_leave_nothing_behind": KEEPS,
    "tests/soak/test_soak.py::test_the_lines_of_random_runs_come_to_the_states_of_the_runs": OWN,
}
"""Test, with or without its parameters -> why."""
