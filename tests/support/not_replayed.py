"""The tests whose runs `pytest --replay` cannot replay yet. The table may only shrink: one that passes fails the session."""

from __future__ import annotations

from collections.abc import Mapping

BY_HAND = "it changes a figure of the state itself, which no run does"
COUNTS = "it counts what a machine does for one report more, and an oracle does more for each"

NOT_REPLAYED: Mapping[str, str] = {
    "tests/orchestration/test_graph.py::test_what_is_new_costs_the_same_however_many_run_besides": COUNTS,
    "tests/orchestration/test_groups.py::test_what_is_new_costs_the_same_however_many_run_besides": COUNTS,
    "tests/orchestration/test_journal_rows.py::test_a_round_after_which_more_has_changed_writes_a_head[tool_calls]": BY_HAND,
}
"""Test, with or without its parameters -> why."""
