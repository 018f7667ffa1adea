"""The program of the page on durable runs goes on, after it was killed, as the page says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run_page import blocks_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in an SQLite store have no journal there")


def test_the_program_of_the_page_goes_on_after_a_kill_and_sends_nothing_twice(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "durability.md").read_text()
    (program,) = [block.code for block in blocks_of(page) if block.file == "offers.py"]
    (tmp_path / "offers.py").write_text(program)
    command = [sys.executable, "offers.py"]

    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        told = first.stdout.readline()
        assert told == f"sent to ada, now kill -9 {first.pid}\n"
        first.send_signal(signal.SIGKILL)
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    assert first.returncode == -signal.SIGKILL
    assert (again.returncode, again.stdout) == (0, "goes on: Done.\n"), again.stderr
    assert f"$ python offers.py\n{again.stdout}```" in page
    assert len((tmp_path / "sent.txt").read_text().splitlines()) == 1
