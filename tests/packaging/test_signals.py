"""Tests of Ctrl-C also pass where the parent of pytest ignores it, as `nohup` and many CI shells do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SENDS_AN_INTERRUPT = "tests/actors/test_processes.py::test_an_interrupt_cancels_the_run_it_interrupts"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signal dispositions to inherit")
def test_a_test_that_sends_an_interrupt_passes_where_the_parent_ignores_it() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", SENDS_AN_INTERRUPT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )

    assert done.returncode == 0, done.stdout
