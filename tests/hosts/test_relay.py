"""The example of a run that goes from worker to worker prints what its page says."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.support.paths import ROOT


def test_a_run_goes_on_when_a_worker_dies_in_the_midst_of_a_turn() -> None:
    folder = ROOT / "examples" / "relay"
    (printed,) = re.findall(r"^```text\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)

    done = subprocess.run(
        [sys.executable, str(folder / "relay.py")], capture_output=True, text=True, timeout=100, check=False
    )

    assert done.stderr == ""
    assert done.stdout == printed
