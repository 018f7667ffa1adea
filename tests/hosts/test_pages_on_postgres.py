"""The pages about stores, whose blocks elsewhere run on SQLite, run on PostgreSQL and print the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(300)

RUNNER = ROOT / "tests" / "support" / "run_page.py"
PAGES = ("memory.md", "sessions.md", "support-chat.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run_on_postgres(name: str, tmp_path: Path, postgres_url: str) -> None:
    page = tmp_path / name
    text, replaced = re.subn(r"sqlite:///[\w/.]+", postgres_url, (ROOT / "docs" / name).read_text())
    page.write_text(text)

    done = subprocess.run(
        [sys.executable, "-I", str(RUNNER), str(page)],
        cwd=tmp_path,
        env={**os.environ, "UNDERSTUDY_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert replaced
    assert not list(tmp_path.glob("*.db"))
