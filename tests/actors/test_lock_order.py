"""Locks are taken in one order; docs/architecture.md tells it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.lock_order import cycle_in
from tests.support.paths import ROOT

USED = ("situations", "groups", "conversations", "stored_pauses", "system_events", "max_parallel")
"""Tests that take many locks at once, by the names of their files."""


@pytest.mark.timeout(300)
def test_no_two_locks_are_taken_in_opposite_orders() -> None:
    files = [f"tests/actors/test_{name}.py" for name in USED]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.lock_order", "-p", "no:cacheprovider", *files]

    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
    assert "AgentRunActor -> RunLog" in done.stdout  # it was looked at


@pytest.mark.parametrize(
    ("order", "circle"),
    [
        ([("a", "b"), ("b", "c")], []),
        ([("a", "b"), ("b", "c"), ("c", "a")], ["a", "b", "c", "a"]),
        ([("a", "a")], ["a", "a"]),
        ([("Account", "Account")], []),
    ],
)
def test_a_circle_of_locks_is_found(order: list[tuple[str, str]], circle: list[str]) -> None:
    assert cycle_in(order) == circle
