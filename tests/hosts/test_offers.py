"""The programs of the page on durable runs go on, after one was killed, as the page says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run_page import blocks_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in an SQLite store have no journal there")


PAGE = (ROOT / "docs" / "durability.md").read_text()


def write_programs(folder: Path) -> None:
    for block in blocks_of(PAGE):
        if block.file is not None:
            (folder / block.file).write_text(block.code)


def run_and_kill(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "offers.py"], cwd=folder, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        told = first.stdout.readline()
        assert told == f"sent to ada, now kill -9 {first.pid}\n"
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL


@pytest.mark.parametrize("program", ["offers.py", "release.py"])
def test_the_next_process_goes_on_after_a_kill_and_sends_nothing_twice(program: str, tmp_path: Path) -> None:
    write_programs(tmp_path)
    run_and_kill(tmp_path)

    command = [sys.executable, program]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

    assert (again.returncode, again.stdout) == (0, "goes on: Done.\n"), again.stderr
    assert f"$ python {program}\n{again.stdout}```" in PAGE
    assert len((tmp_path / "sent.txt").read_text().splitlines()) == 1
